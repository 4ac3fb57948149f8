//! The figures of a foreign report, judged again: what it says of itself is compared with what follows from them.
//!
//! A report that prints no latency limits is judged by those of the programme for its generation, and every
//! verdict says so.
//!
//! Limits: a report prints no samples, so nothing can be said of its highest one.

use results::*;

use crate::printed_figures::{ChecksumFigures, TestFigures, known, whole};

/// The limits on mean latencies that an imported test is judged by.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    read_avg_ms: Option<f64>,
    log_write_avg_ms: Option<f64>,
    /// The programme whose limits are assumed, if the report does not print its own.
    pub assumed: Option<String>,
}

impl Limits {
    /// The limits that the report prints, else those of the programme for a test with a load; none for an unknown
    /// generation of Exchange.
    pub fn of(test: &TestFigures, generation: &str) -> Limits {
        if let Some(printed) = &test.thresholds {
            let (read_avg_ms, log_write_avg_ms) =
                (known(printed.read_avg_ms), known(printed.log_write_avg_ms));
            return Limits { read_avg_ms, log_write_avg_ms, assumed: None };
        }
        // Read and log write: 20 ms each in the report of a run of 2003, 20 and 10 ms in the manual of 2007 and in the
        // configurations and logs from 2010 on.
        let log_write_ms = match generation {
            _ if !results::grade::is_load(&test.kind) => return Limits::default(),
            "2003" => 20.0,
            "2007" | "2010" | "2013" | "2016" | "2019" => 10.0,
            _ => return Limits::default(),
        };
        Limits {
            read_avg_ms: Some(20.0),
            log_write_avg_ms: Some(log_write_ms),
            assumed: Some(format!("those of the programme for Exchange {generation}")),
        }
    }

    /// The limits as rows of `run.db`.
    pub fn rows(&self) -> Vec<Limit> {
        let limit = |rule: &str, value: Option<f64>| {
            value.map(|value| Limit { rule: rule.to_owned(), value, unit: "ms".to_owned(), published: None })
        };
        let both = [
            limit("read_latency_avg", self.read_avg_ms),
            limit("log_write_latency_avg", self.log_write_avg_ms),
        ];
        both.into_iter().flatten().collect()
    }
}

/// Number of bad pages and of pages with a wrong number; `None` if one of the two is unreadable or was not printed.
pub fn bad_pages(row: &ChecksumFigures) -> Option<(u64, u64)> {
    Some((whole(Some(known(row.bad)?)), whole(Some(known(row.wrong_page_number)?))))
}

/// Verdicts on an imported test of one server: from its figures, and whether they fit the result that it prints.
pub fn verdicts(
    test: &TestFigures,
    host: &str,
    ordinal: u32,
    generation: &str,
) -> impl Iterator<Item = Verdict> + use<> {
    let mut judge = Judge { ordinal, verdicts: Vec::new() };
    if let (Some(achieved), Some(target)) = (known(test.achieved_iops), known(test.target_iops))
        && test.kind != "backup_to_disk"
    {
        let text = format!("achieved transactional I/O per second reach the target of {target}");
        judge.figure(("achieved_iops", text, "1/s"), Origin::host(host), Some(achieved), target);
    }
    latencies(test, host, &Limits::of(test, generation), &mut judge);
    if !test.checksum.is_empty() {
        let cells = test.checksum.iter().flat_map(|row| [known(row.bad), known(row.wrong_page_number)]);
        let found: f64 = cells.flatten().sum();
        // What is known suffices to fail, but not to pass.
        let all_known = test.checksum.iter().all(|row| bad_pages(row).is_some());
        let bad = (all_known || found > 0.0).then_some(found);
        judge.figure(("bad_pages", "no bad page".into(), ""), Origin::host(host), bad, 0.0);
    }
    if !test.result.is_empty() {
        judge.printed(&test.result, host);
    }
    judge.verdicts.into_iter()
}

fn latencies(test: &TestFigures, host: &str, limits: &Limits, judge: &mut Judge) {
    let assumed = limits.assumed.as_ref().map_or(String::new(), |whose| format!(" (assumed: {whose})"));
    let mut both = |origin: &Origin, read_ms: Option<f64>, log_write_ms: Option<f64>| {
        for (rule, what, measured, limit) in [
            ("read_latency_avg", "database reads", read_ms, limits.read_avg_ms),
            ("log_write_latency_avg", "log writes", log_write_ms, limits.log_write_avg_ms),
        ] {
            if let (Some(measured), Some(limit)) = (known(measured), limit) {
                let text = format!("mean latency of {what} stays at or below {limit} ms{assumed}");
                judge.figure((rule, text, "ms"), origin.clone(), Some(measured), limit);
            }
        }
    };
    for row in &test.transactional {
        let name = if row.name.is_empty() { format!("Instance{}", row.n) } else { row.name.clone() };
        both(&Origin::instance(host, &name), row.db_read_latency_ms, row.log_write_latency_ms);
    }
    if test.transactional.is_empty() {
        both(&Origin::host(host), test.read_latency_ms, test.log_write_latency_ms);
    }
}

struct Judge {
    ordinal: u32,
    verdicts: Vec<Verdict>,
}

impl Judge {
    fn figure(
        &mut self,
        (rule, text, unit): (&str, String, &str),
        origin: Origin,
        measured: Option<f64>,
        limit: f64,
    ) {
        let comparison = if rule == "achieved_iops" { Comparison::AtLeast } else { Comparison::AtMost };
        let outcome = match measured {
            Some(measured) if comparison.holds(measured, limit) => Outcome::Pass,
            Some(_) => Outcome::Fail,
            None => Outcome::Info,
        };
        self.verdicts.push(Verdict {
            test: Some(self.ordinal),
            origin,
            rule: rule.to_owned(),
            text,
            measured,
            limit: Some(limit),
            comparison,
            unit: unit.to_owned(),
            outcome,
        });
    }

    /// The verdict on the printed result. A printed pass counts only if figures of the report were judged and none
    /// fails.
    fn printed(&mut self, result: &str, host: &str) {
        let failed: Vec<&Verdict> = self.verdicts.iter().filter(|v| v.outcome == Outcome::Fail).collect();
        let passed = self.verdicts.iter().filter(|v| v.outcome == Outcome::Pass).count();
        let (outcome, follows) = match (result, failed.first()) {
            ("Pass", Some(first)) => {
                let place = first.origin.instance.as_deref().unwrap_or(host);
                let measured = first.measured.unwrap_or_default();
                let more =
                    if failed.len() > 1 { format!(", and {} more", failed.len() - 1) } else { String::new() };
                let figure = format!("{} of {place} is {measured} {}", first.rule, first.unit);
                let limit = first.limit.unwrap_or_default();
                (
                    Outcome::Fail,
                    format!(", which does not follow from its figures: {figure}, the limit {limit}{more}"),
                )
            }
            ("Pass", None) if passed > 0 => (Outcome::Pass, ", as do its figures".to_owned()),
            ("Pass", None) => (Outcome::Info, "; none of its figures can be judged".to_owned()),
            _ => (Outcome::Fail, String::new()),
        };
        self.verdicts.push(Verdict {
            test: Some(self.ordinal),
            origin: Origin::host(host),
            rule: "printed_result".into(),
            text: format!("the imported report says “{result}”{follows}"),
            measured: None,
            limit: None,
            comparison: Comparison::AtMost,
            unit: String::new(),
            outcome,
        });
    }
}
