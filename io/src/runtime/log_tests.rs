use std::sync::{Arc, Mutex, MutexGuard};

use super::*;
use crate::runtime::limits::{LOG_SITE_LINES, LOG_SITE_WINDOW};

/// The log is one for the process; tests that start it take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[test]
fn line_stays_one_line_whatever_a_stranger_sent() {
    let _turn = turn();
    let sink = Sink::default();
    let log = start_with(sink.clone()).unwrap();
    warn("test", "odd\nname").field("topic", "a b\n\"c\"").field("bytes", 12).emit();
    flush(Duration::from_secs(10));
    drop(log);
    let text = sink.text();
    let line = text.lines().find(|line| line.contains("test: ")).unwrap();
    assert!(line.ends_with(r#"WARN test: odd\nname topic="a b\n\"c\"" bytes=12"#), "{line}");
}

#[test]
fn too_long_line_is_cut_and_says_so() {
    let _turn = turn();
    let sink = Sink::default();
    let log = start_with(sink.clone()).unwrap();
    error("cut", "é".repeat(LOG_LINE_BYTES_MAX)).emit();
    drop(log);
    let text = sink.text();
    let line = text.lines().find(|line| line.contains("cut: ")).unwrap();
    assert!(line.ends_with(" ...cut") && line.len() <= LOG_LINE_BYTES_MAX + 7, "{}", line.len());
}

#[test]
fn lines_beyond_the_bound_are_dropped_counted_and_told() {
    let _turn = turn();
    let sink = Sink::default();
    let hold = sink.0.lock().unwrap();
    let before = lines_dropped();
    let log = start_with(sink.clone()).unwrap();
    for n in 0..LOG_LINES + 50 {
        info("flood", n).emit();
    }
    assert!(lines_dropped() > before);
    drop(hold);
    drop(log);
    assert!(sink.text().contains("lines were dropped"));
}

#[test]
fn one_site_cannot_fill_the_log() {
    let site = Site::new();
    let now = Duration::from_secs(5);
    let admitted = (0..100).filter(|_| site.admit_at(now).is_some()).count();
    assert_eq!(admitted, LOG_SITE_LINES as usize);
    let later = now + LOG_SITE_WINDOW;
    assert_eq!(site.admit_at(later), Some(100 - u64::from(LOG_SITE_LINES)));
    assert_eq!(site.admit_at(later), Some(0));
}

#[test]
fn level_below_the_one_in_force_is_not_formatted() {
    struct Never;
    impl Display for Never {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("formatted a line that is not written");
        }
    }
    assert!(!enabled(Level::Debug));
    debug("test", Never).field("x", Never).emit();
}

#[test]
fn timestamps_are_right_over_leap_days_and_centuries() {
    let at = |seconds| Timestamp(UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
    assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000Z");
    assert_eq!(at(1_709_210_096), "2024-02-29T12:34:56.000Z");
    assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59.000Z");
    assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000Z");
}
