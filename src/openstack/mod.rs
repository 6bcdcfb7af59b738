//! Contrabass, Keystone, Neutron and Nova behind one `Cloud`.
