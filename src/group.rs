//! Groups of consumers: who is in one, and who reads what.

pub mod classic;
pub mod consumer;
