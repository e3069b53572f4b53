//! The broker.

pub mod config;
