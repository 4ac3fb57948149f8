//! Processors and memory of the hosts, and whether the load generator was the limit.

use std::collections::BTreeMap;

use results::Counter;

use super::model::{Generator, HostSystemRow};
use super::window::{Scope, TestView};
use crate::HOST_INTERVAL_MS;
use crate::run_data::CounterPoint;

/// Shares of the busiest thread, of the load generator and of the host above which the load generator is said to be
/// the limit.
const THREAD_LIMIT: f64 = 0.9;
const PROGRAM_LIMIT: f64 = 0.9;
const HOST_LIMIT: f64 = 0.95;
const MIB: f64 = (1 << 20) as f64;

/// Names of the rows that say how busy processors were.
const HOST: &str = "Processors of the host, busy";
const PROGRAM: &str = "Processors, busy for the load generator";
const THREAD: &str = "Busiest thread of the load generator";
/// Names of the rows that say how long the load generator was kept from running.
const LATE: &str = "Load generator, late";
const PRESSURE: &str = "Some task of the host waits for a processor";
const STOLEN: &str = "Processors of the host, taken by other guests";

/// Hosts in the order they were recorded, then any that only samples of this test name.
fn hosts<'a>(view: &TestView<'a>) -> Vec<&'a str> {
    let mut hosts: Vec<&str> = view.data.hosts.iter().map(|host| host.name.as_str()).collect();
    for (test, origin, _) in view.data.counters.keys() {
        if *test == view.test.ordinal && !hosts.contains(&origin.host.as_str()) {
            hosts.push(&origin.host);
        }
    }
    hosts
}

/// The host whose load generator was closest to its limits; `None` where processors were not counted, as in simulated
/// time.
pub fn generator(rows: &[HostSystemRow]) -> Option<Generator> {
    let of_host = |busy: &HostSystemRow| {
        let share =
            |name| Some(rows.iter().find(|row| row.host == busy.host && row.name == name)?.mean / 100.0);
        let (program_busy, busiest_thread_busy, host_busy) = (busy.mean / 100.0, share(THREAD), share(HOST));
        let was_limit = has_used_up(program_busy, busiest_thread_busy)
            || host_busy.is_some_and(|share| share > HOST_LIMIT);
        Generator { host: busy.host.clone(), program_busy, busiest_thread_busy, host_busy, was_limit }
    };
    let busy = |generator: &Generator| {
        [Some(generator.program_busy), generator.busiest_thread_busy, generator.host_busy]
            .into_iter()
            .flatten()
            .fold(0.0, f64::max)
    };
    let hosts = rows.iter().filter(|row| row.name == PROGRAM).map(of_host);
    hosts.max_by(|a, b| busy(a).total_cmp(&busy(b)))
}

/// Whether a load generator with these busy shares used all the processor time that it can use.
fn has_used_up(program_busy: f64, busiest_thread_busy: Option<f64>) -> bool {
    program_busy > PROGRAM_LIMIT || busiest_thread_busy.is_some_and(|share| share > THREAD_LIMIT)
}

/// Whether the load generator used all the processor time that it can use.
pub fn was_saturated(generator: &Generator) -> bool {
    has_used_up(generator.program_busy, generator.busiest_thread_busy)
}

/// The row of the host whose load generator was kept from running for the largest share of the time; of hosts as a
/// whole where that of the load generators was not recorded.
pub fn most_kept_waiting(rows: &[HostSystemRow]) -> Option<&HostSystemRow> {
    let late = rows.iter().filter(|row| row.name == LATE);
    late.max_by(|a, b| a.mean.total_cmp(&b.mean)).or_else(|| most_starved(rows))
}

/// The row that shows the largest share of the time in which the load generator of a host may have been kept from
/// running.
pub fn most_starved(rows: &[HostSystemRow]) -> Option<&HostSystemRow> {
    let starved = rows.iter().filter(|row| [LATE, PRESSURE, STOLEN].contains(&&*row.name));
    starved.max_by(|a, b| a.mean.total_cmp(&b.mean))
}

/// Value of a counter in one slice of time, and the whole that it is a share of.
#[derive(Clone, Copy, Default)]
struct CounterSlice {
    ms: u64,
    part: f64,
    whole: f64,
}

/// Shares by second; slices shorter than half a second join a neighbour, because a share of 2 ms is no sample.
fn seconds(slices: &[CounterSlice]) -> Vec<CounterSlice> {
    let is_short = |slice: &CounterSlice| slice.ms * 2 < HOST_INTERVAL_MS;
    let mut seconds: Vec<CounterSlice> = Vec::new();
    for slice in slices {
        match seconds.last_mut() {
            Some(last) if is_short(last) || is_short(slice) => {
                last.ms += slice.ms;
                last.part += slice.part;
                last.whole += slice.whole;
            }
            _ => seconds.push(*slice),
        }
    }
    seconds
}

/// A row with mean, lowest and highest share; the mean weighs each slice by its whole.
fn row(host: &str, name: &str, slices: &[CounterSlice]) -> Option<HostSystemRow> {
    let seconds = seconds(slices);
    let shares = || seconds.iter().map(|second| 100.0 * second.part / second.whole);
    let sum = |amount: fn(&CounterSlice) -> f64| slices.iter().map(amount).sum::<f64>();
    Some(HostSystemRow {
        host: host.to_owned(),
        name: name.to_owned(),
        mean: 100.0 * sum(|slice| slice.part) / sum(|slice| slice.whole),
        min: shares().reduce(f64::min)?,
        max: shares().reduce(f64::max)?,
        unit: "%".to_owned(),
    })
}

/// Rows of memory, which is a level: each value holds for its slice, however short that is.
fn memory<'a>(view: &TestView<'a>, host: &'a str) -> Option<HostSystemRow> {
    let points = || view.counters(Scope::Host(host), Counter::HostMemoryAvailableBytes);
    let ms: u64 = points().map(|point| point.interval_ms).sum();
    let levels = || points().map(|point| point.value as f64 / MIB);
    let weighted = points().zip(levels()).map(|(point, level)| level * point.interval_ms as f64);
    Some(HostSystemRow {
        host: host.to_owned(),
        name: "Memory available".to_owned(),
        mean: weighted.sum::<f64>() / Some(ms).filter(|&ms| ms > 0)? as f64,
        min: levels().reduce(f64::min)?,
        max: levels().reduce(f64::max)?,
        unit: "MiB".to_owned(),
    })
}

/// The rows of processors and memory of every host over the measured window.
pub fn rows(view: &TestView<'_>) -> Vec<HostSystemRow> {
    let mut rows = Vec::new();
    for host in hosts(view) {
        let counter = |counter| view.counters(Scope::Host(host), counter);
        let shares = |part, whole| -> Vec<CounterSlice> {
            // A slice without length begins where the next one does, and more than one may begin there.
            let mut slices: BTreeMap<(u64, u64), CounterSlice> = BTreeMap::new();
            for point in counter(part) {
                let slice = slices.entry((point.t_ms, point.interval_ms)).or_default();
                slice.ms = point.interval_ms;
                slice.part += point.value as f64;
            }
            for point in counter(whole) {
                if let Some(slice) = slices.get_mut(&(point.t_ms, point.interval_ms)) {
                    slice.whole += point.value as f64;
                }
            }
            slices.into_values().filter(|slice| slice.whole > 0.0).collect()
        };
        let of_time = |of: Counter| -> Vec<CounterSlice> {
            let points = counter(of).filter(|point| point.interval_ms > 0);
            let part = |point: &CounterPoint| {
                let (ms, part) = (point.interval_ms, point.value as f64);
                CounterSlice { ms, part, whole: ms as f64 * 1e6 }
            };
            points.map(part).collect()
        };
        rows.extend(
            [
                row(host, HOST, &shares(Counter::HostCpuBusyNs, Counter::HostCpuAvailableNs)),
                row(host, PROGRAM, &shares(Counter::CpuBusyNs, Counter::CpuAvailableNs)),
                row(host, THREAD, &of_time(Counter::CpuBusiestThreadNs)),
                memory(view, host),
                row(host, LATE, &of_time(Counter::LateNs)),
                row(host, PRESSURE, &of_time(Counter::HostCpuPressureNs)),
                row(host, STOLEN, &shares(Counter::HostCpuStolenNs, Counter::HostCpuAvailableNs)),
            ]
            .into_iter()
            .flatten(),
        );
    }
    rows
}
