//! What users were promised in a drill, what they got, and how the copies were meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use replication::{ArbiterEvent, CopySpec, Dial, Epoch, Event, HostId};
use results::figures::{counted, number};
use results::{Comparison, IoTotals, Origin, Outcome, Verdict};
use solution::{DrillEventKind, DrillSpec, Failure};

use super::dismounted::stays_dismounted;
use super::drain::Compared;
use super::node::{CopySample, Observed};
use super::topology::{CopyPlace, DrillDatabase, Topology};
use crate::rule::Rule;
use crate::verdict::judge_none;

/// Number of batches that users should have done in the window; if none was acknowledged then, the database counts as
/// dismounted.
const BATCHES_WANTED_MIN: f64 = 20.0;

/// Latencies in one phase of a drill.
#[derive(Debug, Clone, Default)]
pub struct Phase {
    /// Page reads of the active copy.
    pub reads: IoTotals,
    /// Log writes of the active copy.
    pub log_writes: IoTotals,
    /// Batches of the users.
    pub batches: IoTotals,
}

/// Observations about one database of a drill.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Host of the active copy; `None` without one.
    pub active_on: Option<usize>,
    /// Longest outage, ms: from a failure to the first batch that another activation acknowledged, or the same one
    /// after the failure was over. For an activation that no scheduled failure explains, from the last acknowledged
    /// batch before it.
    pub outage_ms: Option<u64>,
    /// Start of an open outage, and the epoch of the lost active copy while it is away.
    pub out_since: Option<(u64, Option<Epoch>)>,
    /// Times at which a copy was mounted, ms.
    pub activations: u32,
    /// Number of acknowledged durable commits.
    pub acknowledged: u64,
    /// Number of acknowledged changes that the next active copy did not have.
    pub lost: u64,
    /// Log generations that activations lost: the number known to be missing, and the upper bound.
    pub lost_generations: (u32, u32),
    /// Number of commits that were acknowledged in an epoch after users had found a later one.
    pub late: u64,
    /// Longest queues of a passive copy, in generations: copy queue, replay queue.
    pub queues: (u32, u32),
    /// Time at which a copy was first lost, ms.
    pub hurt_ms: Option<u64>,
    /// Time since which all copies are complete again, ms.
    pub whole_ms: Option<u64>,
    /// Latencies before the first failure, until all copies were complete again, and after that.
    pub phases: [Phase; 3],
    /// Number of copies that discarded log which no other copy had.
    pub diverged: u32,
    /// Number of copies that were seeded again.
    pub reseeded: u32,
    /// Messages that copies refused because another host claimed something impossible, by kind.
    pub refused: BTreeMap<(usize, Event), u64>,
    /// Number of damaged pages of active copies that other copies replaced.
    pub repaired: u64,
    /// Number of compared pages, of changed pages, and of pages that differ.
    pub compared: (u64, u64, u64),
    /// Copies that could not be compared although they should have been.
    pub unread: u32,
    /// Errors of users that no failure explains.
    pub failures: Vec<String>,
    /// Reason why the database was not mounted at the end.
    pub dismounted: Option<String>,
    /// Longest time of the window without an acknowledged batch, ms.
    pub wait_ms: u64,
    epoch: Epoch,
    /// Whether the activation of an epoch may have lost commits, according to the arbiter.
    may_lose: BTreeMap<Epoch, bool>,
    /// Losses: last epoch in which users had worked before, epoch in which they missed changes, number of changes.
    losses: Vec<(Epoch, Epoch, u64)>,
    promised: BTreeMap<u32, u32>,
    full_copies: BTreeSet<usize>,
    /// Hosts that an open failure cuts off, so that their copies cannot be used.
    cut_off: BTreeSet<usize>,
    /// Time of the last acknowledged batch of the window, or of its opening, ms.
    acknowledged_ms: Option<u64>,
    /// Epoch of the last acknowledged batch.
    acknowledged_in: Option<Epoch>,
}

/// Auditor of a drill: follows what users were told, and finds lost commits and two active copies.
pub struct Auditor {
    topology: Rc<Topology>,
    databases: Vec<Summary>,
    notes: Vec<(usize, String)>,
}

impl Auditor {
    /// Starts the auditor before anything happened.
    pub fn new(topology: Rc<Topology>) -> Auditor {
        let databases = topology.databases.iter().map(|_| Summary::default()).collect();
        Auditor { topology, databases, notes: Vec::new() }
    }

    /// Reason why a database is not mounted at the end; `None` if it is.
    pub fn dismounted(&mut self, database: usize, why: Option<String>) {
        self.databases[database].dismounted = why;
    }

    /// Notes that users have stopped.
    pub fn end_window(&mut self, now_ms: u64) {
        for summary in &mut self.databases {
            summary.waited_until(now_ms);
            summary.acknowledged_ms = None;
        }
    }

    /// Compares the page digests of the copies at the end.
    pub fn compare(&mut self, drill: &DrillSpec, said: &[Compared]) {
        let topology = self.topology.clone();
        for (number, summary) in self.databases.iter_mut().enumerate() {
            let absent = topology.absent(number, drill);
            let there = topology.databases[number].spec.copies.iter();
            let there = there.filter(|copy| !absent.contains(&copy.host) && !copy.is_lagged()).count();
            let of_this: Vec<&Compared> = said.iter().filter(|said| said.database == number).collect();
            let read: Vec<_> = of_this.iter().filter_map(|said| said.digests.as_ref()).collect();
            summary.unread = there.saturating_sub(read.len()) as u32;
            let places: BTreeSet<u32> = read.iter().flat_map(|digests| digests.keys().copied()).collect();
            let changed = of_this.iter().map(|said| said.changed).max().unwrap_or(0);
            summary.compared = (places.len() as u64, changed as u64, differing(&places, &read));
        }
    }

    /// Notes for people since the last call, with the number of the host.
    pub fn take_notes(&mut self) -> Vec<(usize, String)> {
        std::mem::take(&mut self.notes)
    }

    /// Opens the window: forgets what was measured so far, but not what was acknowledged.
    pub fn begin_window(&mut self, now_ms: u64) {
        for summary in &mut self.databases {
            *summary = Summary {
                active_on: summary.active_on,
                epoch: summary.epoch,
                may_lose: std::mem::take(&mut summary.may_lose),
                promised: std::mem::take(&mut summary.promised),
                acknowledged_ms: Some(now_ms),
                acknowledged_in: summary.acknowledged_in,
                failures: std::mem::take(&mut summary.failures),
                ..Summary::default()
            };
        }
    }

    /// Notes that hosts, or a volume of a host, fail.
    pub fn fails(&mut self, now_ms: u64, failure: &Failure) {
        for (summary, database) in self.databases.iter_mut().zip(&self.topology.databases) {
            let mut hosts = database.places.iter().filter(|place| self.topology.hits(failure, place));
            let hit = |host: usize| {
                database.places.iter().any(|place| place.host == host && self.topology.hits(failure, place))
            };
            if hosts.next().is_none() {
                continue;
            }
            summary.hurt_ms.get_or_insert(now_ms);
            summary.whole_ms = None;
            // What was full before the failure need not be any more.
            summary.full_copies.clear();
            if failure.kind == DrillEventKind::HostCutOff {
                summary.cut_off.extend(hit_hosts(&self.topology, failure, database));
            }
            if summary.active_on.is_some_and(hit) && summary.out_since.is_none() {
                summary.out_since = Some((now_ms, Some(summary.epoch)));
            }
        }
    }

    /// Notes that hosts, or a volume of a host, are back. A copy that was cut off for less than its lease is still
    /// active.
    pub fn is_over(&mut self, failure: &Failure) {
        for (summary, database) in self.databases.iter_mut().zip(&self.topology.databases) {
            if failure.kind == DrillEventKind::HostCutOff {
                let back: BTreeSet<usize> = hit_hosts(&self.topology, failure, database).collect();
                summary.cut_off.retain(|host| !back.contains(host));
            }
            let is_back = |place: &CopyPlace| {
                summary.active_on == Some(place.host) && self.topology.hits(failure, place)
            };
            if database.places.iter().any(is_back)
                && let Some((_, epoch)) = &mut summary.out_since
            {
                *epoch = None;
            }
        }
    }

    /// Handles an observation that could not wait for the next sample.
    pub fn observe(&mut self, now_ms: u64, host: HostId, observed: Observed) {
        match observed {
            Observed::Opened { database, epoch, found } => {
                let summary = &mut self.databases[database];
                let missing = |(folder, promised): (&u32, &u32)| {
                    u64::from(promised.saturating_sub(found.get(folder).copied().unwrap_or(0)))
                };
                let lost: u64 = summary.promised.iter().map(missing).sum();
                summary.lost += lost;
                if lost > 0 {
                    summary.losses.push((summary.epoch, epoch, lost));
                }
                // Changes that were found but never acknowledged are no promise.
                summary.promised.retain(|folder, promised| {
                    *promised = (*promised).min(found.get(folder).copied().unwrap_or(0));
                    *promised > 0
                });
                summary.epoch = summary.epoch.max(epoch);
                summary.activations += 1;
                let host = usize::from(host.0);
                summary.active_on = Some(host);
                let name = &self.topology.databases[database].name;
                let with =
                    if lost > 0 { format!(", {lost} acknowledged changes lost") } else { String::new() };
                self.notes.push((host, format!("users work on {name} here (epoch {}){with}", epoch.0)));
            }
            Observed::Acknowledged { database, epoch, folders } => {
                let summary = &mut self.databases[database];
                summary.acknowledged += 1;
                if epoch < summary.epoch {
                    summary.late += 1;
                    return;
                }
                let (last_ms, last_in) = (summary.acknowledged_ms, summary.acknowledged_in.replace(epoch));
                summary.waited_until(now_ms);
                summary.acknowledged_ms = summary.acknowledged_ms.and(Some(now_ms));
                for (folder, version) in folders {
                    let newest = summary.promised.entry(folder).or_default();
                    *newest = version.max(*newest);
                }
                let serves_again = |(_, old): &(u64, Option<Epoch>)| old.is_none_or(|old| epoch > old);
                let unplanned_ms = last_ms.filter(|_| last_in.is_some_and(|last| epoch > last));
                match summary.out_since {
                    Some(out) if serves_again(&out) => {
                        summary.outage_ms = summary.outage_ms.max(Some(now_ms.saturating_sub(out.0)));
                        summary.out_since = None;
                    }
                    Some(_) => {}
                    None => {
                        let outage_ms = unplanned_ms.map(|since_ms| now_ms.saturating_sub(since_ms));
                        summary.outage_ms = summary.outage_ms.max(outage_ms);
                    }
                }
            }
            Observed::Failed { database, text } => {
                let name = &self.topology.databases[database].name;
                self.notes.push((host.0.into(), format!("{name}: {text}")));
                self.databases[database].failures.push(text);
            }
        }
    }

    /// Handles the sample of a host's copies.
    pub fn sample(&mut self, host: usize, samples: Vec<CopySample>) {
        for sample in samples {
            let database = &self.topology.databases[sample.database];
            let summary = &mut self.databases[sample.database];
            let report = &sample.report;
            let is_lagged = database.spec.copy_on(report.host).is_some_and(CopySpec::is_lagged);
            if sample.is_full(is_lagged) && !summary.cut_off.contains(&host) {
                summary.full_copies.insert(host);
            }
            if sample.active_in.is_some() {
                let phase = match (summary.hurt_ms, summary.whole_ms) {
                    (None, _) => 0,
                    (Some(_), None) => 1,
                    (Some(_), Some(_)) => 2,
                };
                let phase = &mut summary.phases[phase];
                phase.reads.add(sample.reads);
                phase.log_writes.add(sample.log_writes);
                phase.batches.add(sample.batches);
            } else {
                summary.queues.0 = summary.queues.0.max(report.copy_queue);
                if !is_lagged {
                    summary.queues.1 = summary.queues.1.max(report.replay_queue());
                }
            }
            // A copy that has stopped says so with each sample.
            if let Some(failure) = sample.failure.filter(|failure| !summary.failures.contains(failure)) {
                self.notes.push((host, format!("{}: this copy has stopped: {failure}", database.name)));
                summary.failures.push(failure);
            }
            for event in sample.events {
                match event {
                    Event::Diverged { .. } => summary.diverged += 1,
                    Event::SeedingBegun { .. } => summary.reseeded += 1,
                    Event::PageRepaired { .. } => summary.repaired += 1,
                    Event::ForeignPieceRefused { .. }
                    | Event::LogRefused { .. }
                    | Event::SecondActiveRefused { .. }
                    | Event::PagesRefused { .. }
                    | Event::SeedRefused { .. } => {
                        let times = summary.refused.entry((host, event)).or_default();
                        *times += 1;
                        if *times > 1 {
                            continue;
                        }
                    }
                    Event::SteppedDown { .. }
                    | Event::PartnerChosen { .. }
                    | Event::Seeded
                    | Event::PageDamaged { .. } => {}
                    _ => continue,
                }
                self.notes.push((host, format!("{}: {}", database.name, in_words(&event, &self.topology))));
            }
        }
    }

    /// Handles a decision of the arbiter.
    pub fn decided(&mut self, database: usize, event: ArbiterEvent) {
        let (summary, name) = (&mut self.databases[database], &self.topology.databases[database].name);
        match event {
            ArbiterEvent::Activated { holder, epoch, loss } => {
                summary.may_lose.insert(epoch, loss.is_some());
                let mut text = format!("the arbiter activates {name} (epoch {})", epoch.0);
                if let Some(loss) = loss {
                    summary.lost_generations.0 += loss.missing_generations;
                    summary.lost_generations.1 = summary.lost_generations.1.max(loss.bound_generations);
                    text += &format!(
                        ", {} missing, at most {} allowed",
                        counted(loss.missing_generations.into(), "log generation"),
                        number(loss.bound_generations.into(), 0)
                    );
                }
                self.notes.push((holder.0.into(), text));
            }
            ArbiterEvent::HolderSilent { holder } => {
                self.notes.push((holder.0.into(), format!("{name}: its active copy is silent")));
            }
            ArbiterEvent::Dismounted { why } => {
                let host = summary.active_on.unwrap_or(self.topology.databases[database].places[0].host);
                let spec = &self.topology.databases[database].spec;
                self.notes.push((host, stays_dismounted(name, spec, why)));
            }
            _ => {}
        }
    }

    /// Handles the end of a second, after the samples of all hosts.
    pub fn end_of_sample(&mut self, now_ms: u64) {
        for (summary, database) in self.databases.iter_mut().zip(&self.topology.databases) {
            let is_whole = std::mem::take(&mut summary.full_copies).len() == database.places.len();
            summary.whole_ms = if is_whole { summary.whole_ms.or(Some(now_ms)) } else { None };
        }
    }

    /// Verdicts of the drill, which is test number `test` and ends now.
    pub fn judge(&self, test: u32, now_ms: u64) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for (summary, database) in self.databases.iter().zip(&self.topology.databases) {
            let host = &self.topology.hosts[summary.active_on.unwrap_or(database.places[0].host)].name;
            let bench = Bench { test, origin: Origin::database(host, &database.name, &database.name) };
            verdicts.extend(bench.losses(summary, database));
            verdicts.extend(bench.copies(summary));
            let wanted = self.topology.batches_wanted() >= BATCHES_WANTED_MIN;
            verdicts.extend(bench.service(summary, now_ms, wanted));
            if let Some(hurt_ms) = summary.hurt_ms {
                verdicts.extend(bench.latencies(summary, &self.topology));
                verdicts.extend(bench.recovery(summary, hurt_ms));
            }
        }
        verdicts
    }
}

/// Builder of the verdicts about one database.
struct Bench {
    test: u32,
    origin: Origin,
}

impl Bench {
    fn none(&self, rule: &str, what: &str, seen: u64) -> Verdict {
        judge_none(self.test, self.origin.clone(), rule, what, seen)
    }

    /// Adds a figure that is stated and not judged.
    fn stated(&self, rule: &str, what: &str, measured: Option<f64>, unit: &str) -> Verdict {
        Verdict {
            test: Some(self.test),
            origin: self.origin.clone(),
            rule: rule.to_owned(),
            text: what.to_owned(),
            measured,
            limit: None,
            comparison: Comparison::AtMost,
            unit: unit.to_owned(),
            outcome: Outcome::Info,
        }
    }

    fn losses(&self, summary: &Summary, database: &DrillDatabase) -> Vec<Verdict> {
        if database.spec.dial == Dial::Lossless {
            let what = "change that a durable commit had acknowledged is lost";
            return vec![self.none("drill_lost_commits", what, summary.lost)];
        }
        let bound = database.spec.loss_bound_generations();
        let rule = Rule {
            name: "drill_lost_logs",
            text: format!(
                "activations lose no more than the dial allows: {}",
                counted(bound.into(), "log generation")
            ),
            comparison: Comparison::AtMost,
            unit: "logs",
        };
        let lost = f64::from(summary.lost_generations.1);
        let unannounced = summary.lost_unannounced();
        let what = "acknowledged change is lost by an activation that was to lose none";
        let within = "acknowledged changes that activations lost within the dial";
        let lost_within = Some((summary.lost - unannounced) as f64);
        vec![
            rule.judge(self.test, self.origin.clone(), Some(lost), bound.into()),
            self.none("drill_lost_commits", what, unannounced),
            self.stated("drill_lost_changes", within, lost_within, "changes"),
        ]
    }

    fn copies(&self, summary: &Summary) -> [Verdict; 6] {
        let refused = summary.refused.values().sum::<u64>() as f64;
        let what = "messages that a copy refused because another host said what cannot be";
        let given = "damaged pages of active copies that another copy replaced";
        [
            self.none("drill_two_active", "batch acknowledged by two active copies", summary.late),
            self.none("drill_copies_equal", "page on which copies differ", summary.compared.2),
            self.none("drill_copies_compared", "copy that could not be compared", summary.unread.into()),
            self.stated("drill_refused_messages", what, Some(refused), "messages"),
            self.stated("drill_repaired_pages", given, Some(summary.repaired as f64), "pages"),
            self.none("drill_errors", "error of users or copies", summary.failures.len() as u64),
        ]
    }

    /// Judges outages. `wanted`: whether users would have worked enough to notice that no copy serves them.
    fn service(&self, summary: &Summary, now_ms: u64, wanted: bool) -> [Verdict; 3] {
        let unserved = summary.acknowledged == 0 && wanted;
        let out = u64::from(summary.out_since.is_some() || summary.dismounted.is_some() || unserved);
        let until_now = summary.out_since.map(|(out_ms, _)| now_ms.saturating_sub(out_ms));
        let outage_s = summary.outage_ms.max(until_now).map_or(0.0, |ms| ms as f64 / 1e3);
        let what = "longest outage: from a failure, or from the last batch before an activation that no \
                    scheduled failure explains, to the first acknowledged batch";
        let longest = "longest time of the window without an acknowledged batch";
        [
            self.none("drill_dismounted", "database without service at the end, or all the time", out),
            self.stated("drill_outage", what, Some(outage_s), "s"),
            self.stated("drill_longest_wait", longest, Some(summary.wait_ms as f64 / 1e3), "s"),
        ]
    }

    /// States how the copies came back after the first failure.
    fn recovery(&self, summary: &Summary, hurt_ms: u64) -> Vec<Verdict> {
        let whole_s = summary.whole_ms.map(|whole_ms| (whole_ms - hurt_ms) as f64 / 1e3);
        let what = "from the first failure until all copies were there again; nothing: not before the end";
        let (copying, replaying) = summary.queues;
        let mut verdicts = vec![
            self.stated("drill_full_redundancy", what, whole_s, "s"),
            self.stated("drill_copy_queue", "longest copy queue", Some(copying.into()), "logs"),
            self.stated("drill_replay_queue", "longest replay queue", Some(replaying.into()), "logs"),
        ];
        for (phase, name) in summary.phases.iter().zip(["before", "during", "after"]) {
            let rule = format!("drill_batch_latency_{name}");
            let what = format!("mean latency of a batch, {name} the failures");
            verdicts.push(self.stated(&rule, &what, phase.batches.latency_ms(), "ms"));
        }
        verdicts
    }

    /// Judges the latencies from the first failure until all copies are back.
    fn latencies(&self, summary: &Summary, topology: &Topology) -> Vec<Verdict> {
        let (during, limits) = (&summary.phases[1], &topology.thresholds);
        let judged = [
            ("drill_read_latency", "page reads", &during.reads, limits.read_avg_ms),
            ("drill_log_write_latency", "log writes", &during.log_writes, limits.log_write_avg_ms),
        ];
        let judged = judged.into_iter().filter_map(|(name, what, stats, limit_ms)| {
            let (limit_ms, mean_ms) = (limit_ms?, stats.latency_ms()?);
            let text =
                format!("mean latency of {what} stays at or below {limit_ms} ms until all copies are back");
            let rule = Rule { name, text, comparison: Comparison::AtMost, unit: "ms" };
            Some(rule.judge(self.test, self.origin.clone(), Some(mean_ms), limit_ms))
        });
        judged.collect()
    }
}

/// Hosts whose copy of a database a failure removes.
fn hit_hosts<'a>(
    topology: &'a Topology,
    failure: &'a Failure,
    database: &'a DrillDatabase,
) -> impl Iterator<Item = usize> + 'a {
    database.places.iter().filter(|place| topology.hits(failure, place)).map(|place| place.host)
}

impl Summary {
    /// Number of acknowledged changes that are lost although no activation since was allowed to lose any. If the
    /// arbiter died before it recorded its decision, the copies get the benefit of the doubt.
    fn lost_unannounced(&self) -> u64 {
        let is_announced = |before: Epoch, epoch: Epoch| {
            let mut since = self.may_lose.iter().filter(|(at, _)| before < **at && **at < epoch);
            self.may_lose.get(&epoch) != Some(&false) || since.any(|(_, may_lose)| *may_lose)
        };
        let unannounced = self.losses.iter().filter(|(before, epoch, _)| !is_announced(*before, *epoch));
        unannounced.map(|(_, _, lost)| lost).sum()
    }

    /// Ends a wait of users: a batch was acknowledged, or no user waits any more.
    fn waited_until(&mut self, now_ms: u64) {
        if let Some(since_ms) = self.acknowledged_ms {
            self.wait_ms = self.wait_ms.max(now_ms.saturating_sub(since_ms));
        }
    }
}

/// Pages on which not all copies agree.
fn differing(places: &BTreeSet<u32>, copies: &[&BTreeMap<u32, u32>]) -> u64 {
    let Some((first, others)) = copies.split_first() else { return 0 };
    let differs = |place: &&u32| others.iter().any(|other| other.get(*place) != first.get(*place));
    places.iter().filter(differs).count() as u64
}

fn in_words(event: &Event, topology: &Topology) -> String {
    let name = |host: &HostId| topology.hosts.get(usize::from(host.0)).map_or("", |host| host.name.as_str());
    // Copies name a page by its place in the file, behind the header and its shadow.
    let pgno = |place: u32| place.saturating_sub(1);
    match event {
        Event::Diverged { fork, discarded_to } => {
            format!("log from {fork} to {discarded_to} exists on no other copy, and is discarded")
        }
        Event::SeedingBegun { why } => format!("this copy is made anew ({why:?})"),
        Event::Seeded => "this copy is seeded".to_owned(),
        Event::PageDamaged { page } => {
            format!("page {} failed its check; other copies are asked for it", pgno(*page))
        }
        Event::PageRepaired { page } => format!("page {} was replaced by that of another copy", pgno(*page)),
        Event::SteppedDown { why, .. } => format!("this copy is not active any more ({why:?})"),
        Event::PartnerChosen { partner } => format!("commits wait for the copy on {}", name(partner)),
        Event::ForeignPieceRefused { from } => {
            format!("this copy refused log that {} sent: it is of another database", name(from))
        }
        Event::LogRefused { from } => {
            format!("this copy refused log that {} sent: it does not continue the log here", name(from))
        }
        Event::SecondActiveRefused { from } => {
            format!("this copy refused log that {} sent: another copy is active in that epoch", name(from))
        }
        Event::PagesRefused { from } => {
            format!("this copy refused pages that {} sent: it did not ask for them", name(from))
        }
        Event::SeedRefused { from } => {
            format!("this copy refused a seeding by {}: it did not ask for one", name(from))
        }
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests;
