//! The broker.

pub mod config;
pub mod wire;
