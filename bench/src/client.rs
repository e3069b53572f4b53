//! Connections, requests and checks: what all loads share.

mod admin;
mod driver;
mod frame;
mod output;
mod verify;

pub use admin::{Admin, Topic};
pub use driver::{Driver, Response};
pub use frame::{
    FetchAnswer, Frame, ProduceAnswer, Versions, body, fetch, produce, read_fetch, read_produce,
};
pub use output::{Composer, Outputs};
pub use verify::{Expect, Verifier};
