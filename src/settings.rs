//! Flags and environment.

pub mod values;
