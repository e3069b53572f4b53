//! When a data directory was last written to: the last sign of life of the broker that had it.

use std::fs::Metadata;
use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::data_dir::Layout;
use crate::units::TimestampMs;

/// The newest time of change of what a running broker writes: its journals and its metadata. `None`
/// when there is nothing yet. Blocking; for the start.
pub fn last_written(layout: &Layout) -> Option<TimestampMs> {
    let journals = entries(&layout.journals());
    let dirs = journals.into_iter().chain([layout.cluster()]);
    let files = dirs.flat_map(|dir| entries(&dir));
    files.filter_map(|file| modified(&std::fs::metadata(file).ok()?)).max()
}

/// When a file was last written to, as its file system says.
pub(crate) fn modified(meta: &Metadata) -> Option<TimestampMs> {
    let since = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok().map(TimestampMs::new)
}

fn entries(dir: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn newest_file_of_journal_or_metadata_tells() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        assert_eq!(last_written(&layout), None);
        let set = |path: std::path::PathBuf, seconds| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = std::fs::File::create(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        };
        set(layout.journals().join("0").join("a"), 1000);
        set(layout.journals().join("1").join("b"), 2000);
        set(layout.topics().join("t").join("0"), 9000);
        assert_eq!(last_written(&layout), Some(TimestampMs::new(2_000_000)));
        set(layout.cluster().join("store"), 3000);
        assert_eq!(last_written(&layout), Some(TimestampMs::new(3_000_000)));
    }
}
