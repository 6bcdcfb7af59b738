//! `OpenstackConfig` and `Secret` objects from a folder.
