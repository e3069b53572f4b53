//! Content of one simulated file: what a reader sees, what a power cut leaves, and all between.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::crash::{CrashMode, Luck};
use crate::limits::SECTOR_BYTES;
use crate::units::{bytes_u64, bytes_usize};

/// How many of the sectors that were being written hold rubbish after a [`CrashMode::Torn`].
const TORN_PERCENT: u64 = 15;
const RUBBISH: u8 = 0x5a;

type Sector = Arc<[u8; SECTOR_BYTES]>;
/// What a sector may hold; `None` is a sector nobody wrote, which reads as zeros.
type State = Option<Sector>;

const SECTOR: u64 = bytes_u64(SECTOR_BYTES);

/// Live and durable image of one file, by sectors.
///
/// Between the two images lie, for each sector, all states it went through since it was last
/// synced: a power cut leaves any one of them, independently of its neighbours. So writes are lost,
/// torn at sectors and reordered.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    live: BTreeMap<u64, Sector>,
    durable: BTreeMap<u64, Sector>,
    /// Sector number -> its states since the durable one, oldest first; the last one is live.
    unsynced: BTreeMap<u64, Vec<State>>,
    len_live: u64,
    len_durable: u64,
    len_unsynced: Vec<u64>,
    allocated: u64,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len_live
    }

    /// First byte that was never written.
    pub(super) fn blank_from(&self) -> u64 {
        let written = self.live.keys().zip(0..).take_while(|(number, due)| *number == due).count();
        (bytes_u64(written) * SECTOR).min(self.len_live)
    }

    /// Bytes the file takes of the disk.
    pub(super) fn space(&self) -> u64 {
        self.allocated.max(self.len_live)
    }

    pub(super) fn read(&self, buf: &mut [u8], at: u64) -> usize {
        let got = bytes_usize(self.len_live.saturating_sub(at)).min(buf.len());
        for_each_sector(at, got, |number, within, range| {
            let out = &mut buf[range];
            match self.live.get(&number) {
                Some(sector) => out.copy_from_slice(&sector[within..within + out.len()]),
                None => out.fill(0),
            }
        });
        got
    }

    pub(super) fn write(&mut self, bytes: &[u8], at: u64) {
        for_each_sector(at, bytes.len(), |number, within, range| {
            let new = &bytes[range];
            let mut sector = self.live.get(&number).map_or([0; SECTOR_BYTES], |s| **s);
            sector[within..within + new.len()].copy_from_slice(new);
            self.set(number, Some(Arc::new(sector)));
        });
        let end = at + bytes_u64(bytes.len());
        if end > self.len_live {
            self.set_len_live(end);
        }
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len_live {
            let cut: Vec<u64> = self.live.range(len / SECTOR..).map(|(n, _)| *n).collect();
            for number in cut {
                let keep = bytes_usize(len.saturating_sub(number * SECTOR)).min(SECTOR_BYTES);
                let mut sector = self.live.get(&number).map_or([0; SECTOR_BYTES], |s| **s);
                sector[keep..].fill(0);
                self.set(number, if keep == 0 { None } else { Some(Arc::new(sector)) });
            }
            self.allocated = self.allocated.min(len);
        }
        self.set_len_live(len);
    }

    pub(super) fn allocate(&mut self, len: u64) {
        self.allocated = self.allocated.max(len);
        if len > self.len_live {
            self.set_len_live(len);
        }
    }

    /// A sync that succeeds: all that is live and was not lost before is durable.
    pub(super) fn sync(&mut self) {
        for (number, states) in std::mem::take(&mut self.unsynced) {
            if let Some(state) = states.into_iter().next_back() {
                put(&mut self.durable, number, state);
            }
        }
        if let Some(len) = self.len_unsynced.pop() {
            self.len_durable = len;
            self.len_unsynced.clear();
        }
    }

    /// What a write with O_DSYNC makes durable: its own sectors, and the length they need.
    pub(super) fn sync_range(&mut self, at: u64, len: usize) {
        for_each_sector(at, len, |number, _, _| {
            if self.unsynced.remove(&number).is_some() {
                put(&mut self.durable, number, self.live.get(&number).cloned());
            }
        });
        self.len_durable = self.len_durable.max((at + bytes_u64(len)).min(self.len_live));
    }

    /// A sync that fails: some of the pages reached the disk, the others are clean now and lost,
    /// though readers still see them. A later sync will not write them.
    pub(super) fn fail_sync(&mut self, luck: &mut Luck) {
        self.settle(luck);
        self.len_unsynced.clear();
    }

    /// The power went: what is durable, plus whatever luck left of the rest, is all there is.
    pub(super) fn crash(&mut self, luck: &mut Luck) {
        self.settle(luck);
        let lens = std::mem::take(&mut self.len_unsynced);
        match luck.mode {
            CrashMode::LoseAll => {}
            CrashMode::KeepAll => self.len_durable = self.len_live,
            CrashMode::Random | CrashMode::Torn => {
                let pick = luck.rng.index(lens.len() + 1);
                if let Some(len) = lens.get(pick) {
                    self.len_durable = *len;
                }
            }
        }
        self.allocated = self.allocated.min(self.len_durable);
        self.cut_durable();
        self.live = self.durable.clone();
        self.len_live = self.len_durable;
    }

    /// Damages one byte in both images, behind the back of everybody.
    pub(super) fn flip(&mut self, at: u64, mask: u8) {
        for image in [&mut self.live, &mut self.durable] {
            if let Some(sector) = image.get_mut(&(at / SECTOR)) {
                Arc::make_mut(sector)[bytes_usize(at % SECTOR)] ^= mask;
            }
        }
    }

    fn set(&mut self, number: u64, state: State) {
        put(&mut self.live, number, state.clone());
        self.unsynced.entry(number).or_default().push(state);
    }

    fn set_len_live(&mut self, len: u64) {
        self.len_live = len;
        self.len_unsynced.push(len);
    }

    /// Lets luck pick, for each sector that was not synced, which of its states the disk has.
    fn settle(&mut self, luck: &mut Luck) {
        for (number, states) in std::mem::take(&mut self.unsynced) {
            let pick = match luck.mode {
                CrashMode::LoseAll => 0,
                CrashMode::KeepAll => states.len(),
                CrashMode::Random => luck.rng.index(states.len() + 1),
                CrashMode::Torn if luck.rng.chance(TORN_PERCENT) => {
                    put(&mut self.durable, number, Some(Arc::new([RUBBISH; SECTOR_BYTES])));
                    continue;
                }
                CrashMode::Torn => luck.rng.index(states.len() + 1),
            };
            if let Some(state) = pick.checked_sub(1).and_then(|i| states.into_iter().nth(i)) {
                put(&mut self.durable, number, state);
            }
        }
    }

    /// Drops what lies behind the durable length, so that growing the file again finds zeros.
    fn cut_durable(&mut self) {
        let len = self.len_durable;
        self.durable.split_off(&len.div_ceil(SECTOR));
        let within = bytes_usize(len % SECTOR);
        if within != 0
            && let Some(sector) = self.durable.get_mut(&(len / SECTOR))
        {
            Arc::make_mut(sector)[within..].fill(0);
        }
    }
}

fn put(image: &mut BTreeMap<u64, Sector>, number: u64, state: State) {
    match state {
        Some(sector) => image.insert(number, sector),
        None => image.remove(&number),
    };
}

/// Calls `each(sector number, start within the sector, range of the buffer)` for `len` bytes at `at`.
fn for_each_sector(at: u64, len: usize, mut each: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let position = at + bytes_u64(done);
        let within = bytes_usize(position % SECTOR);
        let step = (SECTOR_BYTES - within).min(len - done);
        each(position / SECTOR, within, done..done + step);
        done += step;
    }
}
