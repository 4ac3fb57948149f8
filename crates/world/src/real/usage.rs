//! Processor time and memory of this program and this host, as Linux counts them.
//!
//! Limits: the host's processor times come in clock ticks (10 ms). In a container they are those of the whole machine.

use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

use crate::HostUsage;

/// What one of the kernel's clocks says: a time, or the processor time of a thread or of this program.
pub(super) fn clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// `None` where the kernel does not say.
pub(super) fn of_host() -> Option<HostUsage> {
    let (busy, total) = processor_ticks(&std::fs::read_to_string("/proc/stat").ok()?)?;
    let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64);
    Some(HostUsage {
        program_cpu: clock(ClockId::ProcessCPUTime),
        program_cpus: std::thread::available_parallelism().map_or(1, usize::from),
        host_cpu_busy: time(busy),
        host_cpu_total: time(total),
        memory_available_bytes: memory_available_bytes(&std::fs::read_to_string("/proc/meminfo").ok()?)?,
    })
}

/// Ticks busy and in all. Idle are the fields `idle` and `iowait`; guests are counted in `user` already.
fn processor_ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let mut ticks = [0u64; 8];
    for tick in &mut ticks {
        *tick = fields.next()?.parse().ok()?;
    }
    let total: u64 = ticks.iter().sum();
    Some((total - ticks[3] - ticks[4], total))
}

fn memory_available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_processors_are_not_busy() {
        let stat = "cpu  100 5 50 800 40 3 2 10 77 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(processor_ticks(stat), Some((170, 1_010)));
        assert_eq!(processor_ticks("cpu  1 2 3\n"), None);
        assert_eq!(memory_available_bytes("MemTotal: 10 kB\nMemAvailable:    7 kB\n"), Some(7 * 1024));
    }

    #[test]
    fn work_takes_processor_time_of_thread_program_and_host() {
        let before = (clock(ClockId::ThreadCPUTime), of_host().unwrap());
        let mut number = 1u64;
        while clock(ClockId::ThreadCPUTime) - before.0 < Duration::from_millis(60) {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        let after = of_host().unwrap();
        assert!(after.program_cpu - before.1.program_cpu >= Duration::from_millis(60));
        assert!(after.host_cpu_busy > before.1.host_cpu_busy);
        assert!(after.memory_available_bytes > 0 && after.program_cpus > 0);
    }
}
