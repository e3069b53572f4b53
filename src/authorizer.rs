//! Who may do what: the principals that clients act as.

pub mod principal;
