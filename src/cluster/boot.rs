//! What is done with the metadata store at a start, before anything else uses it.

use super::controller::TopicDirectories;
use super::store::{MetadataChange, MetadataStore, StoreError, Stored};
use millstream_io::runtime::log;
use std::fmt;
use std::time::Duration;

/// Why the metadata does not let the broker start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootError {
    Store(StoreError),
    /// The store was written by a broker of another cluster.
    OtherCluster {
        stored: String,
        directory: String,
    },
    NoRandom {
        reason: String,
    },
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::NoRandom { reason } => write!(f, "the system has no random bytes: {reason}"),
            Self::OtherCluster { stored, directory } => write!(
                f,
                "the metadata store belongs to cluster {stored} and meta.properties to cluster \
                 {directory}: two data directories were mixed; put back the right __cluster \
                 directory"
            ),
        }
    }
}

impl std::error::Error for BootError {}

impl From<StoreError> for BootError {
    fn from(error: StoreError) -> BootError {
        BootError::Store(error)
    }
}

/// Counts this start, durably, and finishes deletions that a crash cut short.
///
/// # Errors
/// [`BootError`].
pub fn boot(
    store: &mut impl MetadataStore,
    cluster_id: &str,
    directories: &mut impl TopicDirectories,
) -> Result<Stored, BootError> {
    let mut stored = store.load()?;
    let mut changes = vec![MetadataChange::SetStarts(stored.starts + 1)];
    match &stored.cluster_id {
        None => changes.push(MetadataChange::SetClusterId(cluster_id.to_owned())),
        Some(id) if id == cluster_id => {}
        Some(id) => {
            let (stored, directory) = (id.clone(), cluster_id.to_owned());
            return Err(BootError::OtherCluster { stored, directory });
        }
    }
    if stored.salt_secret.is_empty() {
        let mut secret = vec![0; SALT_SECRET_BYTES];
        let filled = getrandom::fill(&mut secret);
        filled.map_err(|error| BootError::NoRandom { reason: error.to_string() })?;
        changes.push(MetadataChange::SetSaltSecret(secret));
    }
    for (id, name) in &stored.tombstones {
        match directories.set_aside(name, *id, Duration::ZERO) {
            Ok(()) => changes.push(MetadataChange::RemoveTombstone(*id)),
            Err(reason) => log::warn("cluster", "a deleted topic's files are still in place")
                .field("topic", name)
                .field("id", id)
                .field("reason", reason)
                .emit(),
        }
    }
    store.commit(&changes)?;
    changes.iter().for_each(|change| stored.apply(change));
    Ok(stored)
}

/// As many as the hash has that salts are made by.
const SALT_SECRET_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::super::store::MemoryStore;
    use super::*;
    use millstream_io::units::TopicId;

    struct Directories {
        fail: bool,
        aside: Vec<String>,
    }

    impl TopicDirectories for Directories {
        fn set_aside(&mut self, name: &str, _: TopicId, _: Duration) -> Result<(), String> {
            self.aside.push(name.to_owned());
            if self.fail { Err("no".to_owned()) } else { Ok(()) }
        }
    }

    #[test]
    fn every_start_is_counted_and_unfinished_deletions_are_finished() {
        let mut store = MemoryStore::default();
        store.stored.tombstones.insert(TopicId::from_bytes([1; 16]), "gone".to_owned());
        let mut directories = Directories { fail: true, aside: Vec::new() };
        let stored = boot(&mut store, "c", &mut directories).unwrap();
        assert_eq!((stored.starts, stored.tombstones.len()), (1, 1));
        directories.fail = false;
        let stored = boot(&mut store, "c", &mut directories).unwrap();
        assert_eq!((stored.starts, stored.tombstones.len()), (2, 0));
        assert_eq!(store.stored, stored);
        assert_eq!(directories.aside, ["gone", "gone"]);
        assert_eq!(stored.salt_secret.len(), SALT_SECRET_BYTES);
        let again = boot(&mut store, "c", &mut directories).unwrap();
        assert_eq!(again.salt_secret, stored.salt_secret, "a name has the same salt for ever");
    }

    #[test]
    fn store_of_another_cluster_is_refused() {
        let mut store = MemoryStore::default();
        let mut directories = Directories { fail: false, aside: Vec::new() };
        boot(&mut store, "c", &mut directories).unwrap();
        let error = boot(&mut store, "d", &mut directories).unwrap_err();
        assert!(matches!(error, BootError::OtherCluster { .. }));
        assert_eq!(store.stored.starts, 1);
    }
}
