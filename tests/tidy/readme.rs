//! What the READMEs say, held to the tree and to the code.

use super::{read, root, tracked};
use millstream_io::checkpoint::{State, read_state, write_state};
use millstream_io::disk_file::FileDisk;
use millstream_io::partition_state::{Manifest, RecoveryCheckpoint};
use std::collections::BTreeSet;
use std::sync::Mutex;

#[test]
fn readme_names_tests_that_exist() {
    let names: BTreeSet<String> = tracked("")
        .iter()
        .filter(|path| path.ends_with(".rs") || path.ends_with(".py") || path.ends_with(".sh"))
        .flat_map(|path| {
            let text = read(path);
            text.lines().filter_map(test_name).collect::<Vec<_>>()
        })
        .collect();
    let readme = read("README.md");
    let mut found = 0;
    for line in readme.lines() {
        for proof in line.split("proof: `").skip(1) {
            let name = proof.split('`').next().unwrap_or_default();
            found += 1;
            let last = name.rsplit("::").next().unwrap_or_default();
            assert!(
                names.contains(last) || root().join(name).exists(),
                "README promises proof `{name}`, and there is no such test"
            );
        }
    }
    assert!(found > 0, "README links its promises to no test");
}

#[test]
fn links_and_paths_of_readmes_lead_somewhere() {
    let tree = tree();
    let mut faults = Vec::new();
    let mut found = 0;
    for readme in tracked("README.md") {
        let home = parent(&readme);
        let text = prose(&read(&readme));
        for (line, target) in links(&text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { Some(readme.clone()) } else { joined(home, path) };
            found += 1;
            let there = path.is_some_and(|path| {
                tree.contains(&path) && (anchor.is_empty() || anchors(&path).contains(anchor))
            });
            if !there {
                faults.push(format!("{readme}:{line}: the link to {target} leads nowhere"));
            }
        }
        for (line, span) in code_spans(&text) {
            let Some(path) = repository_path(span, home, &tree) else { continue };
            found += 1;
            if !bases(home).any(|base| joined(base, path).is_some_and(|p| tree.contains(&p))) {
                faults.push(format!("{readme}:{line}: there is no {path}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(found > 0, "no README links anything: the test would prove nothing");
}

/// The page of disk formats repeats what the sources draw, so that it can be read in one sitting.
#[test]
fn drawings_of_disk_formats_are_those_of_the_sources() {
    const PAGE: &str = "io/README.md";
    let page = read(PAGE);
    let lines: Vec<&str> = page.lines().collect();
    let mut drawings = 0;
    for (index, line) in lines.iter().enumerate() {
        let source = line.strip_prefix("Source: [").map(|rest| {
            let target = rest.split("](").nth(1).unwrap_or_default().trim_end_matches(')');
            joined(parent(PAGE), target).unwrap_or_default()
        });
        let fenced = *line == "```text";
        assert!(
            !fenced || index >= 2 && lines[index - 2].starts_with("Source: ["),
            "{PAGE}:{}: a drawing without the source that it is of",
            index + 1
        );
        let Some(source) = source else { continue };
        let behind = &lines[index + 2..];
        let drawing: Vec<&str> = if behind[0] == "```text" {
            behind[1..].iter().take_while(|line| **line != "```").copied().collect()
        } else {
            behind.iter().take_while(|line| line.starts_with('|')).copied().collect()
        };
        assert!(!drawing.is_empty(), "{PAGE}:{}: no drawing follows", index + 1);
        let code = read(&source);
        let doc: Vec<&str> = code
            .lines()
            .filter_map(|line| line.strip_prefix("//!"))
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .collect();
        assert!(
            doc.windows(drawing.len()).any(|window| window == drawing),
            "{PAGE}:{}: {source} does not draw this; take its drawing:\n{}",
            index + 3,
            drawing.join("\n")
        );
        drawings += 1;
    }
    assert!(drawings > 0, "{PAGE} draws nothing");
}

#[test]
fn examples_of_state_files_are_what_the_broker_would_write() {
    let page = read("io/README.md");
    let examples: Vec<&str> = page
        .split("```json\n")
        .skip(1)
        .filter_map(|rest| rest.split_inclusive('\n').next())
        .collect();
    assert_eq!(examples.len(), 2, "one example for each kind of state");
    check_example::<Manifest>(examples[0]);
    check_example::<RecoveryCheckpoint>(examples[1]);
}

fn check_example<S: State>(example: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(S::FILE);
    std::fs::write(&path, example).expect("the example is written");
    let state = read_state::<_, S>(&FileDisk, dir.path());
    let state = state.unwrap_or_else(|error| panic!("{example}{error}"));
    let state = state.unwrap_or_else(|| panic!("{} is not found", S::FILE));
    write_state(&FileDisk, dir.path(), &state).expect("the state is written");
    let written = std::fs::read_to_string(&path).expect("the state is read");
    assert_eq!(example, written, "{}", S::FILE);
}

#[test]
fn readme_api_table_is_the_table_of_the_code() {
    check_generated("apis", &millstream::wire::apis::markdown_table());
}

#[test]
fn readme_lists_every_setting_as_the_code_has_it() {
    check_generated("settings", &millstream::cli::settings::markdown());
}

#[test]
fn readme_lists_every_metric_as_the_code_has_it() {
    check_generated("metrics", &millstream::admin::families::markdown());
}

/// Holds the part of README.md between the comments of `name` to what the code says. With `MEND`
/// set, the part is replaced instead.
fn check_generated(name: &str, wanted: &str) {
    static MENDING: Mutex<()> = Mutex::new(());
    const COMMAND: &str = "MEND=1 cargo test --test tidy";
    let _one_at_a_time = MENDING.lock();
    let (begin, end) =
        (format!("<!-- {name}: written by `{COMMAND}` -->\n"), format!("<!-- end of {name} -->"));
    let readme = read("README.md");
    let parts = readme.split_once(&begin).and_then(|(before, rest)| {
        let (found, after) = rest.split_once(&end)?;
        Some((before, found, after))
    });
    let Some((before, found, after)) = parts else {
        panic!("README.md has lost the comments around its {name}: {begin}...\n{end}");
    };
    let wanted = wanted.trim();
    if found.trim() == wanted {
        return;
    }
    if std::env::var_os("MEND").is_some() {
        let mended = format!("{before}{begin}\n{wanted}\n\n{end}{after}");
        std::fs::write(root().join("README.md"), mended).expect("README.md is written");
        return;
    }
    let missing = wanted.lines().find(|line| !found.lines().any(|other| other == *line));
    panic!(
        "README.md: its {name} are not those of the code; mend it with\n    {COMMAND}\nFor one, it \
         lacks: {}",
        missing.unwrap_or("nothing, but it says too much")
    );
}

/// A client that is tested: its name in README.md, in tests/README.md, and the places that pin its
/// version, each as a file and what stands in front of the version.
type Client = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const CLIENTS: &[Client] = &[
    ("kcat", "kcat", &[("tests/lib/tools.py", "\"Version "), (CLIENTS_PY, "\"kcat ")]),
    (
        "confluent-kafka",
        "confluent-kafka",
        &[
            (PYTHON, "confluent-kafka=="),
            ("tests/fault/requirements.txt", "confluent-kafka=="),
            (CLIENTS_PY, "\"confluent-kafka "),
        ],
    ),
    (
        "kafka-python",
        "kafka-python",
        &[
            (PYTHON, "kafka-python=="),
            ("tests/clients/kafka-python/sdist.txt", "kafka-python=="),
            (CLIENTS_PY, "\"kafka-python "),
        ],
    ),
    ("aiokafka", "aiokafka", &[(PYTHON, "aiokafka=="), (CLIENTS_PY, "\"aiokafka ")]),
    (
        "rskafka",
        "rskafka",
        &[("tests/clients/rust/Cargo.toml", "rskafka = \"="), (CLIENTS_PY, "\"rskafka ")],
    ),
    (
        "kafka-clients",
        "java",
        &[
            ("tests/lib/tools.py", "KAFKA = \""),
            ("tests/clients/java/pom.xml", "<artifactId>kafka_2.13</artifactId><version>"),
            ("tests/clients/java/pom.xml", "<artifactId>kafka-tools</artifactId><version>"),
        ],
    ),
    ("franz-go", "franz-go", &[(GO, "github.com/twmb/franz-go v"), (CLIENTS_PY, "\"franz-go ")]),
    ("sarama", "sarama", &[(GO, "github.com/IBM/sarama v"), (CLIENTS_PY, "\"sarama ")]),
    ("kafkajs", "kafkajs", &[(NODE, "\"kafkajs\": \""), (CLIENTS_PY, "\"kafkajs ")]),
    (
        "@platformatic/kafka",
        "platformatic",
        &[(NODE, "\"@platformatic/kafka\": \""), (CLIENTS_PY, "\"@platformatic/kafka ")],
    ),
];

/// Clients that are judged by the test suites that come with them alone; README.md names them.
const SUITES: &[Client] = &[
    ("librdkafka", "", &[("tests/clients/librdkafka/Cargo.lock", "4.10.0+")]),
    ("rust-rdkafka", "", &[("tests/clients/rdkafka/Cargo.toml", "rdkafka = { version = \"=")]),
];

const CLIENTS_PY: &str = "tests/lib/clients.py";
const PYTHON: &str = "tests/clients/python/requirements.txt";
const GO: &str = "tests/clients/go/go.mod";
const NODE: &str = "tests/clients/node/package.json";

#[test]
fn versions_of_clients_are_those_that_the_tests_pin() {
    let known = read(CLIENTS_PY).matches("    Client(\"").count();
    assert_eq!(known, CLIENTS.len(), "{CLIENTS_PY} has clients whose versions are not looked at");
    let mut faults = Vec::new();
    for (readme, name_of, suites) in [("README.md", 0, SUITES), ("tests/README.md", 1, &[])] {
        let rows = table_under(readme, "Client");
        assert_eq!(rows.len(), CLIENTS.len() + suites.len(), "{readme}: rows of clients");
        for client in CLIENTS.iter().chain(suites) {
            let name = if name_of == 0 { client.0 } else { client.1 };
            let row = rows.iter().find(|row| {
                row[0]
                    .strip_prefix(name)
                    .is_some_and(|rest| !rest.starts_with(|c| c != ' ' && c != ','))
            });
            let told = row.map_or("no row", |row| row[1].as_str());
            for (file, before) in client.2 {
                let pinned = version_behind(&read(file), before);
                if told != pinned {
                    faults.push(format!("{readme}: {name} {told}, and {file} says {pinned}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn version_behind(text: &str, before: &str) -> String {
    let Some((_, rest)) = text.split_once(before) else { return format!("nothing of {before}") };
    rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect()
}

/// Cells of the rows below the first heading that starts with `heading`.
fn table_under(path: &str, heading: &str) -> Vec<Vec<String>> {
    let text = read(path);
    let mark = format!("\n## {heading}");
    let section = text.split_once(&mark).map_or("", |(_, rest)| rest);
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect())
        .collect()
}

// ---- reading Markdown -------------------------------------------------------------------------

/// Names with one of these endings are taken for paths even without a `/`.
const SOURCE_ENDINGS: &[&str] = &[".rs", ".py", ".md", ".mjs", ".go", ".java"];

/// Every file of the repository, and every directory that holds one.
fn tree() -> BTreeSet<String> {
    let mut tree = BTreeSet::from([String::new()]);
    for path in tracked("") {
        let mut parents = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
        tree.extend(parents.by_ref());
        tree.insert(path);
    }
    tree
}

/// The text with its fenced blocks emptied, lines kept.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let keep = |line| {
        let fence = str::starts_with(line, "```");
        fenced ^= fence;
        if fence || fenced { "" } else { line }
    };
    text.lines().map(keep).collect::<Vec<_>>().join("\n")
}

/// Relative links with the lines they stand in.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices("](").filter_map(|(at, mark)| {
        let target = text[at + mark.len()..].split(')').next()?;
        let elsewhere = target.contains("://") || target.starts_with("mailto:");
        (!elsewhere).then_some((line_of(text, at), target))
    })
}

/// What stands in backticks, with its lines.
fn code_spans(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split('`').enumerate().filter_map(move |(index, part)| {
        let line = line_of(text, at);
        at += part.len() + 1;
        (index % 2 == 1).then_some((line, part))
    })
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The first word of a code span, if it looks like a path of the repository: its first part is a
/// directory of ours, or its ending that of a source. Build products and patterns are none.
fn repository_path<'a>(span: &'a str, home: &str, tree: &BTreeSet<String>) -> Option<&'a str> {
    let word = span.split_whitespace().next()?.split("::").next()?;
    let word = word.trim_start_matches("./").trim_end_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || "./_-".contains(c);
    if word.starts_with('/') || !word.chars().all(plain) {
        return None;
    }
    let ours = word.split_once('/').is_some_and(|(first, _)| {
        bases(home).any(|base| joined(base, first).is_some_and(|path| tree.contains(&path)))
    });
    let source = SOURCE_ENDINGS.iter().any(|e| word.len() > e.len() && word.ends_with(e));
    (ours || source).then_some(word)
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// A directory and all above it: a README speaks of paths in its own room or from the top.
fn bases(home: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(home), |base| (!base.is_empty()).then(|| parent(base)))
}

/// `path` as seen from `base`; `None` when it leads out of the repository.
fn joined(base: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// What a link may name behind `#`: the headings, as a web page spells them.
fn anchors(path: &str) -> BTreeSet<String> {
    let text = prose(&read(path));
    let heading = |line: &str| {
        let words = line.strip_prefix('#')?.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        Some(words.chars().filter(kept).collect::<String>().replace(' ', "-"))
    };
    text.lines().filter_map(heading).collect()
}

#[test]
fn the_reader_of_paths_tells_them_from_other_words() {
    let tree = tree();
    let path = |span| repository_path(span, "io/src/runtime", &tree);
    for (span, expected) in [
        ("tests/no_such.rs::test", "tests/no_such.rs"),
        ("./tests/run --long", "tests/run"),
        ("src/no_such_room/", "src/no_such_room"),
        ("no_such.rs", "no_such.rs"),
        ("net/no_such", "net/no_such"),
    ] {
        assert_eq!(path(span), Some(expected));
    }
    for span in ["journal/<shard>/", "/proc/self/fd", ".log", ".rs", "manifest.json", "a/b", "-x"] {
        assert_eq!(path(span), None);
    }
    let text = prose("`a` [b](c#d)\n```\n`no`\n```\nover `two\nlines` [e](http://f)");
    assert_eq!(code_spans(&text).collect::<Vec<_>>(), [(1, "a"), (5, "two\nlines")]);
    assert_eq!(links(&text).collect::<Vec<_>>(), [(1, "c#d")]);
    assert_eq!(joined("io/src", "../README.md").as_deref(), Some("io/README.md"));
    assert_eq!(joined("", "../other"), None);
}

fn test_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    let rest = line
        .strip_prefix("fn ")
        .or_else(|| line.strip_prefix("async fn "))
        .or_else(|| line.strip_prefix("def "))?;
    Some(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
}
