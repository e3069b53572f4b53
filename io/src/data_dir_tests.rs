use super::*;
use crate::disk::create_dir_durable;
use crate::disk_file::FileDisk;
use crate::disk_sim::{CrashMode, SimDisk};

fn claim(node: i32) -> Claim {
    Claim { node_id: NodeId::new(node).unwrap(), cluster_id: None, shard_count: 4 }
}

fn root() -> &'static Path {
    Path::new("/data")
}

fn open(disk: &SimDisk, claim: &Claim) -> Result<DataDir<SimDisk>, DataDirError> {
    DataDir::open(disk, root(), claim)
}

#[test]
fn empty_directory_is_formatted_once_and_keeps_its_ids() {
    let disk = SimDisk::new();
    let first = open(&disk, &claim(1)).unwrap();
    assert!(first.formatted_now());
    let id = first.meta().cluster_id.clone();
    assert_eq!(id.len(), 22);
    drop(first);
    disk.crash_as(CrashMode::LoseAll, 1);
    let again = open(&disk, &Claim { shard_count: 9, ..claim(1) }).unwrap();
    assert!(!again.formatted_now());
    assert_eq!((again.meta().cluster_id.as_str(), again.meta().shard_count), (id.as_str(), 4));
}

#[test]
fn second_process_is_refused_while_the_first_lives() {
    let dir = tempfile::tempdir().unwrap();
    let first = DataDir::open(&FileDisk, dir.path(), &claim(1)).unwrap();
    let Err(error) = DataDir::open(&FileDisk, dir.path(), &claim(1)) else { panic!("two owners") };
    assert_eq!(error, DataDirError::InUse { root: dir.path().to_path_buf() });
    drop(first);
    DataDir::open(&FileDisk, dir.path(), &claim(1)).unwrap();
}

#[test]
fn another_node_or_cluster_is_refused_by_name() {
    let disk = SimDisk::new();
    let named = Claim { cluster_id: Some("mine".to_owned()), ..claim(1) };
    drop(open(&disk, &named).unwrap());
    let error = open(&disk, &claim(2)).err().unwrap().to_string();
    assert!(error.contains("node.id=1") && error.contains("node.id=2"), "{error}");
    let other = Claim { cluster_id: Some("yours".to_owned()), ..claim(1) };
    let error = open(&disk, &other).err().unwrap().to_string();
    assert!(error.contains("=mine") && error.contains("=yours"), "{error}");
    open(&disk, &named).unwrap();
}

#[test]
fn newer_format_is_refused_with_both_numbers() {
    let disk = SimDisk::new();
    disk.create_dir_all(root()).unwrap();
    let text = b"version=2\nwhat.we.do.not.know=1\n";
    write_atomically(&disk, &root().join(META_FILE), text).unwrap();
    let error = open(&disk, &claim(1)).err().unwrap();
    assert!(matches!(error, DataDirError::Newer { found: 2, known: 1, .. }), "{error}");
}

#[test]
fn damaged_or_missing_meta_is_never_formatted_over() {
    let disk = SimDisk::new();
    drop(open(&disk, &claim(1)).unwrap());
    let path = root().join(META_FILE);
    let text = disk.read_all(&path, 1000).unwrap();
    for at in 0..text.len() - 1 {
        let mut changed = text.clone();
        changed[at] ^= 1;
        write_atomically(&disk, &path, &changed).unwrap();
        let error = open(&disk, &claim(1)).err();
        assert!(error.is_some(), "byte {at}: {}", String::from_utf8_lossy(&changed));
    }
    disk.create_dir_all(&Layout::new(root()).topics()).unwrap();
    disk.remove_file(&path).unwrap();
    let error = open(&disk, &claim(1)).err().unwrap();
    assert_eq!(error, DataDirError::Unmarked { root: root().to_path_buf() });
}

#[test]
fn journals_of_all_shards_that_ever_were_are_listed() {
    let disk = SimDisk::new();
    let layout = Layout::new(root());
    assert_eq!(journal_shards(&disk, &layout), Ok(vec![]));
    for name in ["0", "11", "2", "02", "x", "70000"] {
        disk.create_dir_all(&layout.journals().join(name)).unwrap();
    }
    let shards = journal_shards(&disk, &layout).unwrap();
    assert_eq!(shards, [0, 2, 11].map(ShardId::new));
}

#[test]
fn unclaimed_directories_are_moved_aside_side_by_side() {
    let disk = SimDisk::new();
    let layout = Layout::new(root());
    for topic in ["a", "b"] {
        let partition = layout.partition(topic, PartitionIndex::at(0));
        create_dir_durable(&disk, Path::new("/"), &partition).unwrap();
        let to = set_aside(&disk, &layout, &layout.topic(topic)).unwrap();
        disk.crash_as(CrashMode::LoseAll, 1);
        assert!(disk.kind(&to.join("0")).unwrap().is_some());
        assert_eq!(disk.kind(&layout.topic(topic)).unwrap(), None);
    }
    assert_eq!(disk.list(&layout.orphaned()).unwrap().len(), 2);
}
