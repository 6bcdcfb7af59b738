//! Contrabass, Keystone, Neutron and Nova behind one `Cloud`.
//!
//! A round takes this way: [`OpenstackCloud`] → the config's binding and its session (`sessions`: Secrets,
//! `contrabass`, `keystone`, within the account's `budget`) → the endpoints of the `catalog` → `subnets`,
//! `neutron` and `names`, each by authorised requests (`api`) in the cloud's turn (`http`).

mod api;
mod budget;
mod cache;
mod catalog;
mod chunks;
mod cipher;
mod cloud;
mod contrabass;
mod errors;
mod fingerprint;
mod flight;
mod http;
mod keystone;
mod names;
mod neutron;
mod nova;
mod pages;
mod patience;
mod ports;
mod secrets;
mod service;
mod sessions;
mod subnets;
mod url_parts;

pub use cloud::{OpenstackCloud, OpenstackSettings};
