//! What a power cut does to what was not synced.

use super::rng::SimRng;

/// The fate of what was not synced when the power goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrashMode {
    /// Only synced bytes and names survive.
    LoseAll,
    /// Everything survives, as at a kill of the process.
    KeepAll,
    /// Each sector and each name on its own, by chance.
    Random,
    /// As `Random`, and a sector that was being written may hold neither the old nor the new bytes:
    /// a disk that does not promise whole sectors.
    Torn,
}

/// A seed, and the mode drawn from it.
#[derive(Clone, Debug)]
pub(super) struct Luck {
    pub mode: CrashMode,
    pub rng: SimRng,
}

impl Luck {
    /// Seeds spread over the modes, so that a sweep meets the extremes often.
    pub(super) fn of_seed(seed: u64) -> Luck {
        let mut rng = SimRng::new(seed);
        let mode = match rng.below(4) {
            0 => CrashMode::LoseAll,
            1 => CrashMode::KeepAll,
            _ => CrashMode::Random,
        };
        Luck { mode, rng }
    }
}
