//! The metadata store of a single node: one file, `<data>/__cluster/metadata.redb`.
//!
//! ```text
//! table      key                                  value
//! meta       "format"                             1; 2 once there was a credential, or a rule
//!            "starts", "next_producer_id"         a number
//! text       "cluster_id"                         22 characters
//! topics     topic id (16 bytes)                  TopicRecord as JSON
//! tombstones topic id (16 bytes)                  the topic's name
//! configs    "broker/" or "broker/<node>/", key   the value
//!            "group/<group id>", key              the value
//! scram      user, mechanism                      ScramCredential as JSON
//! secrets    "scram_salts"                        random bytes
//! rules      kind, name, pattern, principal,      nothing; numbers as on the wire
//!            host, operation, permission
//! ```
//!
//! Every commit is durable when it returns. The file keeps checksums of its pages and brings
//! itself back to the last commit after a crash.
//!
//! Beside it lies `reserve`, a file that only takes space. On a full disk it is given up for the
//! commit at hand, so that topics can be deleted to free space; it comes back when there is room.

mod rules;

use super::store::{BrokerScope, MetadataChange, MetadataStore, StoreError, Stored, TopicRecord};
use crate::login::ScramMechanism;
use crate::login::scram::credential::ScramCredential;
use millstream_io::disk::{Disk, DiskError, DiskErrorKind, DiskFile, DiskOp, OpenHow};
use millstream_io::disk_file::{FileDisk, volume};
use millstream_io::runtime::log;
use millstream_io::units::TopicId;
use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};
use std::path::{Path, PathBuf};

/// The newest format this program reads and writes. A store has the lowest one that says all it
/// holds, so that an older program opens what it understands and nothing else: who may log in, and who
/// may do what, is not to be passed over.
const FORMAT: u64 = 2;
/// The format of a store without anything that the first programs did not know.
const FORMAT_FIRST: u64 = 1;
/// The format since there are credentials.
const FORMAT_CREDENTIALS: u64 = 2;
/// The format since there are access rules.
const FORMAT_RULES: u64 = 2;
/// Space kept for commits on a full disk.
const RESERVE_BYTES: u64 = 4 << 20;
/// Memory for pages of the file. The metadata itself is held by the controller.
const CACHE_BYTES: usize = 4 << 20;

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const TEXT: TableDefinition<&str, &str> = TableDefinition::new("text");
const TOPICS: TableDefinition<[u8; 16], &[u8]> = TableDefinition::new("topics");
const TOMBSTONES: TableDefinition<[u8; 16], &str> = TableDefinition::new("tombstones");
const GROUP_PREFIX: &str = "group/";
const SCRAM: TableDefinition<(&str, &str), &[u8]> = TableDefinition::new("scram");
const SECRETS: TableDefinition<&str, &[u8]> = TableDefinition::new("secrets");
const CONFIGS: TableDefinition<(&str, &str), &str> = TableDefinition::new("configs");

/// The embedded store. Lives on the controller's thread.
pub struct EmbeddedStore {
    path: PathBuf,
    /// `None` after a failed commit, until the file is opened again.
    database: Option<Database>,
    /// The failure that ended the store, if it was not a full disk.
    latched: Option<StoreError>,
    has_reserve: bool,
}

impl EmbeddedStore {
    /// Opens the store in `directory`, which is made if it is missing.
    ///
    /// # Errors
    /// See [`StoreError`]; a newer format is refused before anything is written.
    pub fn open(directory: &Path) -> Result<EmbeddedStore, StoreError> {
        let path = directory.join("metadata.redb");
        let failed = |error: std::io::Error| io_failure(&path, &error);
        let is_new = !path.exists();
        std::fs::create_dir_all(directory).map_err(failed)?;
        if !is_new {
            refuse_newer(&path)?;
        }
        let database = open_database(&path)?;
        let mut store = EmbeddedStore {
            path: path.clone(),
            database: Some(database),
            latched: None,
            has_reserve: true,
        };
        store.check_format()?;
        store.keep_reserve();
        if is_new {
            sync_directory(directory).map_err(failed)?;
            if let Some(parent) = directory.parent() {
                sync_directory(parent).map_err(failed)?;
            }
        }
        Ok(store)
    }

    /// Refuses a newer format; writes ours into a new file.
    fn check_format(&mut self) -> Result<(), StoreError> {
        let path = self.path.display().to_string();
        let found = read_format(self.database()?).map_err(|error| failure(&path, &error))?;
        match found {
            Some(FORMAT_FIRST..=FORMAT) => Ok(()),
            Some(found) if found > FORMAT => Err(StoreError::Newer { path, found, known: FORMAT }),
            Some(found) => {
                let what = format!("format {found} was never written by any version");
                Err(StoreError::Damaged { path, what })
            }
            None => self.write(|write| {
                write.open_table(META)?.insert("format", FORMAT_FIRST)?;
                write.open_table(TEXT)?;
                write.open_table(TOPICS)?;
                write.open_table(TOMBSTONES)?;
                write.open_table(CONFIGS)?;
                write.open_table(SCRAM)?;
                write.open_table(SECRETS)?;
                Ok(())
            }),
        }
    }

    /// The open database; opened again after a disk that was full.
    fn database(&mut self) -> Result<&Database, StoreError> {
        if let Some(latched) = &self.latched {
            return Err(latched.clone());
        }
        let database = match self.database.take() {
            Some(database) => database,
            None => open_database(&self.path)?,
        };
        Ok(self.database.insert(database))
    }

    /// One durable transaction; on a full disk once more without the reserve. A failure leaves
    /// nothing of it; see [`MetadataStore::commit`].
    fn write(
        &mut self,
        fill: impl Fn(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        let mut result = self.write_once(&fill);
        if matches!(result, Err(StoreError::Full { .. })) && self.give_up_reserve() {
            log::warn("cluster", "the disk is full: used the reserve of the metadata store").emit();
            result = self.write_once(&fill);
        }
        if result.is_ok() && !self.has_reserve {
            self.keep_reserve();
        }
        result
    }

    fn write_once(
        &mut self,
        fill: &impl Fn(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        let path = self.path.display().to_string();
        let result = transact(self.database()?, fill);
        result.map_err(|error| {
            let error = failure(&path, &error);
            self.database = None;
            if !matches!(error, StoreError::Full { .. }) {
                self.latched = Some(error.clone());
            }
            error
        })
    }

    /// Makes the reserve if there is room for twice as much; on a fuller disk nothing is done.
    fn keep_reserve(&mut self) {
        let reserve = self.reserve_path();
        let is_whole = std::fs::metadata(&reserve).is_ok_and(|found| found.len() >= RESERVE_BYTES);
        self.has_reserve = is_whole || self.make_reserve(&reserve).is_ok();
    }

    fn make_reserve(&self, reserve: &Path) -> Result<(), DiskError> {
        if FileDisk.free_bytes(&self.path)? < 2 * RESERVE_BYTES {
            return Err(DiskError::new(DiskErrorKind::Full, DiskOp::Allocate, reserve));
        }
        FileDisk.open(reserve, OpenHow::CREATE)?.allocate(RESERVE_BYTES)
    }

    /// Whether there was a reserve to give up.
    fn give_up_reserve(&mut self) -> bool {
        self.has_reserve = false;
        std::fs::remove_file(self.reserve_path()).is_ok()
    }

    fn reserve_path(&self) -> PathBuf {
        self.path.with_file_name("reserve")
    }
}

impl MetadataStore for EmbeddedStore {
    fn load(&mut self) -> Result<Stored, StoreError> {
        let path = self.path.display().to_string();
        let loaded = load_all(self.database()?).map_err(|error| failure(&path, &error))?;
        let mut stored = loaded.stored;
        stored.rules = rules::read(&loaded.rules)
            .map_err(|what| StoreError::Damaged { path: path.clone(), what })?;
        for (id, bytes) in loaded.topics {
            let record: TopicRecord = serde_json::from_slice(&bytes).map_err(|error| {
                let what = format!("topic {id} does not parse: {error}");
                StoreError::Damaged { path: path.clone(), what }
            })?;
            stored.topics.insert(id, record);
        }
        for (user, mechanism, bytes) in loaded.scram {
            let damaged = |what: String| StoreError::Damaged { path: path.clone(), what };
            let credential: ScramCredential = serde_json::from_slice(&bytes)
                .map_err(|error| damaged(format!("a credential does not parse: {error}")))?;
            let mechanism = ScramMechanism::from_name(&mechanism)
                .ok_or_else(|| damaged(format!("there is no mechanism {mechanism}")))?;
            stored.scram.insert((user, mechanism), credential);
        }
        Ok(stored)
    }

    fn commit(&mut self, changes: &[MetadataChange]) -> Result<(), StoreError> {
        let path = self.path.display().to_string();
        let mut records = Vec::new();
        for change in changes {
            let (json, what) = match change {
                MetadataChange::PutTopic(_, record) => (serde_json::to_vec(record), &record.name),
                MetadataChange::PutScram { user, credential, .. } => {
                    (serde_json::to_vec(credential), user)
                }
                _ => continue,
            };
            records.push(json.map_err(|error| StoreError::Failed {
                path: path.clone(),
                what: format!("{what} does not serialise: {error}"),
            })?);
        }
        self.write(|write| {
            let mut records = records.iter();
            changes.iter().try_for_each(|change| put(write, change, &mut records))
        })
    }
}

/// Writes one change; `records` holds the JSON of each topic and credential, in order.
fn put(
    write: &WriteTransaction,
    change: &MetadataChange,
    records: &mut std::slice::Iter<'_, Vec<u8>>,
) -> Result<(), redb::Error> {
    match change {
        MetadataChange::SetClusterId(id) => {
            write.open_table(TEXT)?.insert("cluster_id", id.as_str())?;
        }
        MetadataChange::SetStarts(starts) => {
            write.open_table(META)?.insert("starts", *starts)?;
        }
        MetadataChange::SetNextProducerId(next) => {
            assert!(*next >= 0, "producer ids ran out at {next}");
            write.open_table(META)?.insert("next_producer_id", next.unsigned_abs())?;
        }
        MetadataChange::PutTopic(id, record) => {
            let Some(json) = records.next() else { panic!("no JSON for topic {}", record.name) };
            write.open_table(TOPICS)?.insert(*id.as_bytes(), json.as_slice())?;
        }
        MetadataChange::RemoveTopic(id) => {
            let mut topics = write.open_table(TOPICS)?;
            let Some(removed) = topics.remove(*id.as_bytes())? else { return Ok(()) };
            let name = topic_name(removed.value());
            write.open_table(TOMBSTONES)?.insert(*id.as_bytes(), name.as_str())?;
        }
        MetadataChange::RemoveTombstone(id) => {
            write.open_table(TOMBSTONES)?.remove(*id.as_bytes())?;
        }
        MetadataChange::PutBrokerConfig(scope, key, value) => {
            let scope = scope_key(scope);
            write.open_table(CONFIGS)?.insert((scope.as_str(), key.as_str()), value.as_str())?;
        }
        MetadataChange::RemoveBrokerConfig(scope, key) => {
            let scope = scope_key(scope);
            write.open_table(CONFIGS)?.remove((scope.as_str(), key.as_str()))?;
        }
        MetadataChange::PutGroupConfig { group, key, value } => {
            let scope = group_key(group);
            write.open_table(CONFIGS)?.insert((scope.as_str(), key.as_str()), value.as_str())?;
        }
        MetadataChange::RemoveGroupConfig { group, key } => {
            let scope = group_key(group);
            write.open_table(CONFIGS)?.remove((scope.as_str(), key.as_str()))?;
        }
        MetadataChange::PutScram { user, mechanism, .. } => {
            let Some(json) = records.next() else { panic!("no JSON for user {user}") };
            write.open_table(SCRAM)?.insert((user.as_str(), mechanism.name()), json.as_slice())?;
            raise_format(write, FORMAT_CREDENTIALS)?;
        }
        MetadataChange::RemoveScram { user, mechanism } => {
            write.open_table(SCRAM)?.remove((user.as_str(), mechanism.name()))?;
        }
        MetadataChange::SetSaltSecret(secret) => {
            write.open_table(SECRETS)?.insert("scram_salts", secret.as_slice())?;
        }
        MetadataChange::PutRule(rule) => {
            rules::put(write, rule)?;
            raise_format(write, FORMAT_RULES)?;
        }
        MetadataChange::RemoveRule(rule) => rules::remove(write, rule)?,
    }
    Ok(())
}

/// From now on only programs open the store that know this format.
fn raise_format(write: &WriteTransaction, to: u64) -> Result<(), redb::Error> {
    let mut meta = write.open_table(META)?;
    let found = meta.get("format")?.map_or(FORMAT_FIRST, |format| format.value());
    if found < to {
        meta.insert("format", to)?;
        log::info(
            "cluster",
            "the metadata store holds what older versions of this broker do not know",
        )
        .field("format", to)
        .field("means", "they refuse it from now on")
        .emit();
    }
    Ok(())
}

struct Loaded {
    stored: Stored,
    topics: Vec<(TopicId, Vec<u8>)>,
    /// User, mechanism and JSON.
    scram: Vec<(String, String, Vec<u8>)>,
    rules: Vec<rules::Row>,
}

fn load_all(database: &Database) -> Result<Loaded, redb::Error> {
    let read = database.begin_read()?;
    let mut stored = Stored::default();
    let meta = read.open_table(META)?;
    stored.starts = meta.get("starts")?.map_or(0, |starts| starts.value());
    let next = meta.get("next_producer_id")?.map_or(0, |next| next.value());
    stored.next_producer_id = next.cast_signed();
    let cluster_id = read.open_table(TEXT)?.get("cluster_id")?;
    stored.cluster_id = cluster_id.map(|id| id.value().to_owned());
    let mut topics = Vec::new();
    for entry in read.open_table(TOPICS)?.iter()? {
        let (id, record) = entry?;
        topics.push((TopicId::from_bytes(id.value()), record.value().to_vec()));
    }
    for entry in read.open_table(TOMBSTONES)?.iter()? {
        let (id, name) = entry?;
        stored.tombstones.insert(TopicId::from_bytes(id.value()), name.value().to_owned());
    }
    for entry in read.open_table(CONFIGS)?.iter()? {
        let (key, value) = entry?;
        let (scope, name) = key.value();
        let configs = if let Some(group) = scope.strip_prefix(GROUP_PREFIX) {
            stored.group_configs.entry(group.to_owned()).or_default()
        } else if let Some(scope) = parse_scope(scope) {
            stored.broker_configs.entry(scope).or_default()
        } else {
            continue;
        };
        configs.insert(name.to_owned(), value.value().to_owned());
    }
    let mut scram = Vec::new();
    if let Some(table) = if_there(read.open_table(SCRAM))? {
        for entry in table.iter()? {
            let (key, json) = entry?;
            let (user, mechanism) = key.value();
            scram.push((user.to_owned(), mechanism.to_owned(), json.value().to_vec()));
        }
    }
    if let Some(secrets) = if_there(read.open_table(SECRETS))? {
        let secret = secrets.get("scram_salts")?;
        stored.salt_secret = secret.map(|secret| secret.value().to_vec()).unwrap_or_default();
    }
    Ok(Loaded { stored, topics, scram, rules: rules::load(&read)? })
}

/// A table that an older program's store lacks until something is put in.
fn if_there<T>(opened: Result<T, redb::TableError>) -> Result<Option<T>, redb::Error> {
    match opened {
        Ok(table) => Ok(Some(table)),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn transact(
    database: &Database,
    fill: &impl Fn(&WriteTransaction) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let mut write = database.begin_write()?;
    write.set_durability(Durability::Immediate)?;
    fill(&write)?;
    write.commit()?;
    Ok(())
}

/// Looks at the format without writing a byte. A file that a crash left open cannot be looked at
/// so; it is judged after its recovery.
fn refuse_newer(path: &Path) -> Result<(), StoreError> {
    let Ok(database) = Database::builder().open_read_only(path) else { return Ok(()) };
    match read_format(&database) {
        Ok(Some(found)) if found > FORMAT => {
            let path = path.display().to_string();
            Err(StoreError::Newer { path, found, known: FORMAT })
        }
        _ => Ok(()),
    }
}

fn read_format(database: &impl ReadableDatabase) -> Result<Option<u64>, redb::Error> {
    match if_there(database.begin_read()?.open_table(META))? {
        Some(meta) => Ok(meta.get("format")?.map(|format| format.value())),
        None => Ok(None),
    }
}

fn open_database(path: &Path) -> Result<Database, StoreError> {
    let name = path.display().to_string();
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder.create(path).map_err(|error| match error {
        redb::DatabaseError::DatabaseAlreadyOpen => StoreError::InUse { path: name },
        redb::DatabaseError::UpgradeRequired(found) => {
            let what = format!("its file format is version {found}, which is not read any more");
            StoreError::Damaged { path: name, what }
        }
        other => failure(&name, &other.into()),
    })
}

fn failure(path: &str, error: &redb::Error) -> StoreError {
    let path = path.to_owned();
    match error {
        redb::Error::Io(error) => io_failure(Path::new(&path), error),
        redb::Error::Corrupted(what) => StoreError::Damaged { path, what: what.clone() },
        other => StoreError::Failed { path, what: other.to_string() },
    }
}

fn io_failure(path: &Path, error: &std::io::Error) -> StoreError {
    let path = path.display().to_string();
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            let free_bytes = volume(Path::new(&path)).map_or(0, |volume| volume.usable);
            StoreError::Full { path, needed_bytes: RESERVE_BYTES, free_bytes }
        }
        std::io::ErrorKind::InvalidData => StoreError::Damaged { path, what: error.to_string() },
        _ => StoreError::Failed { path, what: error.to_string() },
    }
}

fn sync_directory(path: &Path) -> std::io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    std::fs::File::open(path)?.sync_all()
}

/// The name in a topic's JSON; a record that does not parse was refused at load.
fn topic_name(json: &[u8]) -> String {
    serde_json::from_slice::<TopicRecord>(json).map(|record| record.name).unwrap_or_default()
}

fn scope_key(scope: &BrokerScope) -> String {
    match scope {
        BrokerScope::All => "broker/".to_owned(),
        BrokerScope::Node(id) => format!("broker/{id}/"),
    }
}

/// An id may hold any character: it ends where the key does.
fn group_key(group: &str) -> String {
    format!("{GROUP_PREFIX}{group}")
}

/// `None` for a scope of a later version: left where it is.
fn parse_scope(key: &str) -> Option<BrokerScope> {
    match key.strip_prefix("broker/")? {
        "" => Some(BrokerScope::All),
        node => Some(BrokerScope::Node(node.strip_suffix('/')?.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorizer::{
        PatternKind, Permission, Principal, ResourceKind, Rule, RuleOperation,
    };

    fn topic(byte: u8, name: &str) -> (TopicId, TopicRecord) {
        let configs = [("segment.ms".to_owned(), "7".to_owned())].into();
        let record =
            TopicRecord { name: name.to_owned(), partitions: 3, created_at_start: 2, configs };
        (TopicId::from_bytes([byte; 16]), record)
    }

    fn put_group(group: &str, value: &str) -> MetadataChange {
        let (group, key, value) = (group.to_owned(), "k".to_owned(), value.to_owned());
        MetadataChange::PutGroupConfig { group, key, value }
    }

    fn put_scram(user: &str, mechanism: ScramMechanism) -> MetadataChange {
        let credential = ScramCredential::from_password(mechanism, b"p", b"salt", 4096);
        MetadataChange::PutScram { user: user.to_owned(), mechanism, credential }
    }

    #[test]
    fn store_is_closed_to_older_programs_from_the_first_credential_on() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = EmbeddedStore::open(directory.path()).unwrap();
        let format = |store: &mut EmbeddedStore| read_format(store.database().unwrap()).unwrap();
        store.commit(&[MetadataChange::SetStarts(1)]).unwrap();
        assert_eq!(format(&mut store), Some(1));
        store.commit(&[put_scram("u", ScramMechanism::Sha256)]).unwrap();
        assert_eq!(format(&mut store), Some(2));
    }

    #[test]
    fn commits_are_there_after_reopening() {
        let directory = tempfile::tempdir().unwrap();
        let (a, a_record) = topic(1, "a");
        let (b, b_record) = topic(2, "b");
        let changes = [
            MetadataChange::SetClusterId("c".to_owned()),
            MetadataChange::SetStarts(4),
            MetadataChange::SetNextProducerId(1000),
            MetadataChange::PutTopic(a, a_record),
            MetadataChange::PutTopic(b, b_record),
            MetadataChange::PutBrokerConfig(BrokerScope::All, "k".into(), "v".into()),
            MetadataChange::PutBrokerConfig(BrokerScope::Node(7), "k".into(), "w".into()),
            put_group("g", "1"),
            put_group("g/", "2"),
            put_group("broker/7/", "3"),
            put_scram("u", ScramMechanism::Sha256),
            put_scram("u", ScramMechanism::Sha512),
            MetadataChange::SetSaltSecret(b"random".to_vec()),
        ];
        let later = [
            MetadataChange::RemoveTopic(a),
            MetadataChange::RemoveBrokerConfig(BrokerScope::Node(7), "k".into()),
            MetadataChange::RemoveGroupConfig { group: "g/".into(), key: "k".into() },
            MetadataChange::RemoveScram { user: "u".into(), mechanism: ScramMechanism::Sha256 },
        ];
        let mut model = Stored::default();
        for batch in [&changes[..], &later[..]] {
            let mut store = EmbeddedStore::open(directory.path()).unwrap();
            store.commit(batch).unwrap();
            batch.iter().for_each(|change| model.apply(change));
            drop(store);
            let mut store = EmbeddedStore::open(directory.path()).unwrap();
            let mut loaded = store.load().unwrap();
            model.broker_configs.retain(|_, configs| !configs.is_empty());
            loaded.broker_configs.retain(|_, configs| !configs.is_empty());
            assert_eq!(loaded, model);
        }
        assert_eq!(model.tombstones[&a], "a");
    }

    #[test]
    fn first_access_rule_raises_the_format_and_rules_are_there_after_reopening() {
        let directory = tempfile::tempdir().unwrap();
        let format = || {
            let path = directory.path().join("metadata.redb");
            let database = Database::builder().open_read_only(path).unwrap();
            read_format(&database).unwrap()
        };
        let rule = |host: &str, permission| Rule {
            kind: ResourceKind::Group,
            name: "g/é".into(),
            pattern: PatternKind::Prefixed,
            principal: Principal::user("a:b"),
            host: host.into(),
            operation: RuleOperation::All,
            permission,
        };
        let rules = [rule("*", Permission::Deny), rule("*", Permission::Allow)];
        let mut store = EmbeddedStore::open(directory.path()).unwrap();
        store.commit(&[MetadataChange::SetStarts(1)]).unwrap();
        drop(store);
        assert_eq!(format(), Some(1));
        let mut store = EmbeddedStore::open(directory.path()).unwrap();
        store.commit(&rules.clone().map(MetadataChange::PutRule)).unwrap();
        store.commit(&[MetadataChange::RemoveRule(rules[0].clone())]).unwrap();
        drop(store);
        assert_eq!(format(), Some(2));
        let mut store = EmbeddedStore::open(directory.path()).unwrap();
        assert_eq!(store.load().unwrap().rules, [rules[1].clone()].into());
        store.commit(&[MetadataChange::RemoveRule(rules[1].clone())]).unwrap();
        assert_eq!(store.load().unwrap().rules.len(), 0);
    }

    #[test]
    fn newer_format_is_refused_with_both_numbers_and_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = EmbeddedStore::open(directory.path()).unwrap();
        store.write(|write| Ok(write.open_table(META)?.insert("format", 3).map(|_| ())?)).unwrap();
        drop(store);
        let path = directory.path().join("metadata.redb");
        let before = std::fs::read(&path).unwrap();
        let error = EmbeddedStore::open(directory.path()).err().unwrap();
        assert!(matches!(error, StoreError::Newer { found: 3, known: 2, .. }), "{error}");
        assert!(before == std::fs::read(&path).unwrap(), "a refused store was written to");
    }

    #[test]
    fn second_opener_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let _open = EmbeddedStore::open(directory.path()).unwrap();
        let error = EmbeddedStore::open(directory.path()).err().unwrap();
        assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    }

    #[test]
    fn rubbish_in_place_of_the_store_is_an_error_not_a_panic() {
        for rubbish in [&b""[..], b"hello", &[0xff; 100_000]] {
            let directory = tempfile::tempdir().unwrap();
            std::fs::write(directory.path().join("metadata.redb"), rubbish).unwrap();
            if let Ok(mut store) = EmbeddedStore::open(directory.path()) {
                // An empty file counts as new.
                assert!(rubbish.is_empty());
                assert_eq!(store.load().unwrap(), Stored::default());
            }
        }
    }
}
