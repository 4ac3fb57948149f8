//! `proofload run --fleet`: the controller of a run, what it shows, and the evidence of all hosts as one.
//!
//! Invariant: `run.db` of the run is made whole from what the hosts have sent, under another name first, so it can be made
//! again when more has come.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use campaign::drill::{ARBITER_NAME, Entry, JournalHead, Said};
use copies::{ArbiterEvent, DatabaseId};
use evidence::{Expected, HostRuns, SigningKey};
use fleet::controller::{ASKED, Controller, ControllerError, Predecessor, PredecessorEnd, Watcher};
use fleet::drill::Journal;
use fleet::message::{Ended, WhenAlone};
use fleet::roster::{Fate, Memory, Note, Plan, Roster, WhenLost};
use fleet::server::Server;
use results::{Comparison, Ending, Event, Host, Origin, Outcome, Row, Run, Severity, Verdict, WorldKind};
use solution::{Solution, TestKind, TestSpec};

use super::console::lines;
use super::drill::{FleetTests, drill_of, kinds, number_of};
use super::story::{self, Story};
use super::{read_credentials, this_program};
use crate::failure::{Failure, Status};
use crate::output::tell;
use crate::run_cmd::{Require, new_run_folder, unix_ms, utc_stamp};
use crate::sign::SignArguments;
use crate::signals::count_interrupts;

/// Lines about the hosts come at most this often where there is no terminal.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// A run on the hosts of a fleet, as asked for.
pub struct FleetRun<'a> {
    /// What is run.
    pub solution: &'a Solution,
    /// Folder of the credentials.
    pub fleet: &'a Path,
    /// Server to start for the bus.
    pub nats_server: Option<&'a str>,
    /// Folder of a run to be taken up.
    pub resume: Option<&'a Path>,
    /// Kinds of tests; all if empty.
    pub tests: &'a [TestKind],
    /// Folder of the run folders.
    pub out: &'a Path,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Say what would be done only.
    pub dry_run: bool,
    /// Allow databases on a memory file system.
    pub allow_memory: bool,
    /// Agents may be another build of this version.
    pub any_build: bool,
    /// What the run has to prove for exit status 0.
    pub require: Require,
    /// Key that signs the merged evidence.
    pub sign: &'a SignArguments,
}

fn could_not(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::could_not_run(format!("cannot {what} {}", path.display())).because(error)
}

fn stopped(error: ControllerError) -> Failure {
    let help = match &error {
        ControllerError::NotTheController(_) => "name the folder that `proofload fleet init` made",
        ControllerError::Folder { .. } => "name the folder of a run that `proofload run --fleet` began",
        ControllerError::File { .. } => "check the permissions and the space on that disk",
        ControllerError::Bus(_) => {
            "start nats-server with the configuration in the folder of credentials, or say --nats-server"
        }
        ControllerError::Server(_) => "a server may run there already: then leave --nats-server out",
        ControllerError::Superseded => "the other one goes on; only one of them is needed",
    };
    Failure::could_not_run(error.to_string()).help(help)
}

impl FleetRun<'_> {
    /// Conducts the run to its end, and reports.
    pub fn conduct(&self) -> Result<Status, Failure> {
        let key = self.sign.key()?;
        let hosts: Vec<String> =
            self.solution.hosts_under_test().iter().map(|host| host.name.clone()).collect();
        let credentials = read_credentials(&self.fleet.join("controller.toml"))?;
        let stranger = |host: &&String| {
            let file = format!("agents/{}.toml", fleet::bus::token(host));
            !self.fleet.join(file).is_file()
        };
        if let Some(host) = hosts.iter().find(stranger) {
            let message = format!("{} has no credentials for host {host}", self.fleet.display());
            return Err(Failure::wrong_input(message)
                .help("make credentials for every host under test with `proofload fleet init`"));
        }
        let folder = match self.resume {
            Some(folder) => folder.to_owned(),
            None => {
                self.announce(&hosts)?;
                if self.dry_run {
                    say!("nothing was written (--dry-run)");
                    return Ok(Status::Pass);
                }
                new_run_folder(self.out, &self.solution.name)?
            }
        };
        let mut controller = match self.resume {
            Some(_) => Controller::resume(credentials, &folder),
            None => Controller::new(credentials, &folder, self.plan(&folder, hosts)?),
        }
        .map_err(stopped)?;
        if controller.memory().plan.solution != self.solution.text() {
            let message = format!("{} was begun with another solution file", folder.display());
            return Err(Failure::wrong_input(message).help("resume it with the file that it was begun with"));
        }
        let planned = drill_of(self.solution.text(), &controller.memory().plan.tests)?;
        if let Some(planned) = &planned {
            controller = controller.with_arbiter(fleet::drill::arbitration(&planned.site));
        }
        let run = &controller.memory().plan.run;
        let head = planned.map(|_| JournalHead::new(run, ARBITER_NAME, self.solution.text()));
        let mut desk = Desk::new(&folder, head)?;
        if let Some(before) = controller.predecessor() {
            desk.note(&Note { host: None, text: takes_up(&before, controller.memory()) });
        }
        let started = Instant::now();
        let conducted = fleet::run(async {
            if let Some(program) = self.nats_server {
                let server = Server::start(program, self.fleet).map_err(ControllerError::Server)?;
                controller = controller.with_server(server);
            }
            let result = controller.conduct(&mut desk).await;
            result.map(|()| controller.memory().clone())
        });
        desk.clear();
        if matches!(conducted, Ok(Ok(_))) {
            desk.end_journal();
        }
        let memory = conducted
            .map_err(|error| Failure::could_not_run("the controller cannot start").because(error))?
            .map_err(stopped)?;
        self.report(&folder, &memory, started.elapsed(), key)
    }

    /// What will be written where.
    fn announce(&self, hosts: &[String]) -> Result<(), Failure> {
        let chosen = FleetTests::chosen(self.solution, self.tests)?;
        say!("{}: will write on {} hosts", self.solution.name, hosts.len());
        for host in hosts {
            let deployment = match &chosen.drill {
                Some(drill) => drill.site.holdings(number_of(drill, host)?),
                None => self.solution.deployment(Some(host))?,
            };
            let dirs: Vec<&str> = deployment.volumes.iter().map(|volume| &*volume.dir).collect();
            say!("  {host}: below {}", dirs.join(", "));
        }
        Ok(())
    }

    fn plan(&self, folder: &Path, hosts: Vec<String>) -> Result<Plan, Failure> {
        let policy = self.solution.fleet;
        let finish = solution::WhenLost::Finish;
        let program = this_program()?;
        Ok(Plan {
            run: folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            tool_version: program.version,
            build: (!self.any_build).then_some(program.build),
            hosts,
            solution: self.solution.text().to_owned(),
            tests: self.tests.iter().map(|kind| kind.name().to_owned()).collect(),
            seed: self.seed,
            allow_memory: self.allow_memory,
            when_lost: if policy.when_host_lost == finish { WhenLost::Finish } else { WhenLost::Stop },
            when_alone: if policy.when_controller_lost == finish {
                WhenAlone::Finish
            } else {
                WhenAlone::Stop
            },
            alone_after_ms: u64::from(policy.controller_lost_after_s) * 1000,
            assemble_limit_ms: u64::from(policy.assemble_limit_s) * 1000,
        })
    }

    /// Tests that every host was to carry out.
    fn tests_planned(&self, memory: &Memory) -> Result<Vec<TestSpec>, Failure> {
        Ok(FleetTests::chosen(self.solution, &kinds(&memory.plan.tests)?)?.all())
    }

    /// Makes one run of what the hosts have sent, and says how it came out.
    fn report(
        &self,
        folder: &Path,
        memory: &Memory,
        elapsed: Duration,
        key: Option<SigningKey>,
    ) -> Result<Status, Failure> {
        let planned = self.tests_planned(memory)?;
        let verdicts = self.merge(folder, memory, &planned, key)?;
        let judged = crate::report_cmd::render(folder)?.verdict;
        let why = match (ending(memory), &memory.stop) {
            (Ending::Completed, _) => None,
            (Ending::Interrupted, _) => Some("it was interrupted; what was measured is kept".to_owned()),
            (Ending::Aborted, why) => {
                Some(why.clone().unwrap_or_else(|| "no host came to the end".to_owned()))
            }
        };
        let titles = campaign::titles(&planned);
        tell(&crate::verdict_table::of_verdicts(&verdicts, &titles, &judged, why, elapsed))?;
        let late = memory.fates.values().filter(|fate| !is_kept(fate)).count();
        if late > 0 {
            say!(
                "{late} hosts have not sent their evidence; when they are back: proofload run SOLUTION.toml --fleet {} --resume {}",
                self.fleet.display(),
                folder.display()
            );
        }
        say!(
            "evidence: {0}/report.html, {0}/report.json, {0}/run.db; of each host: {0}/hosts",
            folder.display()
        );
        Ok(match ending(memory) {
            Ending::Interrupted => Status::Interrupted,
            Ending::Completed | Ending::Aborted => self.require.status(judged.grade),
        })
    }

    /// The evidence that the hosts have sent, and why that of a host is refused.
    fn evidence(&self, folder: &Path, memory: &Memory, planned: &[TestSpec]) -> Evidence {
        let tests: Vec<&'static str> = planned.iter().map(|test| test.kind.name()).collect();
        let mut evidence = Evidence::default();
        for host in &memory.plan.hosts {
            let db = Controller::evidence_of(folder, host).join("run.db");
            let expected = Expected {
                run: &memory.plan.run,
                host,
                solution_text: self.solution.text(),
                tool_version: &memory.plan.tool_version,
                seed: memory.plan.seed,
                tests: &tests,
            };
            match expected.check(&db) {
                _ if !db.is_file() => {}
                Ok(()) => {
                    evidence.dbs.push(db);
                    evidence.hosts.push(host.clone());
                }
                Err(why) => drop(evidence.refused.insert(host.clone(), why)),
            }
        }
        evidence
    }

    /// Makes `run.db` of what the hosts have sent, and of what the controller knows of the run; gives all verdicts.
    fn merge(
        &self,
        folder: &Path,
        memory: &Memory,
        planned: &[TestSpec],
        key: Option<SigningKey>,
    ) -> Result<Vec<Verdict>, Failure> {
        let Plan { run, hosts, seed, .. } = &memory.plan;
        let Evidence { dbs, hosts: with_evidence, refused } = self.evidence(folder, memory, planned);
        if dbs.is_empty() {
            return Err(nothing_ran(memory, folder));
        }
        let merging = |error: &dyn std::fmt::Display| could_not("merge the evidence in", folder, error);
        let runs = HostRuns::open(&dbs).map_err(|error| merging(&error))?;
        let started_unix_ms = runs.started_unix_ms().unwrap_or(0);
        let mut rows: Vec<Row> = Vec::new();
        let mut fleet_verdicts = runs.common_windows();
        for host in hosts {
            let part = with_evidence.iter().position(|with| with == host);
            if part.is_none() {
                let description = "no evidence of this host".to_owned();
                rows.push(Host { name: host.clone(), description }.into());
            }
            let carried_out = part.map_or(0, |part| runs.tests_ended(part));
            let fate = describe(&memory.fates[host], refused.get(host).map(String::as_str));
            fleet_verdicts.push(took_part(host, &fate, carried_out, planned.len()));
        }
        let entries = story::read(folder).map_err(|error| could_not("read fleet.log in", folder, &error))?;
        rows.extend(entries.into_iter().map(|entry| event(entry, started_unix_ms).into()));
        rows.extend(fleet_verdicts.iter().cloned().map(Row::from));
        if let Some(planned) = drill_of(&memory.plan.solution, &memory.plan.tests)? {
            let of_host = |host: &str| Controller::evidence_of(folder, host);
            let judged = fleet::drill::judge(&planned, run, &memory.plan.solution, folder, of_host);
            rows.extend(
                judged.rows(&planned, |unix_ns| (unix_ns / 1_000_000).saturating_sub(started_unix_ms)),
            );
            fleet_verdicts.splice(0..0, judged.verdicts);
        }
        let row = Run {
            id: run.clone(),
            solution: self.solution.name.clone(),
            solution_text: self.solution.text().to_owned(),
            started_unix_ms,
            tool_version: memory.plan.tool_version.clone(),
            world: WorldKind::Real,
            world_detail: String::new(),
            seed: *seed,
            ended_ms: None,
            ending: Some(ending(memory)),
        };
        let verdicts =
            write_anew(folder, |new| runs.write(row, rows, new, key).map_err(|error| merging(&error)))?;
        Ok(verdicts.into_iter().chain(fleet_verdicts).collect())
    }
}

/// What the hosts have sent.
#[derive(Default)]
struct Evidence {
    dbs: Vec<PathBuf>,
    /// The hosts whose they are.
    hosts: Vec<String>,
    /// Why that of a host is not merged.
    refused: BTreeMap<String, String>,
}

/// Replaces `run.db` in a folder by what `write` makes, whole.
fn write_anew<T>(folder: &Path, write: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<T, Failure> {
    let new = folder.join("run.db.new");
    // What an earlier controller began and did not end.
    for left in [new.clone(), folder.join("run.db.new-wal"), folder.join("run.db.new-shm")] {
        if left.exists() {
            std::fs::remove_file(&left).map_err(|error| could_not("replace", &left, &error))?;
        }
    }
    let written = write(&new)?;
    std::fs::rename(&new, folder.join("run.db")).map_err(|error| could_not("replace", &new, &error))?;
    Ok(written)
}

/// That a controller takes up the run of another one: how that one ended, and what it had collected.
fn takes_up(before: &Predecessor, memory: &Memory) -> String {
    let epoch = before.epoch;
    let end = match before.end {
        PredecessorEnd::Ended => format!("controller {epoch} ended in good order"),
        PredecessorEnd::Died(Some(last_ms)) => {
            format!("controller {epoch} died, its last sign of life is of {} UTC", utc_stamp(last_ms / 1000))
        }
        PredecessorEnd::Died(None) => format!("controller {epoch} died, it is not known when"),
    };
    let named = |kept: bool| {
        let with = memory.fates.iter().filter(|(_, fate)| is_kept(fate) == kept);
        let hosts: Vec<&str> = with.map(|(host, _)| host.as_str()).collect();
        if hosts.is_empty() { "no host".to_owned() } else { hosts.join(", ") }
    };
    format!(
        "controller {} takes up the run; {end}. Evidence collected before: {}; still to come: {}",
        memory.epoch,
        named(true),
        named(false)
    )
}

/// Why there is nothing to report.
fn nothing_ran(memory: &Memory, folder: &Path) -> Failure {
    let fates = memory.fates.iter().filter_map(|(host, fate)| match fate {
        Fate::Refused { why } => Some(format!("{host}: {why}")),
        Fate::Ended { why: Some(why), .. } => Some(format!("{host}: {why}")),
        _ => None,
    });
    let causes: Vec<String> = fates.chain(memory.stop.clone()).collect();
    Failure::could_not_run("no host has carried out a test")
        .because(causes.join("; "))
        .help(format!("what happened is in {}", folder.join("fleet.log").display()))
}

fn is_kept(fate: &Fate) -> bool {
    matches!(fate, Fate::Refused { .. } | Fate::Ended { evidence_kept: true, .. })
}

/// How it went with a host, in words.
fn describe(fate: &Fate, unread: Option<&str>) -> String {
    let text = match fate {
        Fate::Open => "lost: it has not been heard of again".to_owned(),
        Fate::Refused { why } => format!("it could not take part: {why}"),
        Fate::Ended { how, why, evidence_kept } => {
            let how = match how {
                Ended::Passed | Ended::Failed => "it came to the end",
                Ended::Interrupted => "it was stopped in good order",
                Ended::Aborted => "it could not go on",
                Ended::AgentDied => "its agent died",
            };
            let why = why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
            let kept = if *evidence_kept { "" } else { "; its evidence has not arrived" };
            format!("{how}{why}{kept}")
        }
    };
    unread.map_or(text.clone(), |error| format!("{text}; its evidence is refused: {error}"))
}

fn took_part(host: &str, fate: &str, carried_out: usize, planned: usize) -> Verdict {
    let (measured, limit) = (carried_out as f64, planned as f64);
    Verdict {
        test: None,
        origin: Origin::host(host),
        rule: "host_took_part".into(),
        text: format!("the host carried out every test of the programme: {fate}"),
        measured: Some(measured),
        limit: Some(limit),
        comparison: Comparison::AtLeast,
        unit: "tests".into(),
        // What a host did not do, its storage is not to blame for.
        outcome: if Comparison::AtLeast.holds(measured, limit) { Outcome::Pass } else { Outcome::Unproved },
    }
}

fn event(entry: story::Entry, started_unix_ms: u64) -> Event {
    let host = entry.host.unwrap_or_else(|| "controller".to_owned());
    let t_ms = entry.unix_ms.saturating_sub(started_unix_ms);
    let text = format!("controller: {}", entry.text);
    Event { t_ms, severity: Severity::Info, test: None, host, text }
}

/// A run that nobody stopped is carried out as far as some host came to its end; the verdicts tell which did not.
fn ending(memory: &Memory) -> Ending {
    let completed = |fate: &Fate| matches!(fate, Fate::Ended { how: Ended::Passed | Ended::Failed, .. });
    match &memory.stop {
        Some(why) if why == ASKED => Ending::Interrupted,
        None if memory.fates.values().any(completed) => Ending::Completed,
        _ => Ending::Aborted,
    }
}

/// What the controller shows and writes down while the run goes on.
struct Desk {
    story: Story,
    /// What the arbiter decides.
    journal: Option<Journal>,
    /// The calendar when this controller started. From then on time passes by the monotonic clock, so a calendar that is set
    /// moves no decision.
    started: (Instant, u64),
    interrupts: Arc<AtomicU32>,
    is_terminal: bool,
    /// Lines on the terminal that the next look rewrites.
    shown: usize,
    last_plain: Option<Instant>,
}

impl Desk {
    fn new(folder: &Path, journal: Option<JournalHead>) -> Result<Desk, Failure> {
        let story = Story::open(folder).map_err(|error| could_not("write fleet.log in", folder, &error))?;
        let journal = journal.and_then(|head| {
            let opened = Journal::open(folder, &head);
            // The evidence of a run whose drill is over is collected all the same; the judge says what is wrong with a journal.
            opened.inspect_err(|error| say!("the journal of the arbiter is not continued: {error}")).ok()
        });
        let started = (Instant::now(), unix_ms() * 1_000_000);
        let interrupts = Arc::new(AtomicU32::new(0));
        count_interrupts(&interrupts)?;
        let is_terminal = std::io::stderr().is_terminal();
        Ok(Desk { story, journal, started, interrupts, is_terminal, shown: 0, last_plain: None })
    }

    fn now_ns(&self) -> u64 {
        self.started.1 + self.started.0.elapsed().as_nanos() as u64
    }

    /// The arbiter decides nothing any more.
    fn end_journal(&mut self) {
        let now_ns = self.now_ns();
        if let Some(Err(error)) = self.journal.take().map(|journal| journal.end(now_ns)) {
            say!("the journal of the arbiter cannot be ended: {error}");
        }
    }

    /// Takes back the lines that would be rewritten.
    fn clear(&mut self) {
        let shown = std::mem::take(&mut self.shown);
        if shown > 0 {
            show!("\x1b[{shown}A\x1b[J");
        }
    }
}

impl Watcher for Desk {
    fn note(&mut self, note: &Note) {
        self.clear();
        let host = note.host.as_ref().map_or(String::new(), |host| format!("{host}: "));
        say!("{host}{}", note.text);
        let entry = story::Entry { unix_ms: unix_ms(), host: note.host.clone(), text: note.text.clone() };
        // The run is worth more than its log; what cannot be written was at least shown.
        if let Err(error) = self.story.add(&entry) {
            say!("fleet.log cannot be written: {error}");
        }
    }

    fn decided(&mut self, database: DatabaseId, event: ArbiterEvent) {
        let said = Said::Decided { database: database.0.into(), event };
        let unix_ns = self.now_ns();
        let Some(journal) = &mut self.journal else { return };
        if let Err(error) = journal.add(&Entry { unix_ns, error_ns: 0, said }) {
            self.clear();
            say!("the journal of the arbiter cannot be written: {error}");
        }
    }

    fn look(&mut self, roster: &Roster) {
        if !self.is_terminal {
            if self.last_plain.is_none_or(|last| last.elapsed() >= PLAIN_EVERY) {
                self.last_plain = Some(Instant::now());
                lines(roster).iter().for_each(|line| say!("{line}"));
            }
            return;
        }
        self.clear();
        let lines = lines(roster);
        self.shown = lines.len();
        // No wrapping: a wrapped line would count as two.
        show!("\x1b[?7l{}\n\x1b[?7h", lines.join("\n"));
    }

    fn interrupts(&self) -> u32 {
        self.interrupts.load(Ordering::SeqCst)
    }
}
