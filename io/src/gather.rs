//! The bytes of one direct write, taken from where they lie as far as that can be done.

use bytes::Bytes;

use crate::aligned::AlignedBuf;
use crate::limits::BLOCK_BYTES;

/// Whole blocks for a direct write, in order. What lies in memory as it is to lie in the file, a block
/// beginning at a block, is shared; the rest is copied, and the end padded with zeros.
///
/// Made on a core; may move to any thread.
pub struct Gather {
    parts: Vec<Part>,
    len: usize,
}

enum Part {
    Shared(Bytes),
    Copied(AlignedBuf),
}

/// A shorter run of blocks is copied: a part more costs the system about as much.
pub const SHARED_BYTES_MIN: usize = 16 * 1024;

const _: () = assert!(SHARED_BYTES_MIN.is_multiple_of(BLOCK_BYTES));

impl Gather {
    /// The bytes of `pieces`, one behind the other; the first is to stand at the start of a block.
    ///
    /// Costs an allocation for each stretch that is copied, and one for the list.
    ///
    /// # Panics
    /// When there are none.
    pub fn of(pieces: &[Bytes]) -> Gather {
        let mut gather = Gather { parts: Vec::new(), len: 0 };
        let (mut at, mut copied) = (0, Vec::new());
        for piece in pieces {
            let shared = shared_of(piece, at);
            at += piece.len();
            if shared.is_empty() {
                copied.push(&piece[..]);
                continue;
            }
            copied.push(&piece[..shared.start]);
            gather.copy(&mut copied);
            copied.push(&piece[shared.end..]);
            gather.len += shared.len();
            gather.parts.push(Part::Shared(piece.slice(shared)));
        }
        gather.copy(&mut copied);
        assert!(gather.len > 0, "{} pieces hold no byte to write", pieces.len());
        gather
    }

    /// A copy of all bytes of `slices`.
    ///
    /// # Panics
    /// When there are none.
    pub fn copied(slices: &[&[u8]]) -> Gather {
        let bytes = AlignedBuf::of(slices);
        Gather { len: bytes.as_ref().len(), parts: vec![Part::Copied(bytes)] }
    }

    /// Bytes in it: whole blocks.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Where they lie: each starts at a block boundary of memory and is whole blocks long.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(|part| match part {
            Part::Shared(bytes) => &bytes[..],
            Part::Copied(bytes) => bytes.as_ref(),
        })
    }

    /// Bytes that were not copied.
    pub fn shared_bytes(&self) -> usize {
        let shared = self.parts.iter().map(|part| match part {
            Part::Shared(bytes) => bytes.len(),
            Part::Copied(_) => 0,
        });
        shared.sum()
    }

    /// Copies all of it.
    ///
    /// # Panics
    /// When `into` is of another length.
    pub fn copy_to(&self, into: &mut [u8]) {
        assert!(into.len() == self.len, "{} bytes do not fill {}", self.len, into.len());
        let mut done = 0;
        for slice in self.slices() {
            into[done..done + slice.len()].copy_from_slice(slice);
            done += slice.len();
        }
    }

    fn copy(&mut self, slices: &mut Vec<&[u8]>) {
        if slices.iter().any(|slice| !slice.is_empty()) {
            let bytes = AlignedBuf::of(slices);
            self.len += bytes.as_ref().len();
            self.parts.push(Part::Copied(bytes));
        }
        slices.clear();
    }
}

/// The blocks of a piece that starts at byte `at` which lie in memory as in the file.
fn shared_of(piece: &[u8], at: usize) -> std::ops::Range<usize> {
    let start = at.next_multiple_of(BLOCK_BYTES) - at;
    let in_place = piece.as_ptr().addr().wrapping_add(start).is_multiple_of(BLOCK_BYTES);
    let blocks = piece.len().saturating_sub(start) / BLOCK_BYTES * BLOCK_BYTES;
    if in_place && blocks >= SHARED_BYTES_MIN { start..start + blocks } else { 0..0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{Buf, BytesMut};
    use proptest::prelude::*;

    /// `len` bytes whose first lies `behind` bytes behind a block boundary of memory.
    fn piece(len: usize, behind: usize, seed: u8) -> Bytes {
        let mut bytes = BytesMut::zeroed(len + 2 * BLOCK_BYTES);
        let addr = bytes.as_ptr().addr();
        bytes.advance(addr.next_multiple_of(BLOCK_BYTES) - addr + behind % BLOCK_BYTES);
        bytes.truncate(len);
        bytes.iter_mut().enumerate().for_each(|(i, b)| *b = (i as u8).wrapping_mul(7) ^ seed);
        bytes.freeze()
    }

    #[test]
    fn what_lies_as_in_the_file_is_not_copied_but_for_the_blocks_at_its_ends() {
        let (first, second) = (900_000, 1_100_000);
        let pieces = [piece(first, 0, 1), piece(second, first, 2)];
        let gather = Gather::of(&pieces);
        let whole = (first + second).next_multiple_of(BLOCK_BYTES);
        assert_eq!(gather.len(), whole);
        assert_eq!(whole - gather.shared_bytes(), 2 * BLOCK_BYTES, "where they meet, and the end");
        assert_eq!(gather.slices().count(), 4);
    }

    #[test]
    fn what_lies_otherwise_is_copied_into_one_part() {
        let gather = Gather::of(&[piece(200_000, 1, 1), piece(100, 200_000, 2), piece(9, 0, 3)]);
        assert_eq!((gather.shared_bytes(), gather.slices().count()), (0, 1));
    }

    #[test]
    #[should_panic(expected = "no byte to write")]
    fn nothing_is_no_write() {
        Gather::of(&[]);
    }

    proptest! {
        /// Goal: the write holds the bytes of its pieces in order, zeros behind them, in blocks.
        #[test]
        fn it_holds_the_bytes_of_its_pieces(
            pieces in proptest::collection::vec((1_usize..70_000, any::<Option<u16>>()), 1..6)
        ) {
            let (mut at, mut made, mut bytes) = (0, Vec::new(), Vec::new());
            for (i, (len, misplaced)) in pieces.into_iter().enumerate() {
                let piece = piece(len, misplaced.map_or(at, usize::from), i as u8);
                at += len;
                bytes.extend_from_slice(&piece);
                made.push(piece);
            }
            let gather = Gather::of(&made);
            bytes.resize(at.next_multiple_of(BLOCK_BYTES), 0);
            let mut got = vec![1; gather.len()];
            gather.copy_to(&mut got);
            prop_assert_eq!(&got, &bytes);
            for slice in gather.slices() {
                prop_assert!(slice.as_ptr().addr().is_multiple_of(BLOCK_BYTES));
                prop_assert!(!slice.is_empty() && slice.len().is_multiple_of(BLOCK_BYTES));
            }
            let slices: Vec<&[u8]> = made.iter().map(|piece| &piece[..]).collect();
            Gather::copied(&slices).copy_to(&mut got);
            prop_assert_eq!(got, bytes);
        }
    }
}
