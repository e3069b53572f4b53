//! How the broker is, in words for a person and for a supervisor.

use millstream_shards::metrics::Levels;
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};

/// How far the broker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Partitions are brought back and doors opened.
    Starting,
    /// Every partition is open and every listener accepts.
    Running,
    Stopping,
}

/// The state of a data directory, the gravest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DirectoryState {
    Ok,
    /// No space: nothing is stored until there is.
    Full,
    /// A flush takes longer than the watchdog allows: nothing is stored until it ends.
    Stalled,
    /// A write failed: nothing is stored until a restart.
    Failed,
}

/// A data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Directory {
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    pub state: DirectoryState,
}

impl Directory {
    pub fn new(path: PathBuf) -> Directory {
        Directory { path, state: DirectoryState::Ok }
    }

    /// Takes into account what one core says of it.
    pub fn add(&mut self, levels: &Levels) {
        let said = match levels {
            Levels { failed: 1.., .. } => DirectoryState::Failed,
            Levels { stalled: 1.., .. } => DirectoryState::Stalled,
            Levels { full: 1.., .. } => DirectoryState::Full,
            _ => DirectoryState::Ok,
        };
        self.state = self.state.max(said);
    }
}

/// The broker at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub phase: Phase,
    pub directories: Vec<Directory>,
    /// Cores that have said nothing for long.
    pub silent_cores: Vec<usize>,
}

impl Health {
    /// The answer to `/healthz`, one line of JSON.
    ///
    /// # Panics
    /// Never: plain words and numbers have a JSON.
    pub fn json(&self) -> String {
        let shown = Shown {
            state: self.worst(),
            phase: self.phase,
            storage_stalled: self.directories.iter().any(|d| d.state == DirectoryState::Stalled),
            directories: &self.directories,
            silent_cores: &self.silent_cores,
        };
        match serde_json::to_string(&shown) {
            Ok(json) => json + "\n",
            Err(error) => panic!("health has no JSON: {error}"),
        }
    }

    /// Why clients should not be sent here now, if so: records cannot be produced.
    pub fn unready(&self) -> Option<String> {
        match self.phase {
            Phase::Starting => return Some("starting: partitions are being opened".to_owned()),
            Phase::Stopping => return Some("stopping".to_owned()),
            Phase::Running => {}
        }
        if let Some(core) = self.silent_cores.first() {
            return Some(format!("core {core} does not answer"));
        }
        let ill = self.directories.iter().find(|d| d.state != DirectoryState::Ok)?;
        let path = ill.path.display();
        Some(match ill.state {
            DirectoryState::Failed => {
                format!("data directory {path} failed a write: repair it and restart the broker")
            }
            DirectoryState::Stalled => format!("data directory {path} hangs"),
            DirectoryState::Full | DirectoryState::Ok => format!("data directory {path} is full"),
        })
    }

    fn worst(&self) -> DirectoryState {
        let states = self.directories.iter().map(|directory| directory.state);
        states.max().unwrap_or(DirectoryState::Ok)
    }
}

/// A path need not be UTF-8.
fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

#[derive(Serialize)]
struct Shown<'a> {
    state: DirectoryState,
    phase: Phase,
    storage_stalled: bool,
    directories: &'a [Directory],
    silent_cores: &'a [usize],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(phase: Phase, levels: &[Levels]) -> Health {
        let mut directory = Directory::new(PathBuf::from("/d"));
        levels.iter().for_each(|levels| directory.add(levels));
        Health { phase, directories: vec![directory], silent_cores: Vec::new() }
    }

    #[test]
    fn the_gravest_of_all_cores_is_told_and_ends_readiness() {
        let (well, full) = (Levels::default(), Levels { full: 1, ..Levels::default() });
        let stalled = Levels { stalled: 1, ..Levels::default() };
        let failed = Levels { failed: 1, full: 1, ..Levels::default() };
        for (levels, state, reason) in [
            (vec![well], "ok", None),
            (vec![full, well], "full", Some("full")),
            (vec![well, stalled, full], "stalled", Some("hangs")),
            (vec![stalled, failed, well], "failed", Some("restart")),
        ] {
            let health = health(Phase::Running, &levels);
            let json = health.json();
            assert!(json.contains(&format!("\"path\":\"/d\",\"state\":\"{state}\"")), "{json}");
            assert!(json.starts_with(&format!("{{\"state\":\"{state}\"")), "{json}");
            assert_eq!(json.contains("\"storage_stalled\":true"), state == "stalled");
            let told = health.unready();
            assert_eq!(told.is_none(), reason.is_none());
            assert!(told.unwrap_or_default().contains(reason.unwrap_or_default()));
        }
    }

    #[test]
    fn nothing_is_ready_before_and_after_the_broker_runs() {
        assert!(health(Phase::Starting, &[]).unready().unwrap().starts_with("starting"));
        assert_eq!(health(Phase::Stopping, &[]).unready().unwrap(), "stopping");
        let silent = Health { silent_cores: vec![3], ..health(Phase::Running, &[]) };
        assert_eq!(silent.unready().unwrap(), "core 3 does not answer");
        assert!(silent.json().contains("\"phase\":\"running\"") && silent.json().contains("[3]"));
    }
}
