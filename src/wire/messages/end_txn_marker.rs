//! The value of a control record that ends a transaction in a partition (KIP-98).

use crate::wire::declare::wire;

wire! {
    /// Written by the partition's leader; its version (`i16`) stands in front.
    data EndTxnMarker versions 0-0 {
        coordinator_epoch: i32;
    }
}
