//! The workloads that come with this program: `bench/workloads`.

/// Name and text.
pub const NAMED: &[(&str, &str)] = &[
    ("backfill", include_str!("../../workloads/backfill.yaml")),
    ("batched-1k", include_str!("../../workloads/batched-1k.yaml")),
    ("codec-gzip", include_str!("../../workloads/codec-gzip.yaml")),
    ("codec-lz4", include_str!("../../workloads/codec-lz4.yaml")),
    ("codec-snappy", include_str!("../../workloads/codec-snappy.yaml")),
    ("codec-zstd", include_str!("../../workloads/codec-zstd.yaml")),
    ("end-to-end", include_str!("../../workloads/end-to-end.yaml")),
    ("fetch", include_str!("../../workloads/fetch.yaml")),
    ("keyed", include_str!("../../workloads/keyed.yaml")),
    ("many-connections", include_str!("../../workloads/many-connections.yaml")),
    ("single-record", include_str!("../../workloads/single-record.yaml")),
    ("single-record-steady", include_str!("../../workloads/single-record-steady.yaml")),
    ("ten-partitions", include_str!("../../workloads/ten-partitions.yaml")),
    ("ten-thousand-partitions", include_str!("../../workloads/ten-thousand-partitions.yaml")),
    ("thousand-partitions", include_str!("../../workloads/thousand-partitions.yaml")),
    ("thousand-partitions-steady", include_str!("../../workloads/thousand-partitions-steady.yaml")),
    ("transactions-1", include_str!("../../workloads/transactions-1.yaml")),
    ("transactions-10", include_str!("../../workloads/transactions-10.yaml")),
    ("transactions-100", include_str!("../../workloads/transactions-100.yaml")),
];
