//! Flags and environment.
