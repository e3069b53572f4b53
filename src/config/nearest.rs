//! The nearest known name to a mistyped one.

/// The candidate that is the fewest edits away from `typed`, if that is near enough to be meant:
/// at most a third of the letters differ. Cost is bounded: names above 128 bytes have no nearest.
pub fn nearest<'a>(typed: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const TYPED_BYTES_MAX: usize = 128;
    if typed.is_empty() || typed.len() > TYPED_BYTES_MAX {
        return None;
    }
    let typed = typed.to_ascii_lowercase();
    candidates
        .map(|candidate| (edits(typed.as_bytes(), candidate.as_bytes()), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| *distance * 3 <= candidate.len())
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance with neighbours swapped counting as two edits; one row of memory.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replace = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typo_finds_its_name_and_nonsense_finds_none() {
        let names = ["segment.bytes", "segment.ms", "max.message.bytes"];
        let find = |typed| nearest(typed, names.iter().copied());
        assert_eq!(find("segment.mss"), Some("segment.ms"));
        assert_eq!(find("segmnet.bytes"), Some("segment.bytes"));
        assert_eq!(find("MAX.MESSAGE.BYTE"), Some("max.message.bytes"));
        assert_eq!(find("fondue"), None);
        assert_eq!(find(""), None);
        assert_eq!(find(&"x".repeat(1 << 20)), None);
    }
}
