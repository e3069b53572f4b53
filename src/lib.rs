//! The broker.

pub mod admin;
pub mod api;
pub mod authorizer;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod coordinator;
pub mod group;
pub mod login;
pub mod serve;
pub mod session;
pub mod txn;
pub mod wire;
