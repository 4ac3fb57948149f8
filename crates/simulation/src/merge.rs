//! The rows of several hosts, or of several storage domains, in one run.
//!
//! Samples, histograms, verdicts and events name their host and pass as they are. The row of a test is one for
//! all hosts ([`Test::of_all_hosts`]).

use std::cell::RefCell;
use std::collections::BTreeMap;

use campaign::progress::{Progress, Watcher};
use campaign::rule::unproved_if_failed;
use results::{Outcome, RecordError, Recorder, Row, Test, Verdict};

use crate::faults::fault_log::FaultLog;
use crate::parts::PartsWatch;

/// Merges the rows of the hosts into one run.
pub struct Merger<'a> {
    recorder: &'a mut dyn Recorder,
    hosts: usize,
    /// Latest row of each host, by test number.
    tests: BTreeMap<u32, Vec<Option<Test>>>,
    fault_log: &'a FaultLog,
    parts: Option<PartsWatch<'a>>,
    /// Verdicts that a scheduled fault or an unproved storage has changed, for example to `info`.
    relieved: Vec<Verdict>,
    /// Verdicts on the storage, one for each test.
    on_storage: Vec<Verdict>,
}

impl<'a> Merger<'a> {
    pub fn new(
        recorder: &'a mut dyn Recorder,
        hosts: usize,
        fault_log: &'a FaultLog,
        parts: Option<PartsWatch<'a>>,
    ) -> Merger<'a> {
        Merger {
            recorder,
            hosts,
            tests: BTreeMap::new(),
            fault_log,
            parts,
            relieved: Vec::new(),
            on_storage: Vec::new(),
        }
    }

    /// Verdicts on the storage, one for each test.
    pub fn on_storage(&self) -> &[Verdict] {
        &self.on_storage
    }

    fn is_unproved(&self, test: Option<u32>) -> bool {
        self.on_storage.iter().any(|verdict| verdict.test == test && verdict.outcome == Outcome::Unproved)
    }

    /// Replaces each verdict that was changed by its changed form; all others pass unchanged.
    pub fn in_the_light(&self, verdicts: Vec<Verdict>) -> impl Iterator<Item = Verdict> {
        verdicts.into_iter().map(|verdict| {
            let same = |other: &&Verdict| {
                (other.test, &other.origin, &other.rule) == (verdict.test, &verdict.origin, &verdict.rule)
            };
            self.relieved.iter().find(same).cloned().unwrap_or(verdict)
        })
    }

    /// Recorder for rows that belong to no campaign.
    pub fn recorder(&mut self) -> &mut dyn Recorder {
        self.recorder
    }

    /// Takes a row of a host, or of a storage domain in place of a host.
    pub fn record(&mut self, host: usize, row: Row) -> Result<(), RecordError> {
        let test = match row {
            Row::Test(test) => test,
            Row::Verdict(verdict) => {
                let judged = self.fault_log.in_the_light(verdict.clone());
                let judged = if self.is_unproved(verdict.test) { unproved_if_failed(judged) } else { judged };
                if judged != verdict {
                    self.relieved.push(judged.clone());
                }
                return self.recorder.record(judged.into());
            }
            other => {
                if let Row::Sample(sample) = &other {
                    self.fault_log.sample(sample);
                }
                return self.recorder.record(other);
            }
        };
        let hosts = self.hosts;
        let rows = self.tests.entry(test.ordinal).or_insert_with(|| vec![None; hosts]);
        rows[host] = Some(test);
        let present: Vec<&Test> = rows.iter().flatten().collect();
        let all = Test::of_all_hosts(&present);
        self.fault_log.test(&all);
        self.recorder.record(all.clone().into())?;
        if let Some(parts) = &mut self.parts
            && let Some(verdict) = parts.test(&all, self.recorder)?
        {
            self.on_storage.push(verdict.clone());
            self.recorder.record(verdict.into())?;
        }
        if let Some(ended_ms) = all.ended_ms.filter(|_| present.len() == hosts) {
            for (host, text) in self.fault_log.summaries(&all) {
                self.event(all.ordinal, &host, ended_ms, &text);
            }
        }
        Ok(())
    }
}

/// Recorder of one host.
pub struct HostRecorder<'a, 'b> {
    pub merger: &'a RefCell<Merger<'b>>,
    pub host: usize,
}

impl Recorder for HostRecorder<'_, '_> {
    fn record(&mut self, row: Row) -> Result<(), RecordError> {
        self.merger.borrow_mut().record(self.host, row)
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        self.merger.borrow_mut().recorder.flush()
    }
}

/// Watcher of one host. The progress of the first host stands for all, and each line names its host.
pub struct HostWatcher<'a, 'b> {
    pub watcher: &'a RefCell<&'b mut dyn Watcher>,
    pub prefix: Option<String>,
    pub leads: bool,
}

impl Watcher for HostWatcher<'_, '_> {
    fn progress(&mut self, progress: &Progress) {
        if self.leads {
            self.watcher.borrow_mut().progress(progress);
        }
    }

    fn line(&mut self, text: &str) {
        match &self.prefix {
            Some(host) => self.watcher.borrow_mut().line(&format!("{host}: {text}")),
            None => self.watcher.borrow_mut().line(text),
        }
    }

    fn interrupted(&self) -> bool {
        self.watcher.borrow().interrupted()
    }
}
