//! Ground floor.
