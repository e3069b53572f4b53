//! Cores.
