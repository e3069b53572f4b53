//! The settings of the broker that concern its connections.

use super::broker::{NO_MAX, live, parsed, start};
use super::setting::{Allowed, Setting};

/// Part of the broker's table of settings.
pub(super) const SOCKET_SETTINGS: &[Setting] = &[
    start(
        "connections.max.idle.ms",
        Allowed::Long { min: 1000, max: i64::MAX },
        Some("600000"),
        "A connection that sends nothing and waits for nothing for this long is closed.",
    ),
    start(
        "connections.max.write.stall.ms",
        Allowed::Long { min: 1000, max: i64::MAX },
        Some("60000"),
        "A connection whose peer takes no byte of an answer for this long is closed. This setting \
         is Millstream's own.",
    ),
    live(
        "max.connections",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("2147483647"),
        "The most connections at one time, over all cores together; more are closed at once.",
    ),
    live(
        "max.connections.per.ip",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("2147483647"),
        "The most connections at one time from one address, over all cores together; more are \
         closed at once.",
    ),
    start(
        "socket.receive.buffer.bytes",
        Allowed::Int { min: -1, max: NO_MAX },
        Some("-1"),
        "How much of a connection's data the kernel may hold for this broker (SO_RCVBUF); -1 lets the \
         kernel decide, connection by connection.",
    ),
    start(
        "socket.request.max.bytes",
        Allowed::Int { min: 1024, max: NO_MAX },
        Some("104857600"),
        "The largest request; a connection that announces a larger one is closed.",
    ),
    start(
        "socket.send.buffer.bytes",
        Allowed::Int { min: -1, max: NO_MAX },
        Some("131072"),
        "How much of an answer the kernel may hold for a connection (SO_SNDBUF); -1 lets it decide, up \
         to megabytes, which suits readers far away. More than a CPU's cache holds costs it time.",
    ),
];

/// What connections are held to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketConfig {
    pub idle_ms_max: u64,
    pub write_stall_ms_max: u64,
    pub request_bytes_max: u32,
    pub connections_max: u32,
    pub connections_per_ip_max: u32,
    /// SO_SNDBUF and SO_RCVBUF; `None` where the kernel is to decide.
    pub send_buffer_bytes: Option<u32>,
    pub receive_buffer_bytes: Option<u32>,
}

impl SocketConfig {
    pub(super) fn resolve(value: &impl Fn(&'static str) -> Option<String>) -> SocketConfig {
        let bytes_or_any = |name| u32::try_from(parsed::<i32>(value, name)).ok();
        SocketConfig {
            idle_ms_max: parsed(value, "connections.max.idle.ms"),
            write_stall_ms_max: parsed(value, "connections.max.write.stall.ms"),
            request_bytes_max: parsed(value, "socket.request.max.bytes"),
            connections_max: parsed(value, "max.connections"),
            connections_per_ip_max: parsed(value, "max.connections.per.ip"),
            send_buffer_bytes: bytes_or_any("socket.send.buffer.bytes"),
            receive_buffer_bytes: bytes_or_any("socket.receive.buffer.bytes"),
        }
    }
}
