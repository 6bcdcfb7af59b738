//! The OpenStack adapter against a small cloud on loopback that misbehaves on demand.

#![allow(clippy::unwrap_used, clippy::panic)]

mod bench;
mod fake;
mod neutron;
mod nova;
mod real;
mod sessions;
