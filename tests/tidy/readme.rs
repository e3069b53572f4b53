//! What the READMEs say, held to the tree and to the code.

use super::{read, root, tracked};
use std::collections::BTreeSet;

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
fn readme_api_table_is_the_table_of_the_code() {
    let wanted = millstream::wire::apis::markdown_table();
    let readme = read("README.md");
    assert!(
        readme.contains(wanted.trim()),
        "README's table of APIs drifted; it must hold exactly:\n{wanted}"
    );
}

fn test_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    let rest = line
        .strip_prefix("fn ")
        .or_else(|| line.strip_prefix("async fn "))
        .or_else(|| line.strip_prefix("def "))?;
    Some(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
}
