use std::time::Instant;

use super::*;

#[track_caller]
fn check(pattern: &str, matching: &[&str], other: &[&str]) {
    let compiled = Pattern::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
    for name in matching {
        assert!(compiled.matches(name), "{pattern} does not match {name}");
    }
    for name in other {
        assert!(!compiled.matches(name), "{pattern} matches {name}");
    }
}

#[test]
fn pattern_matches_whole_names() {
    check("orders", &["orders"], &["orders2", "my-orders"]);
    check("orders.*", &["orders", "orders.eu-1"], &["my-orders"]);
    check("a|b", &["a", "b"], &["ab", "ax"]);
    check("^a$|^bc?$", &["a", "b", "bc"], &["abc"]);
    check("(?i)ORDERS-[0-9]{2}", &["orders-07", "Orders-99"], &["orders-7"]);
    check("", &[""], &["a"]);
}

#[test]
fn syntax_is_that_of_re2() {
    check(r"\Qa.b\E.*", &["a.b", "a.bc"], &["axb"]);
    check(r"\Q[x]{1}", &["[x]{1}"], &["x"]);
    check(r"[[:alpha:]]+[[:digit:]]", &["ab1"], &["1a"]);
    check(r"[[a]+", &["[", "a[a"], &["b"]);
    check(r"[a&&b]+", &["a&b"], &["c"]);
    check(r"[+--]+", &["+,-"], &["a"]);
    check(r"[]a]+", &["]a"], &["b"]);
    check(r"[^]a]+", &["bc"], &["b]"]);
    check(r"\pL+", &["abc"], &["a1"]);
    check(r"(?P<name>a)+(?:b)", &["aab"], &["b"]);
    check(r"\d\w\x41\101", &["1_AA"], &["aaAA"]);
    check(r"(?s-i:A).", &["Ab"], &["ab"]);
    check("t\u{e4}", &["t\u{e4}"], &["ta"]);
    check("[t\u{e4}]+", &["t\u{e4}"], &["a"]);
}

#[test]
fn what_is_no_pattern_of_re2_is_refused() {
    let refused = [
        "(",
        ")",
        "[",
        "[a",
        "*",
        "a**?(",
        r"\",
        "a{2,1}",
        "a)|(b",
        r"(a)\1",
        "(?=a)",
        "(?x)a",
        "(?u)a",
        "(?<!a)b",
        r"\p{NoSuchClass}",
        "(?",
    ];
    for pattern in refused {
        assert!(Pattern::new(pattern).is_err(), "{pattern} was taken");
    }
}

#[test]
fn common_patterns_cost_one_unit_and_larger_ones_more() {
    for pattern in [".*", "orders-.*", "^(eu|us)-[a-z]+-[0-9]+$", r"(?i)app\.[\w-]+\.events"] {
        assert_eq!(Pattern::new(pattern).unwrap().units(), 1, "{pattern}");
    }
    let names: Vec<String> = (0..60).map(|index| format!("a-longer-topic-name-{index}")).collect();
    let listed = Pattern::new(&names.join("|")).unwrap();
    assert!(listed.matches("a-longer-topic-name-59"));
    assert!(Pattern::new("(a{0,30}b){0,30}").unwrap().units() > 1);
}

#[test]
fn patterns_made_to_be_slow_or_large_are_refused_or_bounded() {
    let begin = Instant::now();
    let hostile = [
        "(a{1000}){1000}".to_owned(),
        "a".repeat(PATTERN_BYTES_MAX + 1),
        "((((((((((a{9}){9}){9}){9}){9}){9}){9}){9}){9}){9}){9}".to_owned(),
        r"(?i)\pL".repeat(60),
        "(".repeat(4000),
        "[".repeat(4000),
    ];
    for pattern in hostile {
        assert!(Pattern::new(&pattern).is_err(), "taken: {}", &pattern[..20]);
    }
    // Where back-tracking takes for ever, one match is a unit of work.
    let slow = Pattern::new("(a+)+b|(.*a.{60})*c").unwrap();
    assert!(!slow.matches(&"a".repeat(249)));
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,40}|[a-c\\[\\](){}*+?|\\\\^$&~:QE0-9-]{0,40}", name in "[a-z.]{0,9}") {
        if let Ok(pattern) = Pattern::new(&text) {
            let _ = pattern.matches(&name);
        }
    }

    #[test]
    fn quoted_names_match_themselves(name in "[a-zA-Z0-9._-]{1,40}") {
        let pattern = Pattern::new(&format!("\\Q{name}\\E")).unwrap();
        proptest::prop_assert!(pattern.matches(&name));
        let longer = format!("{name}x");
        proptest::prop_assert!(!pattern.matches(&longer));
    }
}
