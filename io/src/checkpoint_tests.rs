use proptest::prelude::*;

use super::*;
use crate::disk_sim::SimDisk;

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Sample {
    text: String,
    number: i64,
}

impl State for Sample {
    const FILE: &'static str = "sample.json";
    const VERSION: u32 = 2;
}

fn sample(number: i64) -> Sample {
    Sample { text: "é\"\n".to_owned(), number }
}

const KIND: BlobKind = BlobKind { magic: *b"TEST", version: 3 };

fn dir() -> &'static Path {
    Path::new("/d")
}

fn disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(dir()).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

#[test]
fn state_and_blob_round_trip() {
    let disk = disk();
    assert_eq!(read_state::<_, Sample>(&disk, dir()), Ok(None));
    write_state(&disk, dir(), &sample(7)).unwrap();
    assert_eq!(read_state(&disk, dir()), Ok(Some(sample(7))));
    let path = dir().join("blob");
    assert_eq!(read_blob(&disk, &path, KIND), Ok(None));
    write_blob(&disk, &path, KIND, b"payload").unwrap();
    assert_eq!(read_blob(&disk, &path, KIND), Ok(Some((3, b"payload".to_vec()))));
}

#[test]
fn files_have_these_bytes() {
    let disk = disk();
    write_state(&disk, dir(), &Sample { text: "a".to_owned(), number: 1 }).unwrap();
    let text = disk.read_all(&dir().join("sample.json"), 1000).unwrap();
    let body = r#"{"text":"a","number":1}"#;
    let crc = crc32c::crc32c(body.as_bytes());
    let golden = format!("{{\"version\":2,\"crc32c\":\"{crc:08x}\",\"body\":{body}}}\n");
    assert_eq!(String::from_utf8(text).unwrap(), golden);
    let blob = encode_blob(KIND, &[0xaa]);
    assert_eq!(blob[..16], [b'T', b'E', b'S', b'T', 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(blob[16..20], crc32c::crc32c(&[0xaa]).to_be_bytes());
    assert_eq!((blob.len(), blob[24]), (25, 0xaa));
}

#[test]
fn newer_file_is_refused_with_both_numbers_and_left_alone() {
    let disk = disk();
    let text = br#"{"version":3,"shape":"of the future"}"#;
    write_atomically(&disk, &dir().join("sample.json"), text).unwrap();
    let path = dir().join("sample.json");
    let error = read_state::<_, Sample>(&disk, dir()).unwrap_err();
    assert_eq!(error, StateError::Newer { path: path.clone(), found: 3, known: 2 });
    let message = error.to_string();
    assert!(message.contains("version 3") && message.contains("up to 2"), "{message}");
    assert_eq!(disk.read_all(&path, 1000).unwrap(), text);
    let blob = encode_blob(BlobKind { version: 9, ..KIND }, b"");
    let error = decode_blob(&path, KIND, blob).unwrap_err();
    assert_eq!(error, StateError::Newer { path, found: 9, known: 3 });
}

#[test]
fn any_changed_byte_of_a_state_is_seen() {
    let disk = disk();
    let path = dir().join("sample.json");
    write_state(&disk, dir(), &sample(123)).unwrap();
    let text = disk.read_all(&path, 1000).unwrap();
    for at in 0..text.len() - 1 {
        let mut changed = text.clone();
        changed[at] ^= 0x04;
        let read = decode_state::<Sample>(&path, &changed);
        assert!(read.is_err(), "byte {at} of {}", String::from_utf8_lossy(&text));
    }
    let blob = encode_blob(KIND, b"some payload");
    for at in 0..blob.len() {
        let mut changed = blob.clone();
        changed[at] ^= 0x04;
        assert!(decode_blob(&path, KIND, changed).is_err(), "byte {at}");
    }
}

/// Power cut at every operation, many seeds each: the file is the old one or the new one.
#[test]
fn crash_at_any_point_leaves_the_old_file_or_the_new_one() {
    let ops = {
        let disk = disk();
        let before = disk.ops();
        write_state(&disk, dir(), &sample(1)).unwrap();
        disk.ops() - before
    };
    for at in 1..=ops {
        for seed in 0..20 {
            let disk = disk();
            write_state(&disk, dir(), &sample(1)).unwrap();
            disk.power_off_at(disk.ops() + at);
            let answer = write_state(&disk, dir(), &sample(2));
            assert!(answer.is_err(), "op {at}");
            disk.crash(seed);
            let state: Option<Sample> = read_state(&disk, dir()).unwrap();
            let number = state.unwrap().number;
            assert!(number == 1 || number == 2, "op {at} seed {seed}");
            // And it can be written again over whatever was left.
            write_state(&disk, dir(), &sample(3)).unwrap();
            disk.crash(seed);
            assert_eq!(read_state(&disk, dir()), Ok(Some(sample(3))), "op {at} seed {seed}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_state_file_panic(bytes: Vec<u8>) {
        let path = Path::new("x");
        let _ = decode_state::<Sample>(path, &bytes);
        let _ = decode_blob(path, KIND, bytes);
    }
}
