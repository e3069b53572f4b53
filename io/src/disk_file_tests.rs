use super::*;

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn file_keeps_what_is_written_and_says_where_it_ends() {
    let dir = dir();
    let path = dir.path().join("a/b/file");
    FileDisk.create_dir_all(&dir.path().join("a/b")).unwrap();
    let file = FileDisk.open(&path, OpenHow::CREATE).unwrap();
    file.write_at(b"hello", FilePosition::new(3)).unwrap();
    file.sync_data().unwrap();
    let mut buf = [9; 16];
    assert_eq!(file.read_at(&mut buf, FilePosition::ZERO).unwrap(), 8);
    assert_eq!(&buf[..8], b"\0\0\0hello");
    assert_eq!(file.len().unwrap(), 8);
    assert_eq!(FileDisk.read_all(&path, 8).unwrap(), b"\0\0\0hello");
    let error = FileDisk.read_all(&path, 7).unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::TooLarge);
}

#[test]
fn read_of_many_pieces_is_whole_up_to_the_end_of_the_file() {
    let dir = dir();
    let file = FileDisk.open(&dir.path().join("file"), OpenHow::CREATE).unwrap();
    let written: Vec<u8> = (0..3 * READ_PIECE_BYTES + 77).map(|i| (i % 251) as u8).collect();
    file.write_at(&written, FilePosition::ZERO).unwrap();
    let mut buf = vec![0; written.len() + READ_PIECE_BYTES];
    assert_eq!(file.read_at(&mut buf, FilePosition::new(5)).unwrap(), written.len() - 5);
    assert_eq!(buf[..written.len() - 5], written[5..]);
    file.begin_read(FilePosition::new(5), READ_AHEAD_PIECE_BYTES * 2 + 1);
}

#[test]
fn write_that_was_cut_short_goes_on_where_it_is_told() {
    let dir = dir();
    let file = FileDisk.open(&dir.path().join("file"), OpenHow::CREATE).unwrap();
    let slices: [&[u8]; 4] = [b"abc", b"", b"defgh", b"ij"];
    file.write_at(&[b'.'; 12], FilePosition::ZERO).unwrap();
    let at = FilePosition::new(2);
    for (done, expected) in [(9, "...........j"), (3, ".....defghij"), (0, "..abcdefghij")] {
        assert_eq!(write_some(file.raw_fd(), &slices, done, at).unwrap(), 10 - done);
        let mut found = [0; 12];
        file.read_at(&mut found, FilePosition::ZERO).unwrap();
        assert_eq!(std::str::from_utf8(&found).unwrap(), expected);
    }
    file.write_slices_at(&[], at).unwrap();
    let many: Vec<&[u8]> = std::iter::repeat_n(&b"xy"[..], VECTOR_MAX + 3).collect();
    file.write_slices_at(&many, FilePosition::ZERO).unwrap();
    assert_eq!(file.len().unwrap(), 2 * bytes_u64(many.len()));
}

#[test]
fn errors_are_typed_and_name_the_path() {
    let dir = dir();
    let missing = dir.path().join("missing");
    let error = FileDisk.open(&missing, OpenHow::READ).unwrap_err();
    assert_eq!(
        (error.kind, error.op, error.path),
        (DiskErrorKind::NotFound, DiskOp::Open, missing)
    );
    let path = dir.path().join("once");
    FileDisk.open(&path, OpenHow::CREATE_NEW).unwrap();
    let error = FileDisk.open(&path, OpenHow::CREATE_NEW).unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::Exists);
    let error = FileDisk.list(&path).unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::WrongKind);
}

#[test]
fn names_are_listed_in_order_with_their_kind() {
    let dir = dir();
    FileDisk.create_dir_all(&dir.path().join("b")).unwrap();
    FileDisk.open(&dir.path().join("c"), OpenHow::CREATE).unwrap();
    FileDisk.open(&dir.path().join("a"), OpenHow::CREATE).unwrap();
    let names: Vec<_> = FileDisk.list(dir.path()).unwrap();
    let names: Vec<_> = names.iter().map(|e| (e.name.as_str(), e.kind)).collect();
    let (file, directory) = (EntryKind::File, EntryKind::Directory);
    assert_eq!(names, [("a", file), ("b", directory), ("c", file)]);
    FileDisk.rename(&dir.path().join("a"), &dir.path().join("b/a")).unwrap();
    FileDisk.sync_dir(&dir.path().join("b")).unwrap();
    FileDisk.sync_fs(dir.path()).unwrap();
    assert_eq!(FileDisk.kind(&dir.path().join("b/a")).unwrap(), Some(file));
    FileDisk.remove_dir_all(&dir.path().join("b")).unwrap();
    assert_eq!(FileDisk.kind(&dir.path().join("b")).unwrap(), None);
}

#[test]
fn second_lock_on_a_file_is_refused_until_the_first_is_dropped() {
    let dir = dir();
    let path = dir.path().join("lock");
    let first = FileDisk.open(&path, OpenHow::CREATE).unwrap();
    first.lock().unwrap();
    let second = FileDisk.open(&path, OpenHow::CREATE).unwrap();
    assert_eq!(second.lock().unwrap_err().kind, DiskErrorKind::Locked);
    drop(first);
    second.lock().unwrap();
}

#[test]
fn allocated_file_reads_as_zeros_and_a_cut_file_is_cut() {
    let dir = dir();
    let file = FileDisk.open(&dir.path().join("f"), OpenHow::CREATE).unwrap();
    file.allocate(3 * BLOCK_BYTES_U64).unwrap();
    assert_eq!(file.len().unwrap(), 3 * BLOCK_BYTES_U64);
    let mut buf = vec![1; 3 * BLOCK_BYTES];
    assert_eq!(file.read_at(&mut buf, FilePosition::ZERO).unwrap(), buf.len());
    assert!(buf.iter().all(|b| *b == 0));
    file.set_len(5).unwrap();
    assert_eq!(file.len().unwrap(), 5);
    assert!(FileDisk.free_bytes(dir.path()).unwrap() > 0);
}

/// Runs where the temporary directory takes direct writes, which tmpfs of old kernels does not.
#[test]
fn direct_durable_writes_are_seen_by_buffered_reads() {
    let dir = tempfile::tempdir_in(".").unwrap();
    if FileDisk.probe_direct(dir.path()).is_err() {
        eprintln!("no direct writes here, nothing tested");
        return;
    }
    let path = dir.path().join("direct");
    let file = FileDisk.open(&path, OpenHow::CREATE.direct().durable()).unwrap();
    let block = AlignedBuf::padded(b"in one block");
    file.write_at(block.as_ref(), FilePosition::new(BLOCK_BYTES_U64)).unwrap();
    let seen = FileDisk.read_all(&path, 1 << 20).unwrap();
    assert_eq!(seen.len(), 2 * BLOCK_BYTES);
    assert_eq!(&seen[BLOCK_BYTES..BLOCK_BYTES + 12], b"in one block");
    let mut back = AlignedBuf::zeroed(4 * BLOCK_BYTES);
    assert_eq!(file.read_at(back.as_mut(), FilePosition::ZERO).unwrap(), 2 * BLOCK_BYTES);
    assert!(FileDisk.kind(&dir.path().join(".direct-probe")).unwrap().is_none());
}

#[test]
fn reserved_space_is_blank_until_it_is_written() {
    let dir = dir();
    let path = dir.path().join("file");
    let file = FileDisk.open(&path, OpenHow::CREATE).unwrap();
    file.allocate(1 << 20).unwrap();
    let at = |file: &RealFile| file.blank_from().unwrap().get();
    // A file system that cannot tell says that all was written.
    let before = at(&file);
    assert!(before == 0 || before == 1 << 20, "{before}");
    file.write_at(&[0; 3 * BLOCK_BYTES], FilePosition::ZERO).unwrap();
    file.sync_data().unwrap();
    let after = at(&file);
    assert_eq!(after, if before == 0 { 3 * BLOCK_BYTES_U64 } else { 1 << 20 });
    file.set_len(2 * BLOCK_BYTES_U64).unwrap();
    assert_eq!(at(&file), 2 * BLOCK_BYTES_U64);
}
