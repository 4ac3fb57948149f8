//! The tests with a mailbox load.

use results::*;

use super::{Generator, distribution};

/// I/O classes of the synthetic load: operations per second and database, size, mean latency, and whether they belong
/// to the log.
const CLASSES: [(IoClass, f64, u64, f64, bool); 6] = [
    (IoClass::TransactionalRead, 31.1, 33_600, 11.7, false),
    (IoClass::TransactionalWrite, 14.1, 35_500, 7.5, false),
    (IoClass::MaintenanceRead, 9.0, 262_144, 14.2, false),
    (IoClass::LogWrite, 3.3, 20_700, 2.4, true),
    (IoClass::LogPrepareWrite, 0.3, 131_072, 3.3, true),
    (IoClass::ReplicationRead, 0.6, 232_500, 1.9, true),
];

#[derive(Default)]
struct Judged {
    reads: IoTotals,
    /// Transactional I/O of the first host.
    transactional: u64,
}

/// Part `n` when a number is divided into `parts`; the parts add up to the whole.
fn part(whole: IoTotals, n: u64, parts: u64) -> IoTotals {
    let share = |whole: u64| whole * (n + 1) / parts - whole * n / parts;
    IoTotals {
        count: share(whole.count),
        bytes: share(whole.bytes),
        latency_ns_sum: share(whole.latency_ns_sum),
        latency_ns_max: if n == 0 { whole.latency_ns_max } else { whole.latency_ns_max / 2 },
    }
}

/// A sample of the synthetic run under construction.
#[derive(Clone, Copy)]
struct Moment {
    test: u32,
    t_ms: u64,
    length_s: u64,
    /// Factor by which latencies are higher than usual: in this run, at this time of day, and in one bad minute.
    slower: f64,
    wave: f64,
    spike: f64,
}

impl Moment {
    fn interval_ms(self) -> u64 {
        self.length_s * 1_000
    }
}

/// Sums of each host by measure, in the order of first appearance.
#[derive(Default)]
struct HostSums(Vec<(Origin, Measure, IoTotals)>);

impl HostSums {
    fn add(&mut self, host: &str, measure: impl Into<Measure>, io: IoTotals) {
        let measure = measure.into();
        match self.0.iter_mut().find(|(origin, m, _)| origin.host == host && *m == measure) {
            Some((_, _, sum)) => sum.add(io),
            None => self.0.push((Origin::host(host), measure, io)),
        }
    }
}

impl Generator<'_> {
    pub(super) fn load(&mut self, kind: &str, name: &str, fails: bool, cut: bool) -> Result<(), RecordError> {
        let mut test = self.start(kind, name)?;
        self.event(Severity::Info, Some(test.ordinal), "The cache fills.")?;
        self.now_ms += 3_217;
        // The stress test has the whole window; like the published ones, the performance test is 2 h at most.
        let planned_s = if kind == "stress" { self.shape.window_s } else { self.shape.window_s.min(7_200) };
        test.window_start_ms = Some(self.now_ms);
        test.window_planned_ms = Some(planned_s * 1_000);
        test.sessions = Some(self.shape.databases + 2);
        test.target_iops = Some(40.0 * f64::from(self.shape.databases));
        test.iops_per_mailbox = Some(0.121);
        test.parameters = vec![
            Parameter { name: "Mix".into(), value: format!("40/20/5/35, 70 % lazy{}", self.shape.hostile) },
            Parameter { name: "Session idle factor".into(), value: "1".into() },
        ];
        let limit =
            |rule: &str, value| Limit { rule: rule.into(), value, unit: "ms".into(), published: Some(value) };
        test.limits = vec![limit("read_latency_avg", 20.0), limit("log_write_latency_avg", 10.0)];
        self.to.record(test.clone().into())?;
        for n in 0..self.shape.databases {
            let origin = self.database_origin(n);
            let size = DatabaseSize { test: test.ordinal, origin, bytes_before: 1 << 40, bytes_after: None };
            self.to.record(size.into())?;
        }
        let whole_s = if cut { planned_s / 2 } else { planned_s };
        let mut judged = Judged::default();
        let samples = whole_s / self.shape.sample_s;
        for sample in 0..samples {
            self.load_sample(test.ordinal, sample, samples, if fails { 1.9 } else { 1.0 }, &mut judged)?;
        }
        if cut {
            return Ok(());
        }
        test.window_end_ms = Some(self.now_ms);
        self.now_ms += 1_450;
        for n in 0..self.shape.databases {
            let origin = self.database_origin(n);
            let bytes_after = Some((1 << 40) + planned_s / 2 * 1_048_576);
            let size = DatabaseSize { test: test.ordinal, origin, bytes_before: 1 << 40, bytes_after };
            self.to.record(size.into())?;
        }
        self.judge(&test, &judged, whole_s)?;
        self.end(test)
    }

    /// Records one sample of every database and log, and the seconds of every host.
    fn load_sample(
        &mut self,
        test: u32,
        sample: u64,
        samples: u64,
        slower: f64,
        judged: &mut Judged,
    ) -> Result<(), RecordError> {
        let phase = sample as f64 / samples.max(1) as f64;
        let wave = 1.0 + 0.12 * (phase * 9.0).sin();
        let spike = if (0.62..0.635).contains(&phase) { 4.0 } else { 1.0 };
        let moment = Moment { test, t_ms: self.now_ms, length_s: self.shape.sample_s, slower, wave, spike };
        let mut hosts = HostSums::default();
        for n in 0..self.shape.databases {
            self.database_sample(n, moment, judged, &mut hosts)?;
        }
        self.host_seconds(moment, hosts)?;
        self.host_counters(moment, sample)?;
        self.now_ms += moment.interval_ms();
        Ok(())
    }

    fn database_sample(
        &mut self,
        n: u32,
        moment: Moment,
        judged: &mut Judged,
        hosts: &mut HostSums,
    ) -> Result<(), RecordError> {
        let Moment { test, t_ms, length_s, slower, wave, spike } = moment;
        let has_log = n.is_multiple_of(self.shape.databases_per_instance);
        // One database is slower than its peers.
        let lame = if n == self.shape.databases / 3 { 1.25 } else { 1.0 };
        for (class, per_s, size, latency_ms, is_log) in CLASSES {
            if is_log && !has_log {
                continue;
            }
            let count = self.random.around(per_s * length_s as f64, 0.25).round() as u64;
            let mean_ms = self.random.around(latency_ms * slower * wave * spike * lame, 0.15);
            let longest_ns = |unit: f64| (mean_ms * 1e6 * (3.0 + 6.0 * unit)) as u64;
            let io = IoTotals {
                count,
                bytes: count * size,
                latency_ns_sum: (count as f64 * mean_ms * 1e6) as u64,
                latency_ns_max: if count > 0 { longest_ns(self.random.unit()) } else { 0 },
            };
            let origin = if is_log { self.log_origin(n) } else { self.database_origin(n) };
            if class == IoClass::TransactionalRead {
                judged.reads.add(io);
            }
            let is_transactional = [IoClass::TransactionalRead, IoClass::TransactionalWrite].contains(&class);
            if is_transactional && origin.host == self.host(0) {
                judged.transactional += count;
            }
            hosts.add(&origin.host, class, io);
            if count > 0 {
                self.to.record(Sample::new(test, origin, class, t_ms, moment.interval_ms(), io).into())?;
            }
        }
        let batches = IoTotals {
            count: (1.09 * length_s as f64 + 0.5) as u64,
            bytes: 0,
            latency_ns_sum: 900_000_000 * length_s,
            latency_ns_max: 2_100_000_000,
        };
        let origin = self.database_origin(n);
        hosts.add(&origin.host, Measure::Batch, batches);
        let row = Sample::new(test, origin.clone(), Measure::Batch, t_ms, moment.interval_ms(), batches);
        self.to.record(row.into())?;
        self.counter(moment, origin, Counter::GrowthBytes, batches.count * 13_960)?;
        if has_log { self.log_counters(n, moment) } else { Ok(()) }
    }

    fn log_counters(&mut self, n: u32, moment: Moment) -> Result<(), RecordError> {
        let log = self.log_origin(n);
        let stalls = u64::from(self.random.unit() < 0.01);
        self.counter(moment, log.clone(), Counter::PageFaultStalls, stalls)?;
        self.counter(moment, log.clone(), Counter::CacheBytes, 255 << 20)?;
        let logs = u64::from(self.random.unit() < moment.length_s as f64 / 31.0);
        self.counter(moment, log, Counter::LogGenerations, logs)
    }

    /// Records the seconds of the hosts, with the latency distribution of the whole sample.
    fn host_seconds(&mut self, moment: Moment, hosts: HostSums) -> Result<(), RecordError> {
        let Moment { test, t_ms, length_s, .. } = moment;
        for (origin, measure, sum) in hosts.0 {
            let whole = Sample::new(test, origin.clone(), measure, t_ms, moment.interval_ms(), sum);
            if sum.count > 0 {
                self.to.record(distribution(&whole).into())?;
            }
            for second in 0..length_s {
                let part = part(sum, second, length_s);
                if part.count > 0 {
                    let row = Sample::new(test, origin.clone(), measure, t_ms + second * 1_000, 1_000, part);
                    self.to.record(row.into())?;
                }
            }
        }
        Ok(())
    }

    fn host_counters(&mut self, moment: Moment, sample: u64) -> Result<(), RecordError> {
        let length_s = moment.length_s;
        for n in 0..self.shape.hosts {
            let host = Origin::host(&self.host_name(n));
            let busy = self.random.around(340_000_000.0, 0.5) as u64 * length_s;
            for (counter, value) in [
                (Counter::CpuBusyNs, busy),
                (Counter::CpuAvailableNs, length_s * 2_000_000_000),
                (Counter::CpuBusiestThreadNs, busy / 10 * 7),
                (Counter::HostCpuBusyNs, busy + length_s * 90_000_000),
                (Counter::HostCpuAvailableNs, length_s * 2_000_000_000),
                (Counter::HostMemoryAvailableBytes, (21 << 30) - sample),
                (Counter::HostCpuStolenNs, 0),
                (Counter::HostCpuPressureNs, length_s * 20_000_000),
                (Counter::LateNs, length_s * 1_000_000),
            ] {
                self.counter(moment, host.clone(), counter, value)?;
            }
            // Ten reads, of which the load generator held each for 30 us.
            let held = IoTotals { count: 10, bytes: 0, latency_ns_sum: 300_000, latency_ns_max: 40_000 };
            let measure = Measure::Held(IoClass::TransactionalRead);
            let (t_ms, interval_ms) = (moment.t_ms, moment.interval_ms());
            self.to.record(Sample::new(moment.test, host, measure, t_ms, interval_ms, held).into())?;
        }
        Ok(())
    }

    fn counter(
        &mut self,
        moment: Moment,
        origin: Origin,
        counter: Counter,
        value: u64,
    ) -> Result<(), RecordError> {
        let (test, t_ms, interval_ms) = (moment.test, moment.t_ms, moment.interval_ms());
        self.to.record(CounterSample { test, origin, counter, t_ms, interval_ms, value }.into())
    }

    fn judge(&mut self, test: &Test, judged: &Judged, seconds: u64) -> Result<(), RecordError> {
        let read_ms = judged.reads.latency_ns_sum as f64 / judged.reads.count as f64 / 1e6;
        let iops = judged.transactional as f64 / seconds as f64;
        let rules = [
            (
                "achieved_iops",
                "achieved transactional I/O per second reach the target",
                iops,
                test.target_iops.map(|all| all / f64::from(self.shape.hosts)),
                Comparison::AtLeast,
                "1/s",
            ),
            (
                "read_latency_avg",
                "mean latency of transactional page reads stays at or below 20 ms",
                read_ms,
                Some(20.0),
                Comparison::AtMost,
                "ms",
            ),
            (
                "log_write_latency_avg",
                "mean latency of durable log writes stays at or below 10 ms",
                2.4,
                Some(10.0),
                Comparison::AtMost,
                "ms",
            ),
            ("io_errors", "no I/O error", 0.0, Some(0.0), Comparison::AtMost, ""),
        ];
        for (rule, text, measured, limit, comparison, unit) in rules {
            let holds = limit.is_none_or(|limit| comparison.holds(measured, limit));
            self.to.record(
                Verdict {
                    test: Some(test.ordinal),
                    origin: Origin::host(&self.host(0)),
                    rule: rule.to_owned(),
                    text: format!("{text}{}", self.shape.hostile),
                    measured: Some(measured),
                    limit,
                    comparison,
                    unit: unit.to_owned(),
                    outcome: if holds { Outcome::Pass } else { Outcome::Fail },
                }
                .into(),
            )?;
        }
        Ok(())
    }
}
