//! The judge of a drill: makes one history of what hosts and arbiter wrote in their journals, and judges it.
//!
//! Invariants
//! 1. What one host wrote stays in its order.
//! 2. Two hosts contradict each other only if they do so however wrong their clocks can be: a batch counts as
//!    acknowledged at the earliest and a database as mounted at the latest moment that is possible.
//! 3. Every host of the topology and the arbiter owe a whole journal. If one is missing, damaged or not ended,
//!    no rule passes: what its author wrote could break each of them. A rule that the other journals show to be
//!    broken fails all the same.
//!
//! Limits: what the arbiter decides after the window and after the last word of the hosts does not count. The
//! arbiter outlives the drill, and then it sees only that no host answers any more.

use std::rc::Rc;

use replication::{ArbiterEvent, HostId};
use results::{Comparison, Event, Origin, Outcome, Row, Severity, Verdict};
use solution::{DrillSpec, Failure, TestSpec};

use super::auditor::Auditor;
use super::drain::Compared;
use super::journal::{Entry, JournalContent, JournalFault, ReadJournal};
use super::node::Observed;
use super::topology::{ARBITER_NAME, PlannedDrill, Topology};

const SECOND_NS: u64 = 1_000_000_000;

/// Result of the judgement of a drill.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reviewed {
    /// Verdicts of the drill.
    pub verdicts: Vec<Verdict>,
    /// Notes for people: time by the controller's calendar (since 1970), number of the host, text.
    pub notes: Vec<(u64, usize, String)>,
}

impl Reviewed {
    /// Rows of the result for the run's evidence. `run_ms` converts a time of the journals to time of the run.
    pub fn rows(&self, planned: &PlannedDrill, run_ms: impl Fn(u64) -> u64) -> Vec<Row> {
        let events = self.notes.iter().map(|(at_ns, host, text)| Event {
            t_ms: run_ms(*at_ns),
            severity: Severity::Info,
            test: Some(planned.ordinal),
            host: planned.topology.hosts[*host].name.clone(),
            text: text.clone(),
        });
        events.map(Row::from).chain(self.verdicts.iter().cloned().map(Row::from)).collect()
    }
}

enum Item {
    Opens,
    Fails(usize),
    IsOver(usize),
    Closes,
    Host(usize, JournalContent),
    Arbiter(usize, ArbiterEvent),
    EndOfSecond,
}

/// Judges a drill by the journals of all hosts, in the order of the topology, and by that of the arbiter.
///
/// # Panics
/// If there are more or fewer journals than hosts.
pub fn review(planned: &PlannedDrill, hosts: &[ReadJournal], arbiter: &ReadJournal) -> Reviewed {
    let PlannedDrill { topology, test, drill, ordinal, .. } = planned;
    let ordinal = *ordinal;
    assert_eq!(hosts.len(), topology.hosts.len(), "each host has a journal, be it a missing one");
    let hosts: Vec<Checked<'_>> =
        hosts.iter().map(|journal| checked(journal, topology, drill, true)).collect();
    let arbiter = checked(arbiter, topology, drill, false);
    let names = topology.hosts.iter().map(|host| host.name.as_str()).chain([ARBITER_NAME]);
    let journals = hosts.iter().chain([&arbiter]);
    let mut verdicts: Vec<Verdict> =
        names.zip(journals).map(|(name, journal)| is_whole(ordinal, name, journal.fault.as_ref())).collect();
    verdicts.extend(
        drill
            .failures
            .iter()
            .enumerate()
            .map(|(number, failure)| is_performed(ordinal, number, failure, topology, &hosts)),
    );
    let is_proved = verdicts.iter().all(|verdict| verdict.outcome == Outcome::Pass);
    let Some(history) = History::of(topology, test, drill, &hosts, &arbiter) else {
        return Reviewed { verdicts, notes: Vec::new() };
    };
    let Reviewed { verdicts: mut judged, notes } = history.judge(topology, drill, ordinal);
    if !is_proved {
        judged.iter_mut().for_each(unless_proved);
    }
    verdicts.append(&mut judged);
    Reviewed { verdicts, notes }
}

/// Verdict about one journal.
fn is_whole(ordinal: u32, name: &str, fault: Option<&JournalFault>) -> Verdict {
    let why = fault.map_or(String::new(), |fault| format!(": {fault}"));
    Verdict {
        test: Some(ordinal),
        origin: Origin::host(name),
        rule: "drill_journal".into(),
        text: format!("the journal of {name} is whole and ended{why}"),
        measured: Some(if fault.is_none() { 1.0 } else { 0.0 }),
        limit: Some(1.0),
        comparison: Comparison::AtLeast,
        unit: "journals".into(),
        outcome: if fault.is_none() { Outcome::Pass } else { Outcome::Unproved },
    }
}

/// Whether a failure began and ended on each of its hosts.
fn is_performed(
    ordinal: u32,
    number: usize,
    failure: &Failure,
    topology: &Topology,
    journals: &[Checked<'_>],
) -> Verdict {
    let says =
        |journal: &Checked<'_>, said: JournalContent| journal.entries.iter().any(|entry| entry.said == said);
    let performed = topology.hosts.iter().zip(journals).filter(|(host, journal)| {
        failure.hosts.contains(&host.name)
            && says(journal, JournalContent::Fails(number))
            && (failure.back_at_s.is_none() || says(journal, JournalContent::IsOver(number)))
    });
    let (measured, limit) = (performed.count() as f64, failure.hosts.len() as f64);
    let holds = Comparison::AtLeast.holds(measured, limit);
    Verdict {
        test: Some(ordinal),
        origin: Origin::host(failure.hosts.first().map_or("", String::as_str)),
        rule: "drill_failure_performed".into(),
        text: format!("the scheduled failure took place on each of its hosts: {}", failure.what),
        measured: Some(measured),
        limit: Some(limit),
        comparison: Comparison::AtLeast,
        unit: "hosts".into(),
        outcome: if holds { Outcome::Pass } else { Outcome::Unproved },
    }
}

/// Outcome if a journal is incomplete: a rule that holds may be broken by what is missing. A rule that counts required
/// entries may be broken only because some are missing.
fn unless_proved(verdict: &mut Verdict) {
    let counts_what_is_there = !matches!(verdict.rule.as_str(), "drill_copies_compared" | "drill_dismounted");
    let stays = match verdict.outcome {
        Outcome::Fail => counts_what_is_there,
        Outcome::Pass => false,
        Outcome::Unproved | Outcome::Info => true,
    };
    if !stays {
        verdict.outcome = Outcome::Unproved;
    }
}

/// Journal with the part of it that can be used.
struct Checked<'a> {
    entries: &'a [Entry],
    fault: Option<JournalFault>,
}

/// Checks a journal: it must not refer to anything that the drill does not have, and the window of a host must open
/// and close.
fn checked<'a>(
    journal: &'a ReadJournal,
    topology: &Topology,
    drill: &DrillSpec,
    is_host: bool,
) -> Checked<'a> {
    let is_known = |entry: &Entry| {
        let database = |number: usize| number < topology.databases.len();
        match &entry.said {
            JournalContent::WindowOpens | JournalContent::WindowCloses | JournalContent::Ended { .. } => true,
            JournalContent::Fails(number) | JournalContent::IsOver(number) => *number < drill.failures.len(),
            JournalContent::Observed(
                Observed::Opened { database: number, .. }
                | Observed::Acknowledged { database: number, .. }
                | Observed::Failed { database: number, .. },
            ) => database(*number),
            JournalContent::Sample(samples) => samples.iter().all(|sample| database(sample.database)),
            JournalContent::Compared(compared) => compared.iter().all(|compared| database(compared.database)),
            JournalContent::Decided { database: number, event } => {
                let holder = match event {
                    ArbiterEvent::Activated { holder, .. } | ArbiterEvent::HolderSilent { holder } => {
                        usize::from(holder.0) < topology.hosts.len()
                    }
                    _ => true,
                };
                database(*number) && holder
            }
        }
    };
    let mut checked = Checked { entries: &journal.entries, fault: journal.fault.clone() };
    if let Some(place) = journal.entries.iter().position(|entry| !is_known(entry)) {
        let fault = Some(JournalFault::Unknown { line: place as u64 + 1 });
        checked = Checked { entries: &journal.entries[..place], fault };
    }
    let says = |said: JournalContent| checked.entries.iter().any(|entry| entry.said == said);
    if is_host
        && checked.fault.is_none()
        && !(says(JournalContent::WindowOpens) && says(JournalContent::WindowCloses))
    {
        checked.fault = Some(JournalFault::NoWindow);
    }
    checked
}

/// Entries of all journals in one order.
struct History {
    items: Vec<(u64, Item)>,
    compared: Vec<Compared>,
    closes_ns: u64,
}

impl History {
    /// Orders the entries of all journals; `None` if the window opened on no host.
    fn of(
        topology: &Topology,
        test: &TestSpec,
        drill: &DrillSpec,
        hosts: &[Checked<'_>],
        arbiter: &Checked<'_>,
    ) -> Option<History> {
        let entries = || hosts.iter().flat_map(|journal| journal.entries);
        let first = |said: JournalContent| {
            entries().filter(|entry| entry.said == said).map(|entry| entry.unix_ns).min()
        };
        let opens_ns = first(JournalContent::WindowOpens)?;
        let closes_ns = opens_ns + (test.duration_s * 1e9) as u64;
        let mut items = vec![(opens_ns, Item::Opens), (closes_ns, Item::Closes)];
        for number in 0..drill.failures.len() {
            items.extend(first(JournalContent::Fails(number)).map(|at_ns| (at_ns, Item::Fails(number))));
            items.extend(first(JournalContent::IsOver(number)).map(|at_ns| (at_ns, Item::IsOver(number))));
        }
        let mut compared = Vec::new();
        for (host, journal) in hosts.iter().enumerate() {
            items.extend(of_host(topology, host, journal, &mut compared));
        }
        let parting_ns = entries().map(|entry| entry.unix_ns).max().unwrap_or(opens_ns).max(closes_ns);
        for entry in arbiter.entries.iter().filter(|entry| entry.unix_ns <= parting_ns) {
            if let JournalContent::Decided { database, event } = &entry.said {
                items.push((entry.unix_ns, Item::Arbiter(*database, *event)));
            }
        }
        let last_ns = last_second_ns(hosts, closes_ns);
        let last_ns = last_ns.or_else(|| items.iter().map(|(at_ns, _)| *at_ns).max()).unwrap_or(opens_ns);
        let ends = (opens_ns + SECOND_NS / 2..=last_ns).step_by(SECOND_NS as usize);
        items.extend(ends.map(|at_ns| (at_ns, Item::EndOfSecond)));
        items.sort_by_key(|(at_ns, _)| *at_ns);
        Some(History { items, compared, closes_ns })
    }

    fn judge(self, topology: &Rc<Topology>, drill: &DrillSpec, ordinal: u32) -> Reviewed {
        let (mut auditor, mut notes) = (Auditor::new(topology.clone()), Vec::new());
        let mut dismounted = vec![None; topology.databases.len()];
        for (at_ns, item) in self.items {
            let now_ms = at_ns / 1_000_000;
            match item {
                Item::Opens => auditor.begin_window(now_ms),
                Item::Closes => auditor.end_window(now_ms),
                Item::Fails(number) => auditor.fails(now_ms, &drill.failures[number]),
                Item::IsOver(number) => auditor.is_over(&drill.failures[number]),
                Item::Host(host, JournalContent::Observed(observed)) => {
                    auditor.observe(now_ms, HostId(host as u16), observed)
                }
                Item::Host(host, JournalContent::Sample(samples)) => auditor.sample(host, samples),
                Item::Host(..) => {}
                Item::Arbiter(database, event) => {
                    match event {
                        ArbiterEvent::Dismounted { why } => dismounted[database] = Some(why.to_string()),
                        ArbiterEvent::Activated { .. } => dismounted[database] = None,
                        _ => {}
                    }
                    auditor.decided(database, event);
                }
                Item::EndOfSecond => auditor.end_of_sample(now_ms),
            }
            notes.extend(auditor.take_notes().into_iter().map(|(host, text)| (at_ns, host, text)));
        }
        for (database, why) in dismounted.into_iter().enumerate() {
            auditor.dismounted(database, why);
        }
        auditor.compare(drill, &self.compared);
        Reviewed { verdicts: auditor.judge(ordinal, self.closes_ns / 1_000_000), notes }
    }
}

/// End of the last second that every host saw. Hosts do not end at the same instant, and a second that one of them
/// lacks does not count.
fn last_second_ns(hosts: &[Checked<'_>], closes_ns: u64) -> Option<u64> {
    let last_sample_ns = |journal: &Checked<'_>| {
        let samples = journal.entries.iter().filter(|entry| matches!(entry.said, JournalContent::Sample(_)));
        samples.map(|entry| entry.unix_ns).max().filter(|at_ns| *at_ns >= closes_ns)
    };
    hosts.iter().filter_map(last_sample_ns).min()
}

/// Entries of one host with the times at which they count.
fn of_host(
    topology: &Topology,
    host: usize,
    journal: &Checked<'_>,
    compared: &mut Vec<Compared>,
) -> Vec<(u64, Item)> {
    let (mut items, mut mounted) = (Vec::new(), vec![0; topology.databases.len()]);
    for Entry { unix_ns, error_ns, said } in journal.entries {
        let at_ns = match said {
            JournalContent::Compared(said) => {
                compared.extend(said.iter().cloned());
                continue;
            }
            JournalContent::Observed(Observed::Opened { database, .. }) => {
                mounted[*database] = (unix_ns + error_ns).max(mounted[*database]);
                mounted[*database]
            }
            JournalContent::Observed(Observed::Acknowledged { database, .. }) => {
                let last = &mut mounted[*database];
                *last = unix_ns.saturating_sub(*error_ns).max(*last);
                *last
            }
            _ => *unix_ns,
        };
        items.push((at_ns, Item::Host(host, said.clone())));
    }
    items
}
