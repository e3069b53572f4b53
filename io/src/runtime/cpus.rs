//! Which CPUs the cores live on: what the process is allowed, and what the operator asked for.

use std::fmt;
use std::str::FromStr;

/// `--cores`: how many cores, or exactly which.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum CoreChoice {
    /// Every CPU this process may run on.
    #[default]
    All,
    /// The first so many of them.
    Count(usize),
    /// These CPUs, in this order, by their numbers in the system.
    List(Vec<usize>),
}

impl FromStr for CoreChoice {
    type Err = CoreChoiceError;

    /// `all`, a count (`4`), or a list with a comma or a dash in it (`0,2,5`, `0-3`, `7,`).
    fn from_str(text: &str) -> Result<CoreChoice, CoreChoiceError> {
        let text = text.trim();
        let unclear = || CoreChoiceError::Unclear { text: text.to_owned() };
        if text.eq_ignore_ascii_case("all") {
            return Ok(CoreChoice::All);
        }
        if !text.contains([',', '-']) {
            return match text.parse() {
                Ok(0) => Err(CoreChoiceError::Zero),
                Ok(count) => Ok(CoreChoice::Count(count)),
                Err(_) => Err(unclear()),
            };
        }
        let mut cpus = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.trim().parse().map_err(|_| unclear())?;
            let last: usize = last.trim().parse().map_err(|_| unclear())?;
            if last < first || last >= CPUS_MAX {
                return Err(unclear());
            }
            for cpu in first..=last {
                if cpus.contains(&cpu) {
                    return Err(CoreChoiceError::Twice { cpu });
                }
                cpus.push(cpu);
            }
        }
        if cpus.is_empty() { Err(unclear()) } else { Ok(CoreChoice::List(cpus)) }
    }
}

impl CoreChoice {
    /// The CPUs to use, one a core, out of those `allowed` (ascending, from the affinity mask).
    ///
    /// Errors: a CPU that is not allowed, or more cores than CPUs: two executors on one CPU
    /// would only get into each other's way.
    pub fn resolve(&self, allowed: &[usize]) -> Result<Vec<usize>, CoreChoiceError> {
        match self {
            CoreChoice::All => Ok(allowed.to_vec()),
            CoreChoice::Count(count) if *count == 0 => Err(CoreChoiceError::Zero),
            CoreChoice::Count(count) if *count > allowed.len() => {
                Err(CoreChoiceError::TooMany { asked: *count, allowed: allowed.to_vec() })
            }
            CoreChoice::Count(count) => Ok(allowed[..*count].to_vec()),
            CoreChoice::List(cpus) => match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
                Some(&cpu) => Err(CoreChoiceError::NotAllowed { cpu, allowed: allowed.to_vec() }),
                None => Ok(cpus.clone()),
            },
        }
    }
}

/// Why `--cores` cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoreChoiceError {
    Unclear { text: String },
    Zero,
    Twice { cpu: usize },
    TooMany { asked: usize, allowed: Vec<usize> },
    NotAllowed { cpu: usize, allowed: Vec<usize> },
}

impl fmt::Display for CoreChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CoreChoiceError::Unclear { text } => write!(
                f,
                "cores={text:?} is neither `all`, a count such as 4, nor a list such as 0,2-5"
            ),
            CoreChoiceError::Zero => f.write_str("cores=0 leaves nothing to run on; use 1 or more"),
            CoreChoiceError::Twice { cpu } => {
                write!(f, "cores names CPU {cpu} twice; each CPU carries one core")
            }
            CoreChoiceError::TooMany { asked, allowed } => write!(
                f,
                "cores={asked} was asked for, but this process may run on {} CPUs only ({}); \
                 use cores={} or widen its affinity (taskset, cpuset)",
                allowed.len(),
                list(allowed),
                allowed.len()
            ),
            CoreChoiceError::NotAllowed { cpu, allowed } => write!(
                f,
                "cores names CPU {cpu}, but this process may run on CPUs {} only; choose among \
                 those or widen its affinity (taskset, cpuset)",
                list(allowed)
            ),
        }
    }
}

impl std::error::Error for CoreChoiceError {}

const CPUS_MAX: usize = 4096;

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CoreChoice, CoreChoiceError> {
        text.parse()
    }

    #[test]
    fn count_list_and_range_are_understood() {
        assert_eq!(parse("all"), Ok(CoreChoice::All));
        assert_eq!(parse(" 4 "), Ok(CoreChoice::Count(4)));
        assert_eq!(parse("7,"), Ok(CoreChoice::List(vec![7])));
        assert_eq!(parse("0,2, 4-6"), Ok(CoreChoice::List(vec![0, 2, 4, 5, 6])));
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        assert_eq!(parse("0"), Err(CoreChoiceError::Zero));
        assert_eq!(parse("1,1"), Err(CoreChoiceError::Twice { cpu: 1 }));
        for text in ["", "x", "1-", "3-1", "-1", ",", "0-99999999"] {
            assert!(matches!(parse(text), Err(CoreChoiceError::Unclear { .. })), "{text:?}");
        }
    }

    #[test]
    fn choice_stays_within_what_the_process_may_use() {
        let allowed = [2, 3, 7];
        assert_eq!(CoreChoice::All.resolve(&allowed), Ok(vec![2, 3, 7]));
        assert_eq!(CoreChoice::Count(2).resolve(&allowed), Ok(vec![2, 3]));
        assert_eq!(CoreChoice::List(vec![7, 2]).resolve(&allowed), Ok(vec![7, 2]));
        let error = CoreChoice::Count(4).resolve(&allowed).unwrap_err();
        assert!(error.to_string().contains("use cores=3"), "{error}");
        let error = CoreChoice::List(vec![0]).resolve(&allowed).unwrap_err();
        assert!(error.to_string().contains("CPUs 2,3,7 only"), "{error}");
    }
}
