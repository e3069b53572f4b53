//! The doors: sockets, frames in, answers out.
//!
//! Each core listens on every address, accepts its share of the connections and serves each in
//! one task. Bounds are in [`limits`]; a full one makes the door stop reading, never drop.

pub mod admission;
pub mod connection;
pub mod door;
pub mod frame_buffer;
pub mod limits;
pub mod listener_task;
pub mod marks;
pub mod memory;
pub mod pipeline;
pub mod reaper_task;
pub mod send;
