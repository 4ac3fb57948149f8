//! Sees holes in the time of a run: the program was stopped, the host was suspended, a clock jumped.
//!
//! A thread of its own beats a few times a second. Each beat compares how far three sources moved since the
//! comparison before, and so do a caller that asks what was found and the end of the run, so that a run which a
//! jump cuts short cannot end before the jump is seen. The sources are the monotonic clock that times everything,
//! the wall clock, and the uptime that the kernel writes into `/proc/uptime`. The uptime counts suspends, cannot be
//! set, and no library between the program and the kernel moves it. The thread waits with a relative timeout of the
//! kernel, so a clock that goes back does not keep it waiting.
//!
//! The thread wakes every [`STEP`]. The time by which it wakes too late adds up: in that time the program was stopped,
//! or got no processor.
//!
//! Limits: Linux. Single stops up to [`LAPSE_MIN`] and jumps up to [`JUMP_MIN`] are not seen. Without `/proc/uptime` a
//! clock that jumps ahead looks like a stop. A fault that moves every clock of the kernel together looks like a
//! stop, too.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use rustix::time::ClockId;

use super::lock::lock;
use super::usage::clock;
use crate::{LAPSE_MIN, Lapse, LapseKind, Time};

/// Interval between two wake-ups of the watching thread.
const STEP: Duration = Duration::from_millis(25);
/// Interval between two comparisons of the clocks.
const BEAT: Duration = Duration::from_millis(250);
const STEPS_OF_A_BEAT: u32 = (BEAT.as_millis() / STEP.as_millis()) as u32;
/// Delay of a wake-up that does not count as late, because the kernel groups timers.
const SLACK: Duration = Duration::from_millis(1);
/// Smallest difference between two clocks over one interval that counts as a jump.
const JUMP_MIN: Duration = Duration::from_millis(500);
/// Longest time for reading all clocks; a longer reading is repeated, because the thread was interrupted.
const READING_MAX: Duration = Duration::from_millis(50);
/// Largest number of lapses that are kept until a caller takes them.
const KEPT_MAX: usize = 1_000;

/// Thread that watches the clocks of a run.
pub(super) struct Pulse {
    /// Channel whose closing ends the thread.
    line: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    /// Starts a thread that compares the clocks a few times a second until it is dropped.
    pub fn start(clocks: Arc<Clocks>) -> std::io::Result<Pulse> {
        let (line, mut end) = UnixStream::pair()?;
        end.set_read_timeout(Some(STEP))?;
        let beat = move || {
            let mut woken_ns = monotonic_ns();
            // Steps are counted: a clock that goes back would put the next beat off.
            for step in 1u32.. {
                if !lasts(&mut end) {
                    return;
                }
                let now_ns = monotonic_ns();
                clocks.woke_after(now_ns - woken_ns);
                woken_ns = now_ns;
                if step.is_multiple_of(STEPS_OF_A_BEAT) {
                    clocks.compare();
                }
            }
        };
        let thread = std::thread::Builder::new().name("pulse".into()).spawn(beat)?;
        Ok(Pulse { line: Some(line), thread: Some(thread) })
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.line = None;
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the pulse does not panic");
        }
    }
}

/// Waits for one interval; false once the other end of the channel is closed.
fn lasts(end: &mut UnixStream) -> bool {
    // Nothing is ever sent.
    let waited = end.read(&mut [0]).map_err(|error| error.kind());
    matches!(waited, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted))
}

/// Lateness of a wake-up that comes this long after the last one, ns.
fn late_ns(after_ns: i64) -> u64 {
    (after_ns - (STEP + SLACK).as_nanos() as i64).max(0) as u64
}

/// Clocks of a run, and the lapses that they have shown.
pub(super) struct Clocks {
    first: Reading,
    seen: Mutex<Seen>,
    late_ns: AtomicU64,
}

struct Seen {
    last: Reading,
    /// Channel that reports a jump of the monotonic clock once: its size, and the time of the comparison before.
    jumped: Option<Box<dyn FnOnce(Lapse, Time) + Send>>,
    /// Lapses that no caller has taken yet.
    lapses: Vec<Lapse>,
}

impl Clocks {
    pub fn new(jumped: impl FnOnce(Lapse, Time) + Send + 'static) -> Clocks {
        let first = Reading::take();
        let seen = Seen { last: first, jumped: Some(Box::new(jumped)), lapses: Vec::new() };
        Clocks { first, seen: Mutex::new(seen), late_ns: AtomicU64::new(0) }
    }

    /// Notes that the thread woke this long after its last wake-up.
    fn woke_after(&self, after_ns: i64) {
        self.late_ns.fetch_add(late_ns(after_ns), Ordering::Relaxed);
    }

    /// Total time since the start by which the thread woke late.
    pub fn late(&self) -> Duration {
        Duration::from_nanos(self.late_ns.load(Ordering::Relaxed))
    }

    /// Takes the lapses since the last call.
    pub fn take_lapses(&self) -> Vec<Lapse> {
        self.compare();
        std::mem::take(&mut lock(&self.seen).lapses)
    }

    /// Compares the clocks with their readings at the last comparison.
    pub fn compare(&self) {
        let mut seen = lock(&self.seen);
        let now = Reading::take();
        for lapse in lapses(&seen.last, &now) {
            if matches!(lapse.kind, LapseKind::ClockAhead | LapseKind::ClockBack)
                && let Some(jumped) = seen.jumped.take()
            {
                let since_start = seen.last.monotonic_ns.saturating_sub(self.first.monotonic_ns);
                jumped(lapse, Time { ns: since_start.max(0) as u64 });
            }
            if seen.lapses.len() < KEPT_MAX {
                seen.lapses.push(lapse);
            }
        }
        seen.last = now;
    }
}

/// Readings of all clocks at one moment, ns.
#[derive(Debug, Clone, Copy)]
struct Reading {
    monotonic_ns: i64,
    /// Uptime of the kernel; `None` if it is not known.
    uptime_ns: Option<i64>,
    wall_ns: i64,
}

impl Reading {
    fn take() -> Reading {
        let mut monotonic_ns = monotonic_ns();
        loop {
            let reading = Reading { monotonic_ns, uptime_ns: uptime_ns(), wall_ns: wall_ns() };
            let after_ns = self::monotonic_ns();
            if (after_ns - monotonic_ns).unsigned_abs() <= READING_MAX.as_nanos() as u64 {
                return reading;
            }
            monotonic_ns = after_ns;
        }
    }
}

fn monotonic_ns() -> i64 {
    clock(ClockId::Monotonic).as_nanos() as i64
}

fn wall_ns() -> i64 {
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as i64,
        Err(before) => -(before.duration().as_nanos() as i64),
    }
}

fn uptime_ns() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some((seconds * 1e9) as i64)
}

/// Lapses between two readings, which are about one interval apart at most.
fn lapses(before: &Reading, now: &Reading) -> Vec<Lapse> {
    let length = |ns: i64| Duration::from_nanos(ns.unsigned_abs());
    let found = |kind, ns| vec![Lapse { kind, length: length(ns) }];
    let jump_min_ns = JUMP_MIN.as_nanos() as i64;
    let monotonic_ns = now.monotonic_ns - before.monotonic_ns;
    let uptime_ns = now.uptime_ns.zip(before.uptime_ns).map(|(now, before)| now - before);
    // The time that really passed, suspends included.
    let passed_ns = uptime_ns.unwrap_or(monotonic_ns);
    if monotonic_ns < 0 {
        return found(LapseKind::ClockBack, passed_ns.max(0) - monotonic_ns);
    }
    if monotonic_ns - passed_ns > jump_min_ns {
        return found(LapseKind::ClockAhead, monotonic_ns - passed_ns);
    }
    let mut all = Vec::new();
    if passed_ns - monotonic_ns > jump_min_ns {
        all.extend(found(LapseKind::Suspended, passed_ns - monotonic_ns));
    }
    let beat_ns = BEAT.as_nanos() as i64;
    if monotonic_ns - beat_ns > LAPSE_MIN.as_nanos() as i64 {
        all.extend(found(LapseKind::Stopped, monotonic_ns - beat_ns));
    }
    let step_ns = now.wall_ns - before.wall_ns - passed_ns;
    if step_ns.abs() > jump_min_ns {
        let kind = if step_ns > 0 { LapseKind::WallAhead } else { LapseKind::WallBack };
        all.extend(found(kind, step_ns));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lapses that are found if monotonic clock, uptime and wall clock moved by these ms.
    fn found(monotonic: i64, uptime: Option<i64>, wall: i64) -> Vec<(LapseKind, u64)> {
        let ms = 1_000_000;
        let before = Reading { monotonic_ns: 0, uptime_ns: Some(0), wall_ns: 0 };
        let uptime_ns = uptime.map(|uptime| uptime * ms);
        let now = Reading { monotonic_ns: monotonic * ms, uptime_ns, wall_ns: wall * ms };
        lapses(&before, &now).into_iter().map(|lapse| (lapse.kind, lapse.length.as_millis() as u64)).collect()
    }

    #[test]
    fn each_hole_in_time_is_told_from_the_others() {
        use LapseKind::*;
        assert_eq!(found(250, Some(250), 250), []);
        assert_eq!(found(2_240, Some(2_240), 2_240), [], "a busy host may be that late");
        assert_eq!(found(3_250, Some(3_250), 3_250), [(Stopped, 3_000)]);
        assert_eq!(
            found(250, Some(60_250), 60_250),
            [(Suspended, 60_000)],
            "the monotonic clock stood still"
        );
        assert_eq!(
            found(3_600_250, Some(250), 3_600_250),
            [(ClockAhead, 3_600_000)],
            "all clocks but the uptime"
        );
        assert_eq!(found(3_600_250, Some(250), 250), [(ClockAhead, 3_600_000)], "the monotonic clock alone");
        assert_eq!(found(-3_599_750, Some(250), -3_599_750), [(ClockBack, 3_600_000)]);
        assert_eq!(found(250, Some(250), 3_600_250), [(WallAhead, 3_600_000)]);
        assert_eq!(found(250, Some(250), -3_599_750), [(WallBack, 3_600_000)]);
        assert_eq!(
            found(3_250, Some(3_250), 60_250),
            [(Stopped, 3_000), (WallAhead, 57_000)],
            "stopped, then set"
        );
        assert_eq!(found(700, Some(250), 700), [], "a difference below the bound is no jump");
    }

    /// 100 wake-ups of a program that is stopped for 90 ms of every 100 ms, and of one that is not.
    #[test]
    fn short_stops_add_up_and_the_slack_of_timers_does_not() {
        let late = |after_ms: f64| {
            let clocks = Clocks::new(|lapse, _| panic!("{lapse:?}"));
            (0..100).for_each(|_| clocks.woke_after((after_ms * 1e6) as i64));
            clocks.late()
        };
        assert_eq!(late(100.0), Duration::from_millis(7_400));
        assert_eq!((late(20.1), late(10.0)), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn without_an_uptime_a_stop_is_still_seen() {
        assert_eq!(found(3_250, None, 3_250), [(LapseKind::Stopped, 3_000)]);
        assert_eq!(found(-750, None, -750), [(LapseKind::ClockBack, 750)]);
    }

    #[test]
    fn the_clocks_of_this_host_agree_from_beat_to_beat() {
        let clocks = Arc::new(Clocks::new(|lapse, _| panic!("{lapse:?}")));
        let pulse = Pulse::start(clocks.clone()).unwrap();
        std::thread::sleep(BEAT * 3);
        drop(pulse);
        assert_eq!(clocks.take_lapses(), []);
    }

    #[test]
    fn a_jump_is_seen_by_the_caller_who_asks_before_the_next_beat() {
        let (told, jumps) = std::sync::mpsc::channel();
        let clocks = Clocks::new(move |lapse, at| told.send((lapse.kind, at.ns)).expect("the test listens"));
        // As if the monotonic clock had been an hour behind at the comparison before.
        lock(&clocks.seen).last.monotonic_ns -= 3_600_000_000_000;
        assert_eq!(
            clocks.take_lapses().iter().map(|lapse| lapse.kind).collect::<Vec<_>>(),
            [LapseKind::ClockAhead]
        );
        assert_eq!(jumps.try_recv(), Ok((LapseKind::ClockAhead, 0)));
    }
}
