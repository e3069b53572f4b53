//! Start of an empty broker (exec to the line that says ready), its memory then, and its stop.

use anyhow::Result;

use super::{Report, Setup, Target};

pub fn measure(setup: &Setup, report: &mut Report) -> Result<()> {
    if setup.attached.is_some() {
        return Ok(());
    }
    let (mut starts, mut stops, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..7 {
        let broker = setup.launch.start()?;
        starts.extend(broker.ready_after.map(|time| time.as_secs_f64() * 1e3));
        memory.push(mib(broker.rss()?));
        stops.push(broker.stop()?.as_secs_f64() * 1e3);
    }
    report.row(
        "start of an empty broker, exec to ready",
        "ms",
        Target::ElapsedAtMost(100.0),
        starts,
        "",
    );
    report.row("SIGTERM to exit, idle", "ms", Target::None, stops, "");
    report.row("memory after start (RSS)", "MiB", Target::None, memory, "");
    Ok(())
}

/// Bytes as MiB.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}
