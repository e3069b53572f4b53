//! The command line.

mod add_scram;
pub mod arguments;
pub mod settings;

pub use add_scram::AddScram;
pub use arguments::{Arguments, Command, Form, UsageError};
