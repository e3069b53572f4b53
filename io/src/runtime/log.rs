//! Log lines for cores: a line is built where it happens and written by one thread, so no core
//! ever waits for stderr.
//!
//! One line: `2024-05-01T12:00:00.123Z WARN session: what happened peer=10.0.0.1:5 bytes=12`.
//! The channel to the log thread is bounded; what does not fit is counted, and the count is
//! written as soon as there is room. Before [`start`] (and in tools that never call it) lines go
//! to stderr at once.

use std::fmt::{self, Display, Write as _};
use std::io::Write as _;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::limits::{LOG_LINE_BYTES_MAX, LOG_LINES};
use super::oneshot::{Promise, oneshot};

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something was lost or cannot be done, and a person must act.
    Error,
    /// Something is off and may need a person.
    Warn,
    /// Start, stop, and changes that a person caused.
    Info,
    /// For those who look for a fault.
    Debug,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Error => "ERROR",
            Level::Warn => "WARN",
            Level::Info => "INFO",
            Level::Debug => "DEBUG",
        }
    }
}

impl std::str::FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        match text.to_ascii_lowercase().as_str() {
            "error" => Ok(Level::Error),
            "warn" | "warning" => Ok(Level::Warn),
            "info" => Ok(Level::Info),
            "debug" => Ok(Level::Debug),
            _ => Err(format!("log level {text:?} is none of error, warn, info, debug")),
        }
    }
}

/// A line at the level; `target` names the part that speaks (`session`, `journal`).
pub fn error(target: &'static str, message: impl Display) -> Line {
    Line::new(Level::Error, target, &message)
}

/// See [`error`].
pub fn warn(target: &'static str, message: impl Display) -> Line {
    Line::new(Level::Warn, target, &message)
}

/// See [`error`].
pub fn info(target: &'static str, message: impl Display) -> Line {
    Line::new(Level::Info, target, &message)
}

/// See [`error`].
pub fn debug(target: &'static str, message: impl Display) -> Line {
    Line::new(Level::Debug, target, &message)
}

/// A line under construction. Nothing is written before [`Line::emit`]; below the level in force
/// nothing is even formatted.
#[must_use = "a line is written by `emit`"]
pub struct Line {
    text: Option<String>,
}

impl Line {
    fn new(level: Level, target: &str, message: &dyn Display) -> Line {
        if !enabled(level) {
            return Line { text: None };
        }
        let mut text = String::with_capacity(160);
        let _ = write!(text, "{} {} {target}: ", Timestamp(SystemTime::now()), level.name());
        let _ = write!(Plain(&mut text), "{message}");
        Line { text: Some(text) }
    }

    /// Adds `name=value`. Values with blanks or quotes are quoted, line ends and other control
    /// characters escaped, so that a line stays one line whatever a stranger sent.
    pub fn field(mut self, name: &str, value: impl Display) -> Line {
        if let Some(text) = &mut self.text {
            let _ = write!(text, " {name}=");
            let start = text.len();
            let _ = write!(text, "{value}");
            if needs_quotes(&text[start..]) {
                let raw = text.split_off(start);
                let _ = write!(text, "{raw:?}");
            }
        }
        self
    }

    /// Hands the line to the log thread. Never waits.
    pub fn emit(self) {
        if let Some(mut text) = self.text {
            if text.len() > LOG_LINE_BYTES_MAX {
                let cut = (0..=LOG_LINE_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at));
                text.truncate(cut.unwrap_or(0));
                text.push_str(" ...cut");
            }
            text.push('\n');
            submit(text);
        }
    }
}

/// Sets the least level that is written. Info at first.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Whether lines of this level are written.
pub fn enabled(level: Level) -> bool {
    level as u8 <= LEVEL.load(Ordering::Relaxed)
}

/// Lines dropped since the start because the log thread did not keep up.
pub fn lines_dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Starts the log thread. Until the guard is dropped, lines go through it; the drop writes what
/// is queued and ends the thread.
///
/// Errors: the system refuses a thread.
pub fn start() -> std::io::Result<LogThread> {
    start_with(std::io::stderr())
}

/// [`start`] with another place to write to.
pub fn start_with(mut out: impl std::io::Write + Send + 'static) -> std::io::Result<LogThread> {
    let (sender, lines) = sync_channel(LOG_LINES);
    let cpus = super::os::affinity()?;
    let dropped = lines_dropped();
    let thread = std::thread::Builder::new().name("log".into()).spawn(move || {
        let _ = super::os::set_affinity(&cpus);
        run(&lines, &mut out, dropped);
    })?;
    *SENDER.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(sender);
    Ok(LogThread { thread: Some(thread) })
}

/// Waits until all lines given so far are written, at most `time`. Not on a core.
pub fn flush(time: Duration) {
    let Some(sender) = sender() else { return };
    let deadline = Instant::now() + time;
    let (promise, mut reply) = oneshot();
    let mut request = Entry::Flush(promise);
    while let Err(refused) = sender.try_send(request) {
        match refused {
            TrySendError::Full(back) if Instant::now() < deadline => request = back,
            TrySendError::Full(_) | TrySendError::Disconnected(_) => return,
        }
        crate::runtime::pause_thread(Duration::from_millis(1));
    }
    while reply.try_take().is_none() && Instant::now() < deadline {
        crate::runtime::pause_thread(Duration::from_millis(1));
    }
}

/// The running log thread.
#[must_use = "dropping it ends the log thread"]
pub struct LogThread {
    thread: Option<JoinHandle<()>>,
}

impl Drop for LogThread {
    fn drop(&mut self) {
        let sender = SENDER.write().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        drop(sender); // The last sender: the thread writes the rest and ends.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One call site's share of the log: at most `LOG_SITE_LINES` in `LOG_SITE_WINDOW`. Use it
/// through `log_limited!`.
pub struct Site {
    /// Upper 32 bits: number of the window. Lower: lines asked for in it.
    state: AtomicU64,
}

impl Site {
    #[expect(clippy::new_without_default, reason = "made in statics only, by the macro")]
    pub const fn new() -> Site {
        Site { state: AtomicU64::new(0) }
    }

    /// Whether a line may be written now; with it, how many were suppressed in the last window.
    pub fn admit(&self) -> Option<u64> {
        self.admit_at(uptime())
    }

    fn admit_at(&self, now: Duration) -> Option<u64> {
        use super::limits::{LOG_SITE_LINES, LOG_SITE_WINDOW};
        let limit = u64::from(LOG_SITE_LINES);
        // From 1, so that a fresh site (window 0) begins a window with its first line.
        let window = (now.as_millis() / LOG_SITE_WINDOW.as_millis()) as u64 + 1;
        let next = |state: u64| {
            let (then, asked) = (state >> 32, state & u64::from(u32::MAX));
            if then == window & u64::from(u32::MAX) {
                (then << 32) | (asked + 1).min(u64::from(u32::MAX))
            } else {
                (window << 32) | 1
            }
        };
        let before = self
            .state
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| Some(next(state)))
            .unwrap_or_else(|state| state);
        let (then, asked) = (before >> 32, before & u64::from(u32::MAX));
        if then != window & u64::from(u32::MAX) {
            return Some(asked.saturating_sub(limit));
        }
        (asked < limit).then_some(0)
    }
}

/// Emits a line unless this call site has written its share already:
/// `log_limited!(log::warn("session", "bad frame").field("peer", peer))`. The line is built only
/// when it is written. Lines left out are counted and told with the next one.
#[macro_export]
macro_rules! log_limited {
    ($line:expr) => {{
        static SITE: $crate::runtime::log::Site = $crate::runtime::log::Site::new();
        match SITE.admit() {
            Some(0) => $line.emit(),
            Some(left_out) => $line.field("left_out_before", left_out).emit(),
            None => {}
        }
    }};
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);
static DROPPED: AtomicU64 = AtomicU64::new(0);
static SENDER: RwLock<Option<SyncSender<Entry>>> = RwLock::new(None);

enum Entry {
    Text(String),
    Flush(Promise<()>),
}

fn sender() -> Option<SyncSender<Entry>> {
    SENDER.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}

fn submit(text: String) {
    let Some(sender) = sender() else {
        let _ = std::io::stderr().write_all(text.as_bytes());
        return;
    };
    if sender.try_send(Entry::Text(text)).is_err() {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// `told`: lines dropped before this thread's time.
fn run(lines: &Receiver<Entry>, out: &mut impl std::io::Write, mut told: u64) {
    while let Ok(entry) = lines.recv() {
        match entry {
            // Nobody is left to tell when the log itself cannot be written.
            Entry::Text(text) => {
                let _ = out.write_all(text.as_bytes());
            }
            Entry::Flush(promise) => {
                let _ = out.flush();
                let _ = promise.send(());
            }
        }
        let dropped = DROPPED.load(Ordering::Relaxed);
        if dropped != told {
            let line = Line::new(Level::Warn, "log", &"lines were dropped: the log is too slow");
            if let Some(text) = line.field("lines", dropped - told).text {
                let _ = out.write_all(format!("{text}\n").as_bytes());
            }
            told = dropped;
        }
    }
    let _ = out.flush();
}

fn uptime() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

fn needs_quotes(value: &str) -> bool {
    value.is_empty()
        || value.chars().any(|c| c.is_whitespace() || c.is_control() || "\"=\\".contains(c))
}

/// Writes text with its control characters escaped.
struct Plain<'a>(&'a mut String);

impl fmt::Write for Plain<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if c.is_control() {
                write!(self.0, "{}", c.escape_default())?;
            } else {
                self.0.push(c);
            }
        }
        Ok(())
    }
}

/// RFC 3339 in UTC with milliseconds.
struct Timestamp(SystemTime);

impl Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (year, month, day) = civil(since.as_secs() / 86_400);
        let rest = since.as_secs() % 86_400;
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        let millis = since.subsec_millis();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

/// Year, month and day of a day number since 1970-01-01, counting in years that begin in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468; // Days from 0000-03-01 to 1970-01-01.
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
