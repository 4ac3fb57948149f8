//! Processor time and memory of this program and this host, as Linux counts them.
//!
//! Limits: the host's processor times come in clock ticks (10 ms). In a container they are those of the whole machine.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

use super::failure::failed;
use crate::{DeviceUsage, HostUsage, Result};

/// Reads one of the kernel's clocks: a time, or the processor time of a thread or of this program.
pub(super) fn clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Usage of the host. `late`: time by which the program woke late. `None` if the kernel does not say.
pub(super) fn of_host(late: Duration) -> Option<HostUsage> {
    let Ticks { busy, stolen, total } = processor_ticks(&std::fs::read_to_string("/proc/stat").ok()?)?;
    // Kernels without pressure stall information do not have the file.
    let pressure = std::fs::read_to_string("/proc/pressure/cpu").ok();
    let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64);
    Some(HostUsage {
        program_cpu: clock(ClockId::ProcessCPUTime),
        program_cpus: std::thread::available_parallelism().map_or(1, usize::from),
        host_cpu_busy: time(busy),
        host_cpu_total: time(total),
        host_cpu_stolen: time(stolen),
        host_cpu_pressure: pressure.as_deref().and_then(some_waited),
        program_late: late,
        memory_available_bytes: bytes_of(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?,
    })
}

/// Processor ticks of a host, all processors.
#[derive(Debug, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    /// Ticks in which other guests of the machine had the processor.
    stolen: u64,
    total: u64,
}

/// Parses `/proc/stat`. Idle ticks are the fields `idle` and `iowait`; guests are already counted in `user`.
fn processor_ticks(stat: &str) -> Option<Ticks> {
    let mut fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let mut ticks = [0u64; 8];
    for tick in &mut ticks {
        *tick = fields.next()?.parse().ok()?;
    }
    let total: u64 = ticks.iter().sum();
    Some(Ticks { busy: total - ticks[3] - ticks[4], stolen: ticks[7], total })
}

/// Parses the time in which some task of the host waited for a processor.
fn some_waited(pressure: &str) -> Option<Duration> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let total_us = line.split(' ').find_map(|field| field.strip_prefix("total="))?;
    Some(Duration::from_micros(total_us.trim().parse().ok()?))
}

/// Counters of the block device of the file system of `path`. File systems without one, or with several, have number
/// 0:n.
pub(super) fn of_device(path: &str) -> Result<Option<DeviceUsage>> {
    let metadata = std::fs::metadata(path).map_err(|cause| failed("ask for the device of", path, &cause))?;
    let device = metadata.dev();
    let folder = format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let Ok(real) = std::fs::canonicalize(&folder) else { return Ok(None) };
    let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stat = std::fs::read_to_string(format!("{folder}/stat"));
    Ok(stat.ok().and_then(|stat| device_usage(name, &stat)))
}

/// Parses the counters of a block device (the kernel's Documentation/block/stat.rst). A sector has 512 bytes there on
/// every device.
fn device_usage(name: String, stat: &str) -> Option<DeviceUsage> {
    let fields: Vec<u64> = stat.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [reads, _, read_sectors, read_ms, writes, _, written_sectors, write_ms, _, busy_ms, waited_ms, ..] =
        fields[..]
    else {
        return None;
    };
    let (read_bytes, write_bytes) = (read_sectors * 512, written_sectors * 512);
    Some(DeviceUsage { name, reads, read_bytes, read_ms, writes, write_bytes, write_ms, busy_ms, waited_ms })
}

/// Memory of this program in large pages, bytes; `None` if the kernel does not say.
pub(super) fn large_page_bytes() -> Option<u64> {
    bytes_of(&std::fs::read_to_string("/proc/self/smaps_rollup").ok()?, "AnonHugePages:")
}

/// Parses the value of a line in kB, in bytes.
fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_processors_are_not_busy() {
        let stat = "cpu  100 5 50 800 40 3 2 10 77 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(processor_ticks(stat), Some(Ticks { busy: 170, stolen: 10, total: 1_010 }));
        assert_eq!(processor_ticks("cpu  1 2 3\n"), None);
        let pressure =
            "some avg10=51.10 avg60=60.21 avg300=63.44 total=7981975394\nfull avg10=0.00 total=0\n";
        assert_eq!(some_waited(pressure), Some(Duration::from_micros(7_981_975_394)));
        assert_eq!(bytes_of("MemTotal: 10 kB\nMemAvailable:    7 kB\n", "MemAvailable:"), Some(7 * 1024));
    }

    #[test]
    fn a_device_says_what_it_has_done() {
        let stat = "     100 7 80 900 20 3 16 40 2 500 940 0 0 0 0 5 30\n";
        let known = device_usage("vda".into(), stat).unwrap();
        assert_eq!((known.reads, known.read_bytes, known.read_ms), (100, 80 * 512, 900));
        assert_eq!((known.writes, known.write_bytes, known.write_ms), (20, 16 * 512, 40));
        assert_eq!((known.busy_ms, known.waited_ms), (500, 940));
        assert_eq!(device_usage("vda".into(), "1 2 3"), None);
        assert_eq!(of_device("/proc").unwrap(), None, "no device is below it");
        assert!(of_device("/no such folder").is_err());
    }

    #[test]
    fn work_takes_processor_time_of_thread_program_and_host() {
        let before = (clock(ClockId::ThreadCPUTime), of_host(Duration::ZERO).unwrap());
        let mut number = 1u64;
        while clock(ClockId::ThreadCPUTime) - before.0 < Duration::from_millis(60) {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        let after = of_host(Duration::ZERO).unwrap();
        assert!(after.program_cpu - before.1.program_cpu >= Duration::from_millis(60));
        assert!(after.host_cpu_busy > before.1.host_cpu_busy);
        assert!(after.memory_available_bytes > 0 && after.program_cpus > 0);
    }
}
