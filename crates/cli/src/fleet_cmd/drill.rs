//! A drill on the hosts of a fleet: what is planned, the journals, and the judgement of all hosts together.
//!
//! Each agent performs the failures of its own host ([`super::part`]) and keeps a journal (`drill.jsonl`). The controller has the
//! arbiter and keeps a journal of what it decides; at the end it makes one history of all journals
//! ([`campaign::drill::review`]).

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use campaign::drill::{
    ARBITER_NAME, Entry, JournalEnd, JournalHead, ReadJournal, Said, Site, read_journal, review,
};
use copies::HostId;
use fleet::arbiter::Arbitration;
use results::{Event, Row, Severity, Verdict};
use solution::{DrillSpec, Solution, TestKind, TestSpec};

use crate::failure::Failure;
use crate::run_cmd::{test_kind, tests_beside_drills};

/// Name of the journals.
const JOURNAL: &str = "drill.jsonl";

/// The drill of a run on many hosts.
pub struct PlannedDrill {
    /// The test.
    pub test: TestSpec,
    /// What fails.
    pub drill: DrillSpec,
    /// Where it takes place.
    pub site: Rc<Site>,
    /// Its number among the tests, from 1.
    pub ordinal: u32,
    /// The solution file.
    solution_text: String,
}

/// What a run on many hosts carries out.
pub struct FleetTests {
    /// The tests of each host.
    pub tests: Vec<TestSpec>,
    /// What all hosts do together at the end.
    pub drill: Option<PlannedDrill>,
}

impl FleetTests {
    /// The tests of these kinds, or all.
    pub fn chosen(solution: &Solution, kinds: &[TestKind]) -> Result<FleetTests, Failure> {
        let hosts = solution.hosts_under_test();
        let deployment = solution.deployment(hosts.first().map(|host| host.name.as_str()))?;
        let is_wanted = kinds.is_empty() || kinds.contains(&TestKind::Drill);
        let mut drills: Vec<&TestSpec> =
            deployment.tests.iter().filter(|test| test.drill.is_some()).collect();
        drills.retain(|_| is_wanted);
        let tests = tests_beside_drills(!drills.is_empty(), &deployment, kinds)?;
        let [test] = drills[..] else {
            if drills.is_empty() {
                return Ok(FleetTests { tests, drill: None });
            }
            return Err(Failure::wrong_input(format!("the solution file has {} drills", drills.len()))
                .help("real hosts perform one in a run: leave one in, or say --tests without drill"));
        };
        let Some(drill) = test.drill.clone() else { return Ok(FleetTests { tests, drill: None }) };
        let site = Rc::new(Site::of(solution, test, &drill)?);
        for host in &site.hosts {
            if !hosts.iter().any(|under_test| under_test.name == host.name) {
                let message = format!("host {} has copies and is not under test", host.name);
                return Err(Failure::wrong_input(message)
                    .help("a drill takes place on every host: leave [under_test] hosts out"));
            }
            if host.copy_address.is_none() {
                let message = format!("nobody can reach the copies of host {}", host.name);
                return Err(
                    Failure::wrong_input(message).help("add copy_address = \"ADDRESS:PORT\" to its [[host]]")
                );
            }
        }
        let ordinal = tests.len() as u32 + 1;
        let solution_text = solution.text().to_owned();
        let planned = PlannedDrill { test: test.clone(), drill, site, ordinal, solution_text };
        Ok(FleetTests { tests, drill: Some(planned) })
    }

    /// All tests in their order.
    pub fn all(&self) -> Vec<TestSpec> {
        self.tests.iter().chain(self.drill.as_ref().map(|drill| &drill.test)).cloned().collect()
    }
}

/// The kinds of tests that an assignment or a plan names.
pub fn kinds(names: &[String]) -> Result<Vec<TestKind>, Failure> {
    names.iter().map(|kind| test_kind(kind).map_err(Failure::wrong_input)).collect()
}

impl PlannedDrill {
    /// The drill of a solution file.
    pub fn of_text(solution: &str, tests: &[String]) -> Result<Option<PlannedDrill>, Failure> {
        let solution = Solution::parse(solution, "the solution file of the run")?;
        Ok(FleetTests::chosen(&solution, &kinds(tests)?)?.drill)
    }

    /// Where the copies of each host are reached.
    pub fn addresses(&self) -> BTreeMap<HostId, String> {
        let hosts = (0..).zip(&self.site.hosts);
        hosts.filter_map(|(number, host)| Some((HostId(number), host.copy_address.clone()?))).collect()
    }

    /// Number of a host.
    pub fn host(&self, name: &str) -> Result<usize, Failure> {
        let number = self.site.hosts.iter().position(|host| host.name == name);
        number.ok_or_else(|| Failure::wrong_input(format!("host {name} has no part in the drill")))
    }

    /// The first line of the journal that `host` keeps of this drill.
    pub fn journal_head(&self, run: &str, host: &str) -> JournalHead {
        JournalHead::new(run, host, &self.solution_text)
    }

    /// What the arbiter decides about.
    pub fn arbitration(&self) -> Arbitration {
        let databases = self.site.databases.iter().map(|database| (*database.spec).clone());
        Arbitration { databases: databases.collect(), hosts: self.site.names() }
    }

    /// Judges the drill of `run` in `folder`, by the journals of its hosts in the folders that `of_host` names. Rows count from
    /// `started_unix_ms`.
    pub fn judge(
        &self,
        folder: &Path,
        run: &str,
        of_host: impl Fn(&str) -> PathBuf,
        started_unix_ms: u64,
    ) -> (Vec<Verdict>, Vec<Row>) {
        let of_site = self.site.hosts.iter().map(|host| &host.name);
        let hosts = of_site.map(|host| journal_in(&of_host(host), &self.journal_head(run, host))).collect();
        let decided = journal_in(folder, &self.journal_head(run, ARBITER_NAME));
        let reviewed = review(&self.site, &self.test, &self.drill, self.ordinal, hosts, decided);
        let mut rows: Vec<Row> = reviewed.verdicts.iter().cloned().map(Row::from).collect();
        for (at_ns, host, text) in reviewed.notes {
            let t_ms = (at_ns / 1_000_000).saturating_sub(started_unix_ms);
            let host = self.site.hosts[host].name.clone();
            rows.push(Event { t_ms, severity: Severity::Info, test: Some(self.ordinal), host, text }.into());
        }
        (reviewed.verdicts, rows)
    }
}

/// A journal being written.
pub struct Journal {
    file: File,
    end: JournalEnd,
}

impl Journal {
    /// Begins the journal in `folder`, or goes on with the one that the author began before its program was started again.
    ///
    /// # Errors
    /// The file cannot be written, or it holds a journal that cannot be continued, such as one that is ended.
    pub fn open(folder: &Path, head: &JournalHead) -> std::io::Result<Journal> {
        let path = folder.join(JOURNAL);
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        let written = std::fs::read(&path)?;
        let whole = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let end = if whole == 0 {
            let (end, line) = JournalEnd::begin(head);
            file.set_len(0)?;
            file.write_all(&line)?;
            end
        } else {
            let end = JournalEnd::of(&written, head).map_err(std::io::Error::other)?;
            file.set_len(whole as u64)?;
            end
        };
        Ok(Journal { file, end })
    }

    /// Adds an entry; it is with the operating system when this returns.
    pub fn add(&mut self, entry: &Entry) -> std::io::Result<()> {
        self.file.write_all(&self.end.entry(entry))
    }

    /// Ends the journal: it is whole, and durable.
    pub fn end(mut self, unix_ns: u64) -> std::io::Result<()> {
        let entries = self.end.entries();
        self.add(&Entry { unix_ns, error_ns: 0, said: Said::Ended { entries } })?;
        self.file.sync_all()
    }
}

/// The journal in a folder that should begin with `head`.
fn journal_in(folder: &Path, head: &JournalHead) -> ReadJournal {
    match std::fs::read(folder.join(JOURNAL)) {
        Ok(bytes) => read_journal(&bytes, head),
        Err(_) => ReadJournal::missing(),
    }
}
