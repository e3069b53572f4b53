//! The command line.

pub mod arguments;
pub mod settings;

pub use arguments::{Arguments, Command, Form, UsageError};
