//! The inventory file.
