//! What hosts and arbiter wrote down of a drill, each by its own idea of the controller's clock, made into one history and judged.
//!
//! Invariants
//! 1. What one host wrote stays in its order.
//! 2. Two hosts contradict each other only if they do so however wrong their clocks can be: a batch counts as acknowledged at the
//!    earliest and a database as mounted at the latest moment that is possible.
//!
//! Limits: a journal that is not whole (its host died) counts as far as it goes. What the arbiter decides after the window and
//! after the last word of the hosts does not count: it outlives the drill, and all it sees is that nobody answers any more.

use std::rc::Rc;

use copies::{ArbiterEvent, HostId};
use results::Verdict;
use serde::{Deserialize, Serialize};
use solution::{DrillSpec, TestSpec};

use super::ledger::Ledger;
use super::node::{CopySample, Observed};
use super::settle::Compared;
use super::site::Site;

const SECOND_NS: u64 = 1_000_000_000;

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When, by the controller's calendar.
    pub unix_ns: u64,
    /// How wrong that can be.
    pub error_ns: u64,
    /// What.
    pub said: Said,
}

/// What is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// The window opens.
    WindowOpens,
    /// Users go home.
    WindowCloses,
    /// Something happened on the host.
    Observed(Observed),
    /// How the copies of the host are. Said once a second.
    Sample(Vec<CopySample>),
    /// What the pages of the copies say at the end.
    Compared(Vec<Compared>),
    /// The arbiter decided something about a database.
    Decided {
        /// Its number.
        database: usize,
        /// What.
        event: ArbiterEvent,
    },
}

/// The journal of one host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostJournal {
    /// Number of the host.
    pub host: usize,
    /// In the order in which they were written.
    pub entries: Vec<Entry>,
}

/// What has become of a drill.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reviewed {
    /// The judgements; none if the window never opened.
    pub verdicts: Vec<Verdict>,
    /// What happened: when by the controller's calendar (since 1970), the number of the host, and what.
    pub notes: Vec<(u64, usize, String)>,
}

enum Item {
    Opens,
    Fails(usize),
    IsOver(usize),
    Closes,
    Host(usize, Said),
    Arbiter(usize, ArbiterEvent),
    EndOfSecond,
}

/// Makes one history of what the hosts and the arbiter wrote, and judges the drill, which is test number `ordinal`.
pub fn review(
    site: &Rc<Site>,
    test: &TestSpec,
    drill: &DrillSpec,
    ordinal: u32,
    hosts: &[HostJournal],
    arbiter: &[Entry],
) -> Reviewed {
    let entries = || hosts.iter().flat_map(|journal| &journal.entries);
    let opens = entries().filter(|entry| entry.said == Said::WindowOpens).map(|entry| entry.unix_ns).min();
    let Some(opens_ns) = opens else { return Reviewed::default() };
    let after = |s: f64| opens_ns + (s * 1e9) as u64;
    let closes_ns = after(test.duration_s);
    let mut items = vec![(opens_ns, Item::Opens), (closes_ns, Item::Closes)];
    for (number, failure) in drill.failures.iter().enumerate() {
        items.push((after(failure.at_s), Item::Fails(number)));
        items.extend(failure.back_at_s.map(|back_s| (after(back_s), Item::IsOver(number))));
    }
    let mut compared = Vec::new();
    for journal in hosts {
        items.extend(of_host(site, journal, &mut compared));
    }
    let parting_ns = entries().map(|entry| entry.unix_ns).max().unwrap_or(opens_ns).max(closes_ns);
    for entry in arbiter.iter().filter(|entry| entry.unix_ns <= parting_ns) {
        if let Said::Decided { database, event } = entry.said {
            items.push((entry.unix_ns, Item::Arbiter(database, event)));
        }
    }
    // Hosts that last to the end do not end in the same instant; a second that one of them has left is no second of the drill.
    let last_sample_ns = |journal: &HostJournal| {
        let samples = journal.entries.iter().filter(|entry| matches!(entry.said, Said::Sample(_)));
        samples.map(|entry| entry.unix_ns).max().filter(|at_ns| *at_ns >= closes_ns)
    };
    let last_ns = hosts.iter().filter_map(last_sample_ns).min();
    let last_ns = last_ns.or_else(|| items.iter().map(|(at_ns, _)| *at_ns).max()).unwrap_or(opens_ns);
    let ends = (opens_ns + SECOND_NS / 2..=last_ns).step_by(SECOND_NS as usize);
    items.extend(ends.map(|at_ns| (at_ns, Item::EndOfSecond)));
    items.sort_by_key(|(at_ns, _)| *at_ns);

    let (mut ledger, mut notes) = (Ledger::new(site.clone()), Vec::new());
    let mut dismounted = vec![None; site.databases.len()];
    for (at_ns, item) in items {
        let now_ms = at_ns / 1_000_000;
        match item {
            Item::Opens => ledger.begin_window(),
            Item::Closes => ledger.end_window(now_ms),
            Item::Fails(number) => ledger.fails(now_ms, &drill.failures[number]),
            Item::IsOver(number) => ledger.is_over(&drill.failures[number]),
            Item::Host(host, Said::Observed(observed)) => {
                ledger.observe(now_ms, HostId(host as u16), observed)
            }
            Item::Host(host, Said::Sample(samples)) => ledger.sample(host, samples),
            Item::Host(..) => {}
            Item::Arbiter(database, event) => {
                match event {
                    ArbiterEvent::Dismounted { why } => dismounted[database] = Some(why.to_string()),
                    ArbiterEvent::Activated { .. } => dismounted[database] = None,
                    _ => {}
                }
                ledger.decided(database, event);
            }
            Item::EndOfSecond => ledger.end_of_sample(now_ms),
        }
        notes.extend(ledger.take_notes().into_iter().map(|(host, text)| (at_ns, host, text)));
    }
    for (database, why) in dismounted.into_iter().enumerate() {
        ledger.dismounted(database, why);
    }
    ledger.compare(drill, &compared);
    Reviewed { verdicts: ledger.judge(ordinal, closes_ns / 1_000_000), notes }
}

/// The entries of one host at the moments at which they count.
fn of_host(site: &Site, journal: &HostJournal, compared: &mut Vec<Compared>) -> Vec<(u64, Item)> {
    let (mut items, mut mounted) = (Vec::new(), vec![0; site.databases.len()]);
    for Entry { unix_ns, error_ns, said } in &journal.entries {
        let at_ns = match said {
            Said::Compared(said) => {
                compared.extend(said.iter().cloned());
                continue;
            }
            Said::Observed(Observed::Opened { database, .. }) => {
                mounted[*database] = (unix_ns + error_ns).max(mounted[*database]);
                mounted[*database]
            }
            Said::Observed(Observed::Acknowledged { database, .. }) => {
                let last = &mut mounted[*database];
                *last = unix_ns.saturating_sub(*error_ns).max(*last);
                *last
            }
            _ => *unix_ns,
        };
        items.push((at_ns, Item::Host(journal.host, said.clone())));
    }
    items
}
