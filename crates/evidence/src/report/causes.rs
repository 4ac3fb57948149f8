//! What a run knows of the cause when a load test broke a limit of latency.
//!
//! The sentences tell what was measured beside the latency: how evenly the databases were slow, what the parts of
//! modelled storage did, whether the load generator had room. A disk that is busy all the time is named as the
//! limit; where nothing was busy, nothing is.

use results::{Origin, Outcome, StoragePart};

use super::model::*;
use super::text::{counted, number, significant};

/// A database is slower than the others from this multiple of the middle one's latency on.
const SLOWER: f64 = 1.5;
/// A part that was busy for this share of the time makes requests wait.
const BUSY: f64 = 0.8;
/// Kinds of parts that requests wait for. Volumes are made of them.
const KINDS: [(&str, &str); 7] = [
    ("drive", "disks"),
    ("controller", "controllers"),
    ("link", "links"),
    ("processor", "processors of a host"),
    ("read_cache", "read caches"),
    ("store", "stores"),
    ("pool", "pools"),
];

/// What is known of the causes, a few sentences for each load test with a broken limit of latency.
pub fn of(tests: &[TestReport]) -> Vec<String> {
    let is_broken = |test: &TestReport, rule: &str| {
        let broken = |verdict: &results::Verdict| verdict.rule.starts_with(rule);
        test.verdicts.iter().any(|verdict| verdict.outcome == Outcome::Fail && broken(verdict))
    };
    let mut causes = Vec::new();
    for test in tests.iter().filter(|test| test.throughput.is_some()) {
        let (reads, logs) = (is_broken(test, "read_latency"), is_broken(test, "log_write_latency"));
        let told = [
            if reads {
                evenness("reads", "database", latencies(&test.databases, |row| row.reads.as_ref()))
            } else {
                None
            },
            if logs {
                evenness("log writes", "log", latencies(&test.instances, |row| row.log_writes.as_ref()))
            } else {
                None
            },
            (reads || logs).then(|| busiest(&test.storage_parts)).flatten(),
            (reads || logs).then(|| test.generator.as_ref().map(generator)).flatten(),
        ];
        causes.extend(told.into_iter().flatten().map(|cause| format!("{}: {cause}", test.name)));
    }
    if !causes.is_empty() && tests.iter().all(|test| test.tuning.is_empty()) {
        causes.push(
            "A test of the kind tune finds the load that the storage carries within the limits.".to_owned(),
        );
    }
    causes
}

/// Where it was measured, and the mean latency there.
type Latencies<'a> = Vec<(&'a Origin, f64)>;

fn latencies(rows: &[InstanceIo], of: impl Fn(&InstanceIo) -> Option<&Figures>) -> Latencies<'_> {
    rows.iter().filter_map(|row| Some((&row.origin, of(row)?.latency_ms_mean?))).collect()
}

/// Whether all were slow, or one of them.
fn evenness(operations: &str, of: &str, mut latencies: Latencies<'_>) -> Option<String> {
    latencies.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (_, middle) = *latencies.get(latencies.len() / 2)?;
    let ((_, least), (slowest, most)) = (latencies[0], *latencies.last()?);
    let ms = significant;
    let all = counted(latencies.len() as u64, of);
    match latencies.len() {
        1 => None,
        _ if most >= SLOWER * middle => Some(format!(
            "{operations} took {} ms on {slowest}, and {} ms on the middle one of {all}: look at what {slowest} \
             alone lies on.",
            ms(most),
            ms(middle)
        )),
        _ => Some(format!("{operations} were slow everywhere: {} to {} ms on {all}.", ms(least), ms(most))),
    }
}

/// How busy the busiest part of each kind of the modelled storage was.
fn busiest(parts: &[StoragePart]) -> Option<String> {
    let busiest_of = |(kind, name): (&str, &'static str)| {
        let shares = parts.iter().filter(|part| part.kind == kind).map(|part| part.busy_share);
        Some((shares.reduce(f64::max)?, name))
    };
    let mut busy: Vec<_> = KINDS.into_iter().filter_map(busiest_of).collect();
    busy.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (most, limit) = *busy.first()?;
    let told = busy.iter().map(|(share, name)| format!("{name} {} %", number(share * 100.0, 0)));
    let shares = told.collect::<Vec<_>>().join(", ");
    let meaning = match most >= BUSY {
        true => format!("requests waited for the {limit}"),
        false => "no part was busy most of the time, so requests were slow without waiting for each other"
            .to_owned(),
    };
    Some(format!("{meaning}. Busy time of the busiest part of each kind: {shares}."))
}

fn generator(generator: &Generator) -> String {
    let busiest = generator.busiest_thread_busy.unwrap_or(generator.program_busy);
    let share = number(busiest * 100.0, 0);
    match generator.was_limit {
        true => format!(
            "the load generator itself had no room on {}: the storage may be faster than measured.",
            generator.host
        ),
        false => format!(
            "the load generator had room: its busiest thread worked {share} % of the time on {}.",
            generator.host
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(latencies: &[f64]) -> Option<String> {
        let origins: Vec<Origin> = (1..=latencies.len())
            .map(|n| Origin::database("h", &format!("I{n}"), &format!("D{n}")))
            .collect();
        evenness("reads", "database", origins.iter().zip(latencies.iter().copied()).collect())
    }

    fn part(kind: &str, busy_share: f64) -> StoragePart {
        StoragePart { kind: kind.to_owned(), busy_share, ..StoragePart::default() }
    }

    #[test]
    fn a_database_that_alone_is_slow_is_named() {
        let one = "reads took 61.0 ms on h/I2/D2, and 13.0 ms on the middle one of 3 databases: look at what h/I2/D2 \
                   alone lies on.";
        assert_eq!(told(&[12.0, 61.0, 13.0]).as_deref(), Some(one));
        let all = "reads were slow everywhere: 25.0 to 31.0 ms on 3 databases.";
        assert_eq!(told(&[28.0, 31.0, 25.0]).as_deref(), Some(all));
        assert_eq!(told(&[28.0]), None, "one database compares with nothing");
    }

    #[test]
    fn the_part_that_requests_wait_for_is_named_only_if_it_was_busy() {
        let parts = [part("volume", 1.0), part("drive", 0.924), part("drive", 0.0), part("controller", 0.02)];
        let waits = "requests waited for the disks. Busy time of the busiest part of each kind: disks 92 %, \
                     controllers 2 %.";
        assert!(busiest(&parts).is_some_and(|told| told == waits), "{:?}", busiest(&parts));
        let idle = busiest(&[part("drive", 0.3)]);
        assert!(idle.is_some_and(|told| told.contains("no part was busy most of the time")));
        assert_eq!(busiest(&[]), None, "real storage");
    }
}
