//! The broker.

pub mod api;
pub mod cluster;
pub mod config;
pub mod wire;
