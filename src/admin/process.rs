//! What the kernel knows of this process, read from /proc when somebody asks.

use super::families::{
    CPU_SECONDS, MAX_FDS, OPEN_FDS, RESIDENT_BYTES, START_SECONDS, THREADS, VIRTUAL_BYTES,
};
use super::text::Text;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A tick of /proc: the same on every machine that Linux runs on (proc(5), USER_HZ).
const TICK_MS: u64 = 10;

/// Writes what can be read; nothing of it is worth a failure.
pub fn write(text: &mut Text, started: SystemTime) {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    if let Some(seconds) = cpu_seconds(&read("/proc/self/stat")) {
        text.value(&CPU_SECONDS, seconds);
    }
    let status = read("/proc/self/status");
    for (family, field) in [(&RESIDENT_BYTES, "VmRSS:"), (&VIRTUAL_BYTES, "VmSize:")] {
        if let Some(kib) = field_of(&status, field) {
            text.value(family, kib * 1024);
        }
    }
    if let Ok(descriptors) = std::fs::read_dir("/proc/self/fd") {
        // The one that lists them is among them.
        text.value(&OPEN_FDS, descriptors.count().saturating_sub(1));
    }
    if let Some(most) = field_of(&read("/proc/self/limits"), "Max open files") {
        text.value(&MAX_FDS, most);
    }
    if let Some(threads) = field_of(&status, "Threads:") {
        text.value(&THREADS, threads);
    }
    let started = started.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    text.value(&START_SECONDS, started.as_secs_f64());
}

/// User and system time. The program's name, in brackets, may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()?.saturating_add(ticks()?);
    Some(Duration::from_millis(ticks.saturating_mul(TICK_MS)).as_secs_f64())
}

/// The first number in the line that begins with `name`.
fn field_of(lines: &str, name: &str) -> Option<u64> {
    let line = lines.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_are_read() {
        let stat = "7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 250 150 0 0 20 0 9 0 5 1 2";
        assert_eq!(cpu_seconds(stat), Some(4.0));
        assert_eq!(cpu_seconds(""), None);
        let limits = "Max cpu time   unlimited\nMax open files            1024   4096   files\n";
        assert_eq!(field_of(limits, "Max open files"), Some(1024));
        assert_eq!(field_of(limits, "Max cpu time"), None);
    }

    #[test]
    fn this_process_is_known() {
        let mut text = Text::default();
        write(&mut text, SystemTime::now());
        let text = text.into_string();
        assert_eq!(text.matches("# TYPE process_").count(), 7, "{text}");
    }
}
