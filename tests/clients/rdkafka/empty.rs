//! Nothing: cargo wants a target, and is only asked for sources.
