//! By which time records grow old.
//!
//! Retention deletes by the clock of day, and that may step: a machine that boots with a wrong clock,
//! a mistyped `date`. A step back makes records younger and deletes nothing. A step forward makes all
//! of them old at once, so it is not believed at once: time goes on at its own pace from where it was,
//! and only a clock that stays ahead for as long as the grace says is followed.

use std::time::Duration;

use millstream_io::units::TimestampMs;

/// How much further the clock of day may come than the monotonic one before that is a step: far more
/// than a time daemon slews between two looks.
const STEP_MS: i64 = 60_000;

/// The time that retention goes by. Lives on each core; plain.
#[derive(Clone, Copy, Debug)]
pub struct RetentionClock {
    now: TimestampMs,
    /// The monotonic time of the last look.
    looked: Duration,
    /// A step that is not believed yet.
    step: Option<Step>,
    grace: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    since: Duration,
    ahead_ms: i64,
}

/// What a look at the clocks gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionTime {
    /// Records are as old as this says.
    pub now: TimestampMs,
    /// The clock of day is so far ahead of it, and is not believed yet.
    pub ahead_ms: Option<i64>,
    /// A step forward was noticed, or another one behind it.
    pub stepped: bool,
    /// The clock of day stayed ahead for long enough: it is followed from now on.
    pub believed: bool,
}

impl RetentionClock {
    /// `alive` is when something was last written here, as far as anybody knows: what the clock says
    /// beyond that is a step too, since nobody saw the time pass.
    pub fn new(
        alive: Option<TimestampMs>,
        wall: TimestampMs,
        monotonic: Duration,
        grace: Duration,
    ) -> RetentionClock {
        let now = alive.map_or(wall, |alive| alive.min(wall));
        RetentionClock { now, looked: monotonic, step: None, grace }
    }

    /// Looks at both clocks.
    pub fn look(&mut self, wall: TimestampMs, monotonic: Duration) -> RetentionTime {
        let passed = monotonic.saturating_sub(self.looked);
        let due = self.now.plus(i64::try_from(passed.as_millis()).unwrap_or(i64::MAX));
        self.looked = monotonic;
        let ahead_ms = wall.since_ms(due);
        if ahead_ms <= STEP_MS {
            (self.now, self.step) = (wall, None);
            return RetentionTime { now: wall, ahead_ms: None, stepped: false, believed: false };
        }
        // Each further step is another one.
        let known = self.step.filter(|step| ahead_ms.saturating_sub(step.ahead_ms) <= STEP_MS);
        let step = known.unwrap_or(Step { since: monotonic, ahead_ms });
        let believed = monotonic.saturating_sub(step.since) >= self.grace;
        self.now = if believed { wall } else { due };
        self.step = if believed { None } else { Some(step) };
        RetentionTime {
            now: self.now,
            ahead_ms: (!believed).then_some(ahead_ms),
            stepped: known.is_none() && !believed,
            believed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: TimestampMs = TimestampMs::new(1_700_000_000_000);
    const GRACE: Duration = Duration::from_secs(3600);
    const DAY_MS: i64 = 86_400_000;

    fn clock() -> RetentionClock {
        RetentionClock::new(Some(NOON), NOON, Duration::ZERO, GRACE)
    }

    fn after(seconds: i64, step_ms: i64) -> (TimestampMs, Duration) {
        let monotonic = Duration::from_secs(seconds.unsigned_abs());
        (NOON.plus(seconds * 1000 + step_ms), monotonic)
    }

    fn look(clock: &mut RetentionClock, (wall, monotonic): (TimestampMs, Duration)) -> i64 {
        clock.look(wall, monotonic).now.since_ms(NOON)
    }

    #[test]
    fn true_clock_is_followed_and_so_are_small_corrections_and_steps_back() {
        let mut clock = clock();
        assert_eq!(look(&mut clock, after(300, 0)), 300_000);
        assert_eq!(look(&mut clock, after(600, 59_000)), 659_000);
        assert_eq!(look(&mut clock, after(900, -8 * DAY_MS)), 900_000 - 8 * DAY_MS);
        // Back from there to the truth is a step forward.
        assert_eq!(look(&mut clock, after(1200, 0)), 1_200_000 - 8 * DAY_MS);
    }

    #[test]
    fn step_forward_is_believed_only_when_it_stays() {
        let mut clock = clock();
        let (wall, monotonic) = after(300, 365 * DAY_MS);
        let seen = clock.look(wall, monotonic);
        assert_eq!((seen.now, seen.stepped, seen.believed), (NOON.plus(300_000), true, false));
        assert_eq!(seen.ahead_ms, Some(365 * DAY_MS));
        // Put right in time: nothing has happened.
        assert_eq!(look(&mut clock, after(600, 0)), 600_000);
        let stays = |seconds| after(seconds, 365 * DAY_MS);
        assert_eq!(look(&mut clock, stays(900)), 900_000);
        assert_eq!(look(&mut clock, stays(900 + 3599)), 4_499_000, "time goes on at its pace");
        let seen = clock.look(stays(4500).0, stays(4500).1);
        assert_eq!((seen.now, seen.ahead_ms, seen.believed), (stays(4500).0, None, true));
        let seen = clock.look(stays(4800).0, stays(4800).1);
        assert_eq!((seen.now, seen.stepped), (stays(4800).0, false));
    }

    #[test]
    fn second_step_has_a_grace_of_its_own() {
        let mut clock = clock();
        look(&mut clock, after(10, DAY_MS));
        let (wall, monotonic) = after(3600, 400 * DAY_MS);
        let seen = clock.look(wall, monotonic);
        assert_eq!((seen.now, seen.stepped), (NOON.plus(3_600_000), true));
        assert_eq!(look(&mut clock, after(3620, 400 * DAY_MS)), 3_620_000);
        assert_eq!(look(&mut clock, after(7200, 400 * DAY_MS)), 7_200_000 + 400 * DAY_MS);
    }

    #[test]
    fn time_that_passed_while_nobody_looked_is_a_step() {
        let week = NOON.plus(7 * DAY_MS);
        let mut clock = RetentionClock::new(Some(NOON), week, Duration::ZERO, GRACE);
        assert_eq!(look(&mut clock, (week.plus(5000), Duration::from_secs(5))), 5000);
        let (wall, monotonic) = (week.plus(3_605_000), Duration::from_secs(3605));
        assert_eq!(clock.look(wall, monotonic).now, wall);
        // A clock that went back while nobody looked is the truth.
        let mut clock = RetentionClock::new(Some(week), NOON, Duration::ZERO, GRACE);
        assert_eq!(look(&mut clock, after(5, 0)), 5000);
        assert_eq!(RetentionClock::new(None, week, Duration::ZERO, GRACE).now, week);
    }
}
