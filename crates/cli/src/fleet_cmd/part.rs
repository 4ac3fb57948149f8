//! The part of one host in a drill: the process with its copies, the failures of the host, and its journal.
//!
//! Failures count from the moment at which the window opens, on which all hosts agree beforehand: no order has to arrive while
//! hosts fail.
//!
//! Invariants
//! 1. Nothing but the process that holds the copies ([`super::work`]) is ever killed or cut off.
//! 2. A process that ends without being told to ends the host's part of the run as one that could not go on.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::BufReader;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use campaign::convoy::Convoy;
use campaign::drill::{DRAIN_LIMIT_S, Entry, MOUNT_LIMIT_S, Observed, Said, WARMUP_S, copy_rows, test_row};
use campaign::{CampaignError, CampaignOutcome};
use copies::{CopySpec, DatabaseId, FromArbiter};
use fleet::arbiter::{ArbiterLink, Speaker};
use fleet::clock::{Dates, Reading};
use fleet::duty::Doing;
use fleet::gate::Gate;
use fleet::message::Assignment;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use results::{Event, Recorder, Sample, Severity, Test};
use solution::DrillEventKind;
use world::channel::{UnboundedReceiver, UnboundedSender, unbounded};
use world::{Time, World};

use super::drill::{Journal, PlannedDrill};
use super::work::{FromWork, Order, ToWork, hear, monotonic_ns, say, unix_ns};

/// How often it is looked whether something is due.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A calendar that moves by less against the monotonic clock between two looks is being slewed, not set.
const CALENDAR_STEP_MIN_MS: i64 = 500;
/// How long hosts may take to hold their pages against each other.
const COMPARE_LIMIT: Duration = Duration::from_secs(120);
/// Bytes of databases that are seeded per second at least.
const SEEDING_BYTES_PER_S: u64 = 10 << 20;

/// What comes to the agent during a drill.
enum News {
    /// From the process of this start.
    Work(u32, FromWork),
    /// The process of this start has ended.
    Gone(u32),
    /// From the arbiter.
    Arbiter(DatabaseId, FromArbiter),
}

struct WorkProcess {
    boot: u32,
    child: Child,
    orders: ChildStdin,
}

impl Drop for WorkProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A host's part of a drill.
pub struct HostPart<'a> {
    /// The drill.
    pub planned: &'a PlannedDrill,
    /// What the run is.
    pub assignment: &'a Assignment,
    /// Its title.
    pub name: String,
    /// The credentials of the host.
    pub credentials: PathBuf,
    /// Whether I/O is unbuffered.
    pub direct: bool,
    /// Where the evidence goes.
    pub folder: &'a Path,
    /// Where hosts wait for each other.
    pub gate: &'a Gate,
    /// The way to the arbiter.
    pub link: ArbiterLink,
}

struct Running<'a> {
    planned: &'a PlannedDrill,
    assignment: &'a Assignment,
    credentials: PathBuf,
    direct: bool,
    gate: &'a Gate,
    recorder: &'a mut dyn Recorder,
    world: World,
    host: usize,
    speaker: Speaker,
    journal: Option<Journal>,
    dates: Dates,
    /// How the calendar of this host last stood to its monotonic clock.
    calendar_ns: Option<i64>,
    news: UnboundedReceiver<News>,
    tell: UnboundedSender<News>,
    process: Option<WorkProcess>,
    /// Starts of this host's copies so far.
    boots: u32,
    /// When the window opened.
    opened: Option<Time>,
    /// Failures of this host: seconds after that, its number, whether it begins.
    due: Vec<(f64, usize, bool)>,
    /// Hosts that have left the drill.
    left: Vec<String>,
    is_closed: bool,
    /// What the host does, for people.
    phase: String,
    acknowledged: BTreeSet<usize>,
    is_full: bool,
    is_settled: bool,
    is_compared: bool,
}

type Done<T = ()> = Result<T, CampaignError>;

impl HostPart<'_> {
    /// Carries it out in step with the other hosts.
    pub async fn carry_out(
        self,
        world: World,
        convoy: &dyn Convoy,
        recorder: &mut dyn Recorder,
    ) -> CampaignOutcome {
        // It is judged where the journals of all hosts are.
        let error = self.perform(world, convoy, recorder).await.err();
        CampaignOutcome { verdicts: Vec::new(), error }
    }

    async fn perform(self, world: World, convoy: &dyn Convoy, recorder: &mut dyn Recorder) -> Done {
        let HostPart { planned, assignment, name, credentials, direct, folder, gate, mut link } = self;
        let host = planned.host(&assignment.host).map_err(|failure| CampaignError::Drill(failure.line()))?;
        let head = planned.journal_head(&assignment.run, &assignment.host);
        let journal = Journal::open(folder, &head).map_err(|error| not_kept(&error))?;
        let (tell, news) = unbounded();
        let (speaker, from_arbiter) = (link.speaker(), tell.clone());
        drop(world.spawn(async move {
            while let Some((database, message)) = link.hear().await {
                if from_arbiter.unbounded_send(News::Arbiter(database, message)).is_err() {
                    return;
                }
            }
        }));
        let mut due = Vec::new();
        for (number, failure) in planned.drill.failures.iter().enumerate() {
            if failure.hosts.contains(&assignment.host) {
                due.push((failure.at_s, number, true));
                due.extend(failure.back_at_s.map(|back_s| (back_s, number, false)));
            }
        }
        due.sort_by(|(a, _, a_begins), (b, _, b_begins)| b.total_cmp(a).then(b_begins.cmp(a_begins)));
        let begins_ms = ms(&world);
        let row = test_row(&planned.site, &planned.test, &planned.drill, planned.ordinal, &name, begins_ms);
        let mut running = Running {
            planned,
            assignment,
            credentials,
            direct,
            gate,
            recorder,
            world,
            host,
            speaker,
            journal: Some(journal),
            dates: Dates::default(),
            calendar_ns: None,
            news,
            tell,
            process: None,
            boots: 0,
            opened: None,
            due,
            left: Vec::new(),
            is_closed: false,
            phase: String::new(),
            acknowledged: BTreeSet::new(),
            is_full: false,
            is_settled: false,
            is_compared: false,
        };
        running.play(row, convoy).await
    }
}

fn ms(world: &World) -> u64 {
    world.now().ns / 1_000_000
}

fn not_kept(error: &dyn std::fmt::Display) -> CampaignError {
    CampaignError::Drill(format!("the journal of the drill cannot be kept: {error}"))
}

impl Running<'_> {
    async fn play(&mut self, mut row: Test, convoy: &dyn Convoy) -> Done {
        copy_rows(&self.planned.site, self.host).into_iter().try_for_each(|row| self.recorder.record(row))?;
        self.recorder.record(row.clone().into())?;
        self.doing("makes copies");
        self.arrive(convoy).await?;
        self.start(true)?;
        let bytes: u64 = (0..self.planned.site.databases.len())
            .filter(|database| self.planned.site.place(*database, self.host).is_some())
            .map(|database| self.planned.site.databases[database].bytes())
            .sum();
        let limit_s = u64::from(MOUNT_LIMIT_S) + bytes / SEEDING_BYTES_PER_S;
        if !self.until(Duration::from_secs(limit_s), |running| running.is_full).await? {
            let message = format!("the copies of this host were not there after {limit_s} s");
            return Err(CampaignError::Drill(message));
        }
        self.arrive(convoy).await?;
        self.doing("users begin");
        let warmup_s = self.planned.test.warmup_limit_s.min(WARMUP_S);
        self.until(Duration::from_secs_f64(warmup_s), |_| false).await?;
        self.arrive(convoy).await?;

        if let Some(now) = self.gate.controller_now() {
            self.dates.begin(monotonic_ns(), now);
        }
        self.note(None, Said::WindowOpens)?;
        self.opened = Some(self.world.now());
        self.doing("users work");
        row.window_start_ms = Some(ms(&self.world));
        self.recorder.record(row.clone().into())?;
        self.until(Duration::from_secs_f64(self.planned.test.duration_s), |_| false).await?;
        row.window_end_ms = Some(ms(&self.world));
        self.recorder.record(row.clone().into())?;
        self.note(None, Said::WindowCloses)?;
        self.is_closed = true;
        self.doing("queues drain");
        self.order(&ToWork::Close);
        let limit = Duration::from_secs(DRAIN_LIMIT_S.into());
        self.until(limit, |running| running.is_settled || running.process.is_none()).await?;
        self.arrive(convoy).await?;
        self.doing("copies are compared");
        self.order(&ToWork::Compare);
        self.until(COMPARE_LIMIT, |running| running.is_compared || running.process.is_none()).await?;
        // Nobody leaves while another host may still want to hear of its copies.
        self.arrive(convoy).await?;
        self.process = None;
        row.ended_ms = Some(ms(&self.world));
        self.recorder.record(row.into())?;
        let ended = self.date(None).unix_ns;
        if let Some(journal) = self.journal.take() {
            journal.end(ended).map_err(|error| not_kept(&error))?;
        }
        Ok(self.recorder.flush()?)
    }

    fn doing(&mut self, what: &str) {
        self.phase = what.to_owned();
        self.report();
    }

    /// Tells the controller how far the programme is. The drill is its last test.
    fn report(&self) {
        let ordinal = self.planned.ordinal;
        let share = match self.opened {
            None => 0.0,
            Some(_) if self.is_closed => 1.0,
            Some(opened) => {
                let passed_s = self.world.now().since(opened).as_secs_f64();
                (passed_s / self.planned.test.duration_s).min(1.0)
            }
        };
        self.gate.report(Doing {
            text: format!("[{ordinal}/{ordinal}] drill: {}", self.phase),
            done: (f64::from(ordinal - 1) + share) / f64::from(ordinal),
            ..Doing::default()
        });
    }

    /// Comes to a place at which hosts wait for each other; copies go on meanwhile.
    async fn arrive(&mut self, convoy: &dyn Convoy) -> Done {
        let (arrived, arriving) = (Rc::new(Cell::new(false)), convoy.arrive());
        let flag = arrived.clone();
        drop(self.world.spawn(async move {
            arriving.await;
            flag.set(true);
        }));
        self.until(Duration::MAX, |_| arrived.get()).await.map(drop)
    }

    /// Lets time pass until `done`, or until `limit` is over; says whether it was done.
    async fn until(&mut self, limit: Duration, done: impl Fn(&Running<'_>) -> bool) -> Done<bool> {
        let begun = self.world.now();
        loop {
            while let Ok(news) = self.news.try_recv() {
                self.hear(news)?;
            }
            self.fail_what_is_due()?;
            self.look_at_calendar()?;
            self.look_who_left()?;
            if self.gate.stop_asked().is_some() {
                return Err(CampaignError::Interrupted);
            }
            if done(self) {
                return Ok(true);
            }
            let left = limit.saturating_sub(self.world.now().since(begun));
            if left.is_zero() {
                return Ok(false);
            }
            let world = self.world.clone();
            let pause = pin!(world.sleep(left.min(LOOK_EVERY)));
            let next = select(self.news.next(), pause).await;
            let news = match next {
                Either::Left((news, _)) => news,
                Either::Right(_) => None,
            };
            if let Some(news) = news {
                self.hear(news)?;
            }
        }
    }

    fn hear(&mut self, news: News) -> Done {
        match news {
            News::Arbiter(database, message) => self.order(&ToWork::FromArbiter(database, message)),
            News::Gone(boot) if self.is_current(boot) => {
                let ended = self.process.as_mut().and_then(|process| process.child.wait().ok());
                let how = ended.map_or(String::new(), |status| format!(" ({status})"));
                return Err(CampaignError::Drill(format!(
                    "the process with the copies of this host has ended{how}; its last words are in the agent's log"
                )));
            }
            News::Gone(_) => {}
            News::Work(boot, from_work) => return self.hear_work(boot, from_work),
        }
        Ok(())
    }

    /// Whether it is of the process that holds the copies now.
    fn is_current(&self, boot: u32) -> bool {
        self.process.as_ref().is_some_and(|process| process.boot == boot)
    }

    fn hear_work(&mut self, boot: u32, from_work: FromWork) -> Done {
        if let Some((at_ns, said)) = from_work.said() {
            self.note(at_ns, said)?;
        }
        let is_current = self.is_current(boot);
        match from_work {
            FromWork::Failed(why) if is_current => return Err(CampaignError::Drill(why)),
            FromWork::ToArbiter(message) if is_current => self.speaker.say(message),
            FromWork::Ready => {
                let left = self.left.iter().filter_map(|host| self.planned.host(host).ok()).collect();
                self.order(&ToWork::Left(left));
                if self.is_closed {
                    self.order(&ToWork::Close);
                }
            }
            FromWork::Observed(_, Observed::Acknowledged { database, .. }) => {
                self.acknowledged.insert(database);
            }
            FromWork::Sample { copies, rows, is_settled, .. } => {
                for row in rows {
                    let t_ms = ms(&self.world).saturating_sub(row.interval_ms);
                    self.recorder.record(Sample { t_ms, ..row }.into())?;
                }
                let site = &self.planned.site;
                self.is_settled = is_settled && is_current;
                self.is_full = copies.iter().all(|copy| {
                    let spec = &site.databases[copy.database].spec;
                    let is_lagged = spec.copy_on(copy.report.host).is_some_and(CopySpec::is_lagged);
                    let is_used = copy.active_in.is_none() || self.acknowledged.contains(&copy.database);
                    copy.is_full(is_lagged) && is_used
                });
            }
            FromWork::Compared(_) => self.is_compared = true,
            _ => {}
        }
        Ok(())
    }

    /// The controller's calendar at this time of the host's monotonic clock, or now.
    fn date(&self, at_ns: Option<u64>) -> Reading {
        let local_ns = monotonic_ns();
        self.dates.date(at_ns.unwrap_or(local_ns), local_ns, self.gate.controller_now())
    }

    /// Writes into the journal what happened at this time of the host's monotonic clock, or now.
    fn note(&mut self, at_ns: Option<u64>, said: Said) -> Done {
        let Reading { unix_ns, error_ns } = self.date(at_ns);
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.add(&Entry { unix_ns, error_ns, said }).map_err(|error| not_kept(&error))
    }

    /// Passes on which hosts have left the drill, so that nothing waits for their copies.
    fn look_who_left(&mut self) -> Done {
        let left = self.gate.left();
        if left == self.left {
            return Ok(());
        }
        let hosts = left.iter().filter_map(|host| self.planned.host(host).ok()).collect();
        self.order(&ToWork::Left(hosts));
        let new: Vec<&str> =
            left.iter().filter(|host| !self.left.contains(host)).map(String::as_str).collect();
        let text = format!("goes on without {}", new.join(", "));
        self.left = left.clone();
        if new.is_empty() { Ok(()) } else { self.event(text) }
    }

    /// Says that somebody has set the calendar of this host. Nothing depends on it, but logs of the host are read by it.
    fn look_at_calendar(&mut self) -> Done {
        let ahead_ns = unix_ns() as i64 - monotonic_ns() as i64;
        let Some(before_ns) = self.calendar_ns.replace(ahead_ns) else { return Ok(()) };
        let step_ms = (ahead_ns - before_ns) / 1_000_000;
        if step_ms.abs() < CALENDAR_STEP_MIN_MS {
            return Ok(());
        }
        let direction = if step_ms > 0 { "forward" } else { "back" };
        let step_s = step_ms.abs() as f64 / 1e3;
        self.event(format!("the calendar of this host was set {direction} by {step_s:.1} s"))
    }

    fn event(&mut self, text: String) -> Done {
        let event = Event {
            t_ms: ms(&self.world),
            severity: Severity::Warning,
            test: Some(self.planned.ordinal),
            host: self.assignment.host.clone(),
            text,
        };
        Ok(self.recorder.record(event.into())?)
    }

    fn order(&mut self, order: &ToWork) {
        if let Some(process) = &self.process {
            // If it is gone, its reader says so.
            say(&process.orders, order);
        }
    }

    /// Starts the process that holds the copies.
    fn start(&mut self, is_new: bool) -> Done {
        let cannot = |error: std::io::Error| {
            CampaignError::Drill(format!("the process for the copies cannot be started: {error}"))
        };
        self.boots += 1;
        // This very program, even if another file has taken its place since the agent started.
        let mut child = Command::new("/proc/self/exe")
            .arg("drill-work")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A Ctrl-C for the agent is none for the copies, which the agent still has to end in order.
            .process_group(0)
            .spawn()
            .map_err(cannot)?;
        let (Some(orders), Some(said)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(CampaignError::Drill("the process for the copies has no pipes".to_owned()));
        };
        let (boot, tell) = (self.boots, self.tell.clone());
        std::thread::spawn(move || {
            let pass = |from_work| drop(tell.unbounded_send(News::Work(boot, from_work)));
            hear(BufReader::new(said), pass, || drop(tell.unbounded_send(News::Gone(boot))));
        });
        let order = Order {
            solution: self.assignment.solution.clone(),
            tests: self.assignment.tests.clone(),
            host: self.host,
            boot,
            seed: self.assignment.seed,
            is_new,
            direct: self.direct,
            credentials: self.credentials.clone(),
        };
        say(&orders, &order);
        self.process = Some(WorkProcess { boot, child, orders });
        Ok(())
    }

    /// Performs the failures of this host whose time has come, and takes back those that are over.
    fn fail_what_is_due(&mut self) -> Done {
        let Some(opened) = self.opened else { return Ok(()) };
        self.report();
        let passed_s = self.world.now().since(opened).as_secs_f64();
        while let Some((_, number, begins)) = self.due.pop_if(|(at_s, ..)| *at_s <= passed_s) {
            let failure = &self.planned.drill.failures[number];
            let text = if begins { failure.what.clone() } else { format!("over: {}", failure.what) };
            self.doing(&text);
            self.event(text)?;
            self.note(None, if begins { Said::Fails(number) } else { Said::IsOver(number) })?;
            let volume = failure.volume.clone().unwrap_or_default();
            match (failure.kind, begins) {
                (DrillEventKind::HostKilled | DrillEventKind::SiteLost, true) => self.process = None,
                (DrillEventKind::HostKilled | DrillEventKind::SiteLost, false) => self.start(false)?,
                (DrillEventKind::HostCutOff, begins) => self.order(&ToWork::CutOff(begins)),
                (DrillEventKind::VolumeFailed, true) => self.order(&ToWork::FailVolume(volume)),
                (DrillEventKind::VolumeFailed, false) => {
                    // Its copies count as started again.
                    self.boots += 1;
                    self.order(&ToWork::ReplaceVolume(volume));
                }
            }
        }
        Ok(())
    }
}
