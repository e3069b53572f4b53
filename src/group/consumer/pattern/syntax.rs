//! RE2's syntax where the library's differs: quoted text, brackets and operators within classes,
//! flags and references that RE2 does not know.

use super::PatternError;

/// The same pattern in the library's syntax.
///
/// # Errors
/// For flags and references that RE2 does not have.
pub(super) fn from_re2(text: &str) -> Result<String, PatternError> {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix(r"\Q") {
            let (literal, behind) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
            literal.chars().for_each(|c| push_literal(&mut out, c));
            rest = behind;
            continue;
        }
        rest = match next {
            '[' => class(rest, &mut out),
            '\\' => {
                check_reference(rest)?;
                copy(rest, escape(rest), &mut out)
            }
            '(' => {
                check_flags(rest)?;
                copy(rest, 1, &mut out)
            }
            _ => copy(rest, next.len_utf8(), &mut out),
        };
    }
    Ok(out)
}

/// Copies the first bytes; gives the others.
fn copy<'a>(rest: &'a str, length: usize, out: &mut String) -> &'a str {
    let (copied, behind) = rest.split_at(length);
    out.push_str(copied);
    behind
}

fn push_literal(out: &mut String, c: char) {
    if c.is_ascii_punctuation() {
        out.push('\\');
    }
    out.push(c);
}

/// Length of an escape; what it stands for does not matter here.
fn escape(rest: &str) -> usize {
    1 + rest[1..].chars().next().map_or(0, char::len_utf8)
}

/// Copies a class; gives what is behind it. Brackets within are characters, and so are two of the
/// library's operators.
fn class<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let head = if rest.starts_with("[^") { 2 } else { 1 };
    let mut rest = copy(rest, head, out);
    let mut is_first = true;
    while let Some(next) = rest.chars().next() {
        let is_doubled = || rest[next.len_utf8()..].starts_with(next);
        rest = match next {
            ']' if is_first => copy(rest, 1, out),
            ']' => return copy(rest, 1, out),
            '\\' => copy(rest, escape(rest), out),
            '[' if rest.starts_with("[:") => copy(rest, named_class(rest), out),
            '[' => {
                out.push('\\');
                copy(rest, 1, out)
            }
            // `--a` at the beginning is a range from `-`, elsewhere `a--` is one to `-`.
            '-' if is_doubled() && is_first => {
                out.push('\\');
                copy(rest, 1, out)
            }
            '-' | '&' | '~' if is_doubled() => {
                let rest = copy(rest, 1, out);
                out.push('\\');
                copy(rest, 1, out)
            }
            _ => copy(rest, next.len_utf8(), out),
        };
        is_first = false;
    }
    rest
}

/// Length of a class by name within a class, or of a lone bracket.
fn named_class(rest: &str) -> usize {
    rest.find(":]").map_or(1, |end| end + 2)
}

fn check_reference(rest: &str) -> Result<(), PatternError> {
    let mut digits = rest[1..].chars().take_while(char::is_ascii_digit);
    match (digits.next(), digits.next()) {
        (Some('1'..='9'), None) => {
            Err(PatternError::Invalid { reason: "it refers back to a group".to_owned() })
        }
        _ => Ok(()),
    }
}

fn check_flags(rest: &str) -> Result<(), PatternError> {
    let Some(flags) = rest.strip_prefix("(?") else { return Ok(()) };
    let flags: String =
        flags.chars().take_while(|c| c.is_ascii_alphabetic() || *c == '-').collect();
    // `(?P<name>` is no flag.
    match flags.chars().find(|c| !matches!(c, 'i' | 'm' | 's' | 'U' | '-' | 'P')) {
        None => Ok(()),
        Some(flag) => Err(PatternError::Invalid { reason: format!("it has no flag `{flag}`") }),
    }
}
