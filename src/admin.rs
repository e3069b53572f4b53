//! Metrics, health and readiness over HTTP, by one thread that is no core.
//!
//! A core is asked when somebody asks us, and answers with copies ([`core_task`]); scrapes within a
//! second share one round of questions ([`watch`]). So nothing is counted for us on the way of a
//! record beyond plain numbers of its core, an idle core is never woken, and a disk that hangs
//! holds up no answer.

pub mod core_task;
pub mod families;
pub mod health;
pub mod http;
pub mod limits;
mod process;
mod render;
mod render_coordinators;
mod render_cores;
mod render_groups;
mod text;
pub mod watch;
