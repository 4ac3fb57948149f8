//! Processors and memory of the hosts, and whether the load generator was the limit.

use results::Counter;

use super::model::{Generator, HostSystemRow};
use super::window::{Scope, TestView};

/// Shares above which the load generator is said to be the limit.
const THREAD_LIMIT: f64 = 0.9;
const PROGRAM_LIMIT: f64 = 0.9;
const HOST_LIMIT: f64 = 0.95;
const MIB: f64 = (1 << 20) as f64;

/// Hosts in the order they were recorded, then any that only rows of this test name.
fn hosts<'a>(view: &TestView<'a>) -> Vec<&'a str> {
    let mut hosts: Vec<&str> = view.data.hosts.iter().map(|host| host.name.as_str()).collect();
    for (test, origin, _) in view.data.counters.keys() {
        if *test == view.test.ordinal && !hosts.contains(&origin.host.as_str()) {
            hosts.push(&origin.host);
        }
    }
    hosts
}

/// One counter as a share of another, over the window.
fn share<'a>(view: &TestView<'a>, host: &'a str, part: Counter, whole: Counter) -> Option<f64> {
    let whole = view.counter_sum(Scope::Host(host), whole).filter(|&ns| ns > 0)?;
    Some(view.counter_sum(Scope::Host(host), part)? as f64 / whole as f64)
}

/// The busiest thread as a share of the time in which it was counted.
fn busiest_thread<'a>(view: &TestView<'a>, host: &'a str) -> Option<f64> {
    let points = || view.counters(Scope::Host(host), Counter::CpuBusiestThreadNs);
    let ms: u64 = points().map(|point| point.interval_ms).sum();
    (ms > 0).then(|| points().map(|point| point.value).sum::<u64>() as f64 / (ms as f64 * 1e6))
}

/// The host whose load generator had the least room; `None` where nothing was counted, as in simulated time.
pub fn generator(view: &TestView<'_>) -> Option<Generator> {
    let of_host = |host| {
        let program_busy = share(view, host, Counter::CpuBusyNs, Counter::CpuAvailableNs)?;
        let busiest_thread_busy = busiest_thread(view, host);
        let host_busy = share(view, host, Counter::HostCpuBusyNs, Counter::HostCpuAvailableNs);
        let was_limit = program_busy > PROGRAM_LIMIT
            || busiest_thread_busy.is_some_and(|share| share > THREAD_LIMIT)
            || host_busy.is_some_and(|share| share > HOST_LIMIT);
        Some(Generator { host: host.to_owned(), program_busy, busiest_thread_busy, host_busy, was_limit })
    };
    let busy = |generator: &Generator| {
        [Some(generator.program_busy), generator.busiest_thread_busy, generator.host_busy]
            .into_iter()
            .flatten()
            .fold(0.0, f64::max)
    };
    hosts(view).into_iter().filter_map(of_host).max_by(|a, b| busy(a).total_cmp(&busy(b)))
}

/// Figures of every host, second by second.
pub fn rows(view: &TestView<'_>) -> Vec<HostSystemRow> {
    let mut rows = Vec::new();
    for host in hosts(view) {
        let mut add = |name: &str, unit: &str, values: Vec<f64>| {
            let (Some(min), Some(max)) =
                (values.iter().copied().reduce(f64::min), values.iter().copied().reduce(f64::max))
            else {
                return;
            };
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let (host, name, unit) = (host.to_owned(), name.to_owned(), unit.to_owned());
            rows.push(HostSystemRow { host, name, mean, min, max, unit });
        };
        let counter = |counter| view.counters(Scope::Host(host), counter);
        let shares = |part, whole| {
            let pairs = counter(part).zip(counter(whole));
            pairs.filter(|(_, w)| w.value > 0).map(|(p, w)| 100.0 * p.value as f64 / w.value as f64).collect()
        };
        add("Processors of the host, busy", "%", shares(Counter::HostCpuBusyNs, Counter::HostCpuAvailableNs));
        add(
            "Processors, busy for the load generator",
            "%",
            shares(Counter::CpuBusyNs, Counter::CpuAvailableNs),
        );
        add(
            "Busiest thread of the load generator",
            "%",
            counter(Counter::CpuBusiestThreadNs)
                .filter(|point| point.interval_ms > 0)
                .map(|point| point.value as f64 / (point.interval_ms as f64 * 1e4))
                .collect(),
        );
        add(
            "Memory available",
            "MiB",
            counter(Counter::HostMemoryAvailableBytes).map(|point| point.value as f64 / MIB).collect(),
        );
    }
    rows
}
