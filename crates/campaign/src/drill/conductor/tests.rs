use std::collections::VecDeque;

use futures_util::FutureExt;
use replication::Epoch;
use results::Row;

use super::*;
use crate::barrier::Alone;
use crate::drill::fixture::{full_copy, planned};
use testkit::solutions::SMALL_DRILL;

/// Test hosts whose copies report what the test wants. Each wait of the conductor takes one second.
struct Puppets {
    now_ms: u64,
    happened: VecDeque<Happening>,
    /// Time from which all copies are complete and in use, ms.
    full_from_ms: u64,
    /// Numbers of the hosts with power.
    up: BTreeSet<usize>,
    is_closed: bool,
    /// Actions and journal entries of the conductor, with the second.
    done: Vec<(u64, String)>,
}

impl Puppets {
    fn new(full_from_ms: u64) -> Puppets {
        let (happened, up, done) = (VecDeque::new(), BTreeSet::from([0, 1]), Vec::new());
        Puppets { now_ms: 0, happened, full_from_ms, up, is_closed: false, done }
    }

    fn does(&mut self, what: String) {
        self.done.push((self.now_ms / 1000, what));
    }

    fn second(&mut self) {
        self.now_ms = (self.now_ms / 1000 + 1) * 1000;
        let at_ns = self.now_ms * 1_000_000;
        let is_full = self.now_ms >= self.full_from_ms;
        for host in self.up.clone() {
            let mut copy = full_copy(host);
            copy.report.mountable = is_full;
            if is_full && host == 0 {
                copy.active_in = Some(Epoch(1));
                let folders = BTreeMap::from([(7, 1)]);
                let observed = Observed::Acknowledged { database: 0, epoch: Epoch(1), folders };
                self.happened.push_back(Happening::Observed { host, at_ns, observed });
            }
            let (copies, rows, is_settled) = (vec![copy], Vec::new(), self.is_closed);
            self.happened.push_back(Happening::Sampled { host, at_ns, copies, rows, is_settled });
        }
    }
}

impl DrillHosts for Puppets {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    async fn start(&mut self) -> Done {
        self.does("start".into());
        Ok(())
    }

    fn kill(&mut self, host: usize) {
        self.up.remove(&host);
        self.does(format!("kill {host}"));
    }

    async fn restart(&mut self, host: usize) -> Done {
        self.up.insert(host);
        self.does(format!("restart {host}"));
        Ok(())
    }

    fn cut_off(&mut self, host: usize) {
        self.does(format!("cut off {host}"));
    }

    fn heal(&mut self, host: usize) {
        self.does(format!("heal {host}"));
    }

    fn fail_volume(&mut self, host: usize, volume: &str) {
        self.does(format!("fail {volume} of {host}"));
    }

    async fn replace_volume(&mut self, host: usize, volume: &str) -> Done {
        self.does(format!("replace {volume} of {host}"));
        Ok(())
    }

    fn close(&mut self) {
        self.is_closed = true;
        self.does("close".into());
    }

    async fn compare(&mut self) -> Done {
        self.does("compare".into());
        for host in self.up.clone() {
            self.happened.push_back(Happening::Compared { host, compared: Vec::new() });
        }
        Ok(())
    }

    async fn next(&mut self, until_ms: u64) -> Done<Option<Happening>> {
        if self.happened.is_empty() && until_ms > self.now_ms {
            match until_ms < (self.now_ms / 1000 + 1) * 1000 {
                true => self.now_ms = until_ms,
                false => self.second(),
            }
        }
        Ok(self.happened.pop_front())
    }

    fn write(&mut self, host: usize, _: Option<u64>, said: JournalContent) -> Done {
        if !matches!(said, JournalContent::Sample(_) | JournalContent::Observed(_)) {
            self.does(format!("{host} writes {said:?}"));
        }
        Ok(())
    }

    fn failing(&mut self, _: f64, _: &str) {}
}

/// Conducts the drill of a solution file. Returns how it ended, and the rows.
fn conducted(text: &str, hosts: &[usize], puppets: &mut Puppets) -> (Done, Vec<Row>) {
    let (planned, mut rows) = (planned(text), Vec::new());
    let ended = conduct(&planned, hosts, puppets, &Alone, &mut rows).now_or_never();
    (ended.expect("puppets never wait"), rows)
}

fn did(puppets: &Puppets, what: &str) -> Vec<u64> {
    puppets.done.iter().filter(|(_, done)| done.contains(what)).map(|(second, _)| *second).collect()
}

#[test]
fn no_window_opens_before_every_copy_is_full_and_in_use() {
    let mut late = Puppets::new(100_000);
    let (ended, _) = conducted(SMALL_DRILL, &[0, 1], &mut late);
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(did(&late, "writes WindowOpens"), [120, 120], "20 s after the copies are in use");

    let mut never = Puppets::new(u64::MAX);
    let (ended, rows) = conducted(SMALL_DRILL, &[0, 1], &mut never);
    let why = ended.expect_err("the copies are never full").to_string();
    assert!(why.contains("h1, h2") && why.contains("not full"), "{why}");
    assert_eq!(did(&never, "WindowOpens"), [0u64; 0]);
    let opens = |row: &Row| matches!(row, Row::Test(test) if test.window_start_ms.is_some());
    assert!(!rows.iter().any(opens), "nothing is measured in a window that never opened");
}

const TWO_FAILURES: &str = r#"
        back_after_s = 5.5
    [[test.drill.event]]
    kind = "volume_failed"
    host = "h2"
    volume = "V"
    at_s = 15.5
"#;

#[test]
fn failures_come_at_their_time_and_what_is_over_comes_before_what_begins() {
    let mut puppets = Puppets::new(0);
    let (ended, _) = conducted(&format!("{SMALL_DRILL}{TWO_FAILURES}"), &[0, 1], &mut puppets);
    assert!(ended.is_ok(), "{ended:?}");
    let opened = did(&puppets, "WindowOpens")[0];
    let done = puppets.done.iter().map(|(second, what)| format!("{} {what}", second.saturating_sub(opened)));
    let done: Vec<String> = done.skip_while(|done| !done.contains("WindowOpens")).collect();
    let expected = [
        "0 0 writes WindowOpens",
        "0 1 writes WindowOpens",
        "10 0 writes Fails(0)",
        "10 kill 0",
        "15 0 writes IsOver(0)",
        "15 restart 0",
        "15 1 writes Fails(1)",
        "15 fail V of 1",
        "60 0 writes WindowCloses",
        "60 1 writes WindowCloses",
        "60 close",
        "61 compare",
        "61 0 writes Compared([])",
        "61 1 writes Compared([])",
    ];
    assert_eq!(done, expected);
}

#[test]
fn a_host_that_stays_away_is_not_waited_for_and_an_agent_performs_the_failures_of_its_host_only() {
    let mut both = Puppets::new(0);
    let (ended, rows) = conducted(SMALL_DRILL, &[0, 1], &mut both);
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(did(&both, "compare")[0] - did(&both, "close")[0], 1, "the host that is there has settled");
    let events = |rows: &[Row]| rows.iter().filter(|row| matches!(row, Row::Event(_))).count();
    assert_eq!((did(&both, "kill 0").len(), events(&rows)), (1, 1));
    let mut second = Puppets::new(0);
    second.up = BTreeSet::from([1]);
    let (ended, rows) = conducted(SMALL_DRILL, &[1], &mut second);
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!((did(&second, "kill").len(), events(&rows)), (0, 0));
}
