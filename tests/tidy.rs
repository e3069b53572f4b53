//! The house rules, read from the sources themselves: floors, forbidden words, length ratchets.
//! `tidy/readme.rs` reads the READMEs. Method: plain text over the tracked files; no parser, since
//! rustfmt has already given every construct one shape.

#![allow(clippy::expect_used, reason = "a tree that cannot be read is the failure of the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "tidy/readme.rs"]
mod readme;

/// Longest function without a reason, in lines.
const FUNCTION_LINES_MAX: usize = 70;
/// Longest non-test file without a reason, in lines.
const FILE_LINES_MAX: usize = 450;

/// Files that may be longer than [`FILE_LINES_MAX`]: path, ceiling, reason. Ceilings only shrink.
const LONG_FILES: &[(&str, usize, &str)] = &[];

/// Functions that may be longer than [`FUNCTION_LINES_MAX`]: path, name, reason.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

#[test]
fn top_level_holds_only_the_rooms_of_the_plan() {
    let allowed: BTreeSet<&str> = [
        "Cargo.toml",
        "Cargo.lock",
        "LICENSE",
        "README.md",
        "src",
        "shards",
        "io",
        "bench",
        "tuning",
        "tests",
    ]
    .into();
    for path in tracked("") {
        let first = path.split('/').next().unwrap_or_default();
        assert!(
            allowed.contains(first) || first.starts_with('.'),
            "{path}: not a room of the house; the top level is fixed"
        );
    }
}

#[test]
fn each_floor_imports_only_lower_floors() {
    let mut faults = Vec::new();
    for path in tracked(".rs") {
        let Some(floor) = floor_of(&path) else { continue };
        let text = code_lines(&path);
        for (number, line) in &text {
            for room in crate_rooms(line, &path) {
                if let Some(target) = floor_of_room(&room)
                    && target > floor
                {
                    faults.push(format!(
                        "{path}:{number}: floor {floor} imports {room} (floor {target})"
                    ));
                }
            }
            if path.starts_with("io/") && line.contains("millstream_shards") {
                faults.push(format!("{path}:{number}: io imports shards"));
            }
            if !path.starts_with("src/")
                && has_word(line, "millstream")
                && line.contains("millstream::")
            {
                faults.push(format!("{path}:{number}: a lower crate imports the broker"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn glommio_is_named_only_where_another_ring_would_replace_it() {
    let allowed = |path: &str| {
        path.starts_with("io/src/runtime/")
            || path.starts_with("io/src/net/")
            || path == "io/src/disk_uring.rs"
            || path.starts_with("io/src/disk_uring/")
            || path.starts_with("io/tests/")
    };
    forbid_word("glommio", allowed);
}

#[test]
fn the_control_plane_runtime_stays_in_its_rooms() {
    for word in ["tokio", "hyper", "etcd_client"] {
        forbid_word(word, |path| {
            path.starts_with("src/cluster/control/")
                || path.starts_with("src/admin/")
                || path.starts_with("tests/")
                || path.starts_with("bench/")
        });
    }
}

#[test]
fn unsafe_code_lives_on_the_ground_floor_with_its_proof() {
    let mut faults = Vec::new();
    for path in tracked(".rs").into_iter().filter(|path| path != "tests/tidy.rs") {
        let text = read(&path);
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if !(code.contains("unsafe {")
                || code.contains("unsafe impl")
                || code.contains("unsafe fn"))
            {
                continue;
            }
            if !path.starts_with("io/")
                && !path.starts_with("tests/")
                && !path.starts_with("bench/")
            {
                faults.push(format!("{path}:{}: unsafe outside io/", index + 1));
            }
            let from = index.saturating_sub(8);
            let proof =
                lines[from..=index].iter().any(|l| l.contains("SAFETY:") || l.contains("# Safety"));
            if !proof {
                faults.push(format!("{path}:{}: unsafe without a SAFETY proof", index + 1));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn nothing_is_left_unfinished_or_unwrapped_outside_tests() {
    let mut faults = Vec::new();
    for path in tracked(".rs") {
        if is_test_file(&path) {
            continue;
        }
        for (number, line) in code_lines(&path) {
            for bad in
                [".unwrap()", ".expect(\"", ".expect(&", "todo!(", "unimplemented!(", "dbg!("]
            {
                if line.contains(bad) {
                    faults.push(format!("{path}:{number}: {bad}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn long_functions_and_files_have_a_reason() {
    let mut faults = Vec::new();
    let mut used = BTreeSet::new();
    for path in tracked(".rs") {
        if is_test_file(&path) {
            continue;
        }
        let lines = code_lines(&path);
        let ceiling = LONG_FILES.iter().find(|(p, ..)| *p == path).map_or(FILE_LINES_MAX, |f| f.1);
        if lines.len() > ceiling {
            faults.push(format!("{path}: {} lines of code, at most {ceiling}", lines.len()));
        }
        for (name, start, length) in functions(&lines) {
            if length <= FUNCTION_LINES_MAX {
                continue;
            }
            match LONG_FUNCTIONS.iter().find(|(p, n, _)| *p == path && *n == name) {
                Some(entry) => {
                    used.insert((entry.0, entry.1));
                }
                None => faults.push(format!("{path}:{start}: fn {name} has {length} lines")),
            }
        }
    }
    for (path, name, _) in LONG_FUNCTIONS {
        if !used.contains(&(*path, *name)) {
            faults.push(format!("{path}: fn {name} no longer needs its exception; remove it"));
        }
    }
    for (path, ..) in LONG_FILES {
        if !Path::new(&root().join(path)).exists() {
            faults.push(format!("{path}: in LONG_FILES and gone"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn ignored_tests_say_which_command_runs_them() {
    for path in tracked(".rs") {
        if path == "tests/tidy.rs" {
            continue;
        }
        for (index, line) in read(&path).lines().enumerate() {
            if line.trim_start().starts_with("#[ignore") {
                assert!(
                    line.contains("--long") || line.contains("root"),
                    "{path}:{}: an ignored test names `./tests/run --long` or its need of root",
                    index + 1
                );
            }
        }
    }
}

#[test]
fn the_tree_speaks_of_the_project_alone() {
    let forbidden = [
        concat!("/wo", "rk/"),
        concat!("/tmp/", "ms"),
        concat!("../sha", "red"),
        concat!("crates.io/ap", "i"),
        concat!("pypi.or", "g"),
        concat!("registry.npmj", "s"),
        concat!("repo1.mav", "en"),
        concat!("proxy.golan", "g"),
        concat!("deb.deb", "ian"),
        concat!("DEVELOPERS", ".md"),
    ];
    let mut faults = Vec::new();
    for path in tracked("") {
        if path == "Cargo.lock"
            || path.ends_with("/Cargo.lock")
            || path.ends_with("package-lock.json")
        {
            continue;
        }
        for (index, line) in read(&path).lines().enumerate() {
            for word in &forbidden {
                if line.contains(word) {
                    faults.push(format!("{path}:{}: {word}", index + 1));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

// ---- reading the tree -------------------------------------------------------------------------

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Tracked files, plus new files that are not ignored, whose names end in `suffix`.
fn tracked(suffix: &str) -> Vec<String> {
    let out = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the tree");
    assert!(out.status.success(), "git ls-files: {}", String::from_utf8_lossy(&out.stderr));
    let list = String::from_utf8(out.stdout).expect("paths are UTF-8");
    let files: Vec<String> = list
        .lines()
        .filter(|path| path.ends_with(suffix) && root().join(path).is_file())
        .map(str::to_owned)
        .collect();
    assert!(!files.is_empty(), "no file ends in {suffix:?}: the test would prove nothing");
    files
}

fn read(path: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(root().join(path)).expect(path)).into_owned()
}

fn is_test_file(path: &str) -> bool {
    path.contains("tests/")
        || path.contains("/testing")
        || path.ends_with("_tests.rs")
        || path.ends_with("/tests.rs")
}

/// Numbered lines of a file without comments, up to its `#[cfg(test)]` module.
fn code_lines(path: &str) -> Vec<(usize, String)> {
    let text = read(path);
    let mut lines = Vec::new();
    let all: Vec<&str> = text.lines().collect();
    for (index, line) in all.iter().enumerate() {
        let next_is_module =
            all.get(index + 1).is_some_and(|next| next.trim_start().starts_with("mod "));
        if line.starts_with("#[cfg(test)]") && (next_is_module || line.contains("mod ")) {
            let declared_only =
                all.get(index + 1).is_some_and(|next| next.trim_end().ends_with(';'));
            if !declared_only {
                break;
            }
        }
        let code = line.trim_start();
        if !code.starts_with("//") {
            lines.push((index + 1, (*line).to_owned()));
        }
    }
    lines
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

fn forbid_word(word: &str, allowed: impl Fn(&str) -> bool) {
    let mut faults = Vec::new();
    for path in tracked(".rs") {
        if path == "tests/tidy.rs" || allowed(&path) {
            continue;
        }
        for (number, line) in code_lines(&path) {
            if has_word(line.split("//").next().unwrap_or_default(), word) {
                faults.push(format!("{path}:{number}: names {word}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Floor of a source file of the root package; the lower crates are one floor each.
fn floor_of(path: &str) -> Option<u8> {
    if path.starts_with("io/src/") {
        return Some(0);
    }
    if path.starts_with("shards/src/") {
        return Some(1);
    }
    let room = path.strip_prefix("src/")?;
    let room = room.split('/').next()?.trim_end_matches(".rs");
    if room == "lib" {
        return None;
    }
    Some(floor_of_room(room).unwrap_or_else(|| panic!("{path}: a room without a floor")))
}

fn floor_of_room(room: &str) -> Option<u8> {
    Some(match room {
        "main" | "serve" | "cli" => 6,
        "session" | "mqtt" | "admin" => 5,
        "api" => 4,
        "coordinator" | "group" | "txn" | "cluster" | "replication" => 3,
        "wire" | "authorizer" | "login" | "quota" | "config" => 2,
        "millstream_shards" => 1,
        "millstream_io" => 0,
        _ => return None,
    })
}

/// Rooms of the house that a line of code names: `crate::room`, `millstream::room`, lower crates.
fn crate_rooms(line: &str, path: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for prefix in ["crate::", "millstream::"] {
        if prefix == "crate::" && !path.starts_with("src/") {
            continue;
        }
        for rest in line.split(prefix).skip(1) {
            if let Some(group) = rest.strip_prefix('{') {
                let inner = group.split('}').next().unwrap_or_default();
                rooms.extend(
                    inner.split(',').filter_map(|p| p.trim().split("::").next()).map(str::to_owned),
                );
            } else {
                let word: String =
                    rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                rooms.push(word);
            }
        }
    }
    for low in ["millstream_shards", "millstream_io"] {
        if has_word(line, low) {
            rooms.push(low.to_owned());
        }
    }
    rooms
}

/// Functions of rustfmt-formed code: name, first line, length in lines of code.
fn functions(lines: &[(usize, String)]) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    for (index, (number, line)) in lines.iter().enumerate() {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        let Some(at) = body.find("fn ") else { continue };
        let head = &body[..at];
        let plain = head.split_whitespace().all(|w| {
            w.starts_with("pub")
                || ["const", "async", "unsafe", "extern", "\"C\""].contains(&w)
                || w.ends_with(')')
        });
        if !plain {
            continue;
        }
        let name: String =
            body[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if name.is_empty() || body.ends_with(';') || body.ends_with("{}") {
            continue;
        }
        let close = format!("{}}}", " ".repeat(indent));
        if let Some(length) = lines[index..].iter().position(|(_, l)| *l == close) {
            found.push((name, *number, length + 1));
        }
    }
    found
}

#[test]
fn the_reader_of_functions_sees_what_it_must() {
    let source = "pub fn short() {\n    body();\n}\nimpl X {\n    async fn inner(&self) {\n        a();\n        b();\n    }\n}\n";
    let lines: Vec<(usize, String)> =
        source.lines().enumerate().map(|(i, l)| (i + 1, l.to_owned())).collect();
    let map: BTreeMap<String, usize> =
        functions(&lines).into_iter().map(|(n, _, l)| (n, l)).collect();
    assert_eq!(map.get("short"), Some(&3));
    assert_eq!(map.get("inner"), Some(&4));
}
