//! Where the hosts of a run are, in figures and as lines for people.
//!
//! Invariant: the share that is done never falls, also if a host reports after its part is over.

use crate::membership::{Fate, Membership};
use crate::message::Work;

/// Largest number of hosts that get a line of their own.
const LINES: usize = 24;

/// Overview of all hosts, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// Finished share of the campaign, 0 to 1.
    pub done: f64,
    /// Number of hosts of the run.
    pub hosts: u64,
    /// Number of hosts that carry out a test.
    pub working: u64,
    /// Number of these hosts that wait for others.
    pub waiting: u64,
    /// Transactional I/O per second of all hosts.
    pub iops: f64,
    /// Names of silent hosts.
    pub missing: Vec<String>,
    /// Lines of text, one for each host while there is room.
    pub lines: Vec<String>,
}

/// Builds the overview of all hosts.
pub fn overview(membership: &Membership) -> Overview {
    let hosts = membership.memory().plan.hosts.len() as u64;
    let missing = membership.missing().into_iter().map(Into::into).collect();
    let (mut working, mut waiting, mut done, mut iops) = (0, 0, 0.0, 0.0);
    let mut lines = Vec::new();
    for (host, heartbeat) in membership.heartbeats() {
        let fate = &membership.memory().fates[host];
        let is_ours = heartbeat.run.as_ref() == Some(&membership.memory().plan.run);
        let (text, share) = place(fate, &heartbeat.work, is_ours);
        done += share / hosts.max(1) as f64;
        if let (Fate::Open, true, Work::Running { waiting_at, iops: own, .. }) =
            (fate, is_ours, &heartbeat.work)
        {
            (working, iops) = (working + 1, iops + own);
            waiting += u64::from(waiting_at.is_some());
        }
        if lines.len() < LINES {
            lines.push(format!("  {host:<16} {text}"));
        }
    }
    Overview { done, hosts, working, waiting, iops, missing, lines }
}

/// State of a host as text, and the finished share of its campaign. `is_ours`: it works for this run. After the end of
/// its part, its heartbeats say no more about it.
fn place(fate: &Fate, work: &Work, is_ours: bool) -> (String, f64) {
    match (fate, work) {
        (Fate::Ended { evidence_kept: true, .. }, _) => ("through, its evidence is here".to_owned(), 1.0),
        (Fate::Ended { .. }, _) => ("through, sends its evidence".to_owned(), 1.0),
        (Fate::Refused { .. }, _) => ("cannot take part".to_owned(), 0.0),
        (Fate::Open, _) if !is_ours => ("prepares".to_owned(), 0.0),
        (Fate::Open, Work::Refused { .. } | Work::Ended { .. } | Work::Idle) => ("prepares".to_owned(), 0.0),
        (Fate::Open, Work::Ready(_)) => ("ready".to_owned(), 0.0),
        (Fate::Open, Work::Running { waiting_at: Some(_), progress, done, .. }) => {
            (format!("waits for the others; {progress}"), *done)
        }
        (Fate::Open, Work::Running { progress, done, .. }) => (format!("{progress}{}", rates(work)), *done),
    }
}

fn rates(work: &Work) -> String {
    match work {
        Work::Running { iops, read_latency_ms, log_write_latency_ms, .. } if *iops > 0.0 => {
            format!("  {iops:.0} IOPS  read {read_latency_ms:.2} ms  log write {log_write_latency_ms:.2} ms")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::membership::{Plan, WhenLost};
    use crate::message::{Ended, EvidenceFile, Heartbeat, Look, PROTOCOL, WhenAlone};

    use super::*;

    fn plan() -> Plan {
        Plan {
            run: "run-1".into(),
            tool_version: "1.0".into(),
            build: None,
            hosts: vec!["h1".into(), "h2".into()],
            solution: String::new(),
            tests: Vec::new(),
            seed: 1,
            allow_memory: false,
            when_lost: WhenLost::Finish,
            when_alone: WhenAlone::Finish,
            alone_after_ms: 60_000,
            assemble_limit_ms: 60_000,
        }
    }

    fn heartbeat(host: &str, run: Option<&str>, work: Work) -> Heartbeat {
        Heartbeat {
            protocol: PROTOCOL,
            tool_version: "1.0".into(),
            build: String::new(),
            host: host.into(),
            process: u64::from(host == "h1"),
            nonce: 1,
            run: run.map(str::to_owned),
            epoch: 1,
            work,
            calendar_offset_ns: None,
            clock_uncertainty_ns: None,
            refusals: Vec::new(),
            state_error: None,
        }
    }

    fn running(done: f64) -> Work {
        let (iops, read_latency_ms, log_write_latency_ms) = (0.0, 0.0, 0.0);
        let progress = String::new();
        Work::Running { waiting_at: None, progress, done, iops, read_latency_ms, log_write_latency_ms }
    }

    #[test]
    fn the_share_that_is_done_stays_when_a_host_is_through_and_has_put_its_run_away() {
        let mut membership = Membership::new(plan(), 0);
        let files = vec![EvidenceFile { name: "run.db".into(), bytes: 1, sha256: String::new() }];
        let ended = Work::Ended { how: Ended::Passed, why: None, files };
        let run = Some("run-1");
        for host in ["h1", "h2"] {
            membership.heartbeat(0, 0, heartbeat(host, run, Work::Ready(Look::default())));
        }
        let mut shown = Vec::new();
        let mut look = |membership: &Membership| {
            shown.push((overview(membership).done * 100.0).round() as i32);
        };
        membership.heartbeat(0, 0, heartbeat("h1", run, running(0.5)));
        membership.heartbeat(0, 0, heartbeat("h2", run, running(0.5)));
        look(&membership);
        membership.heartbeat(0, 0, heartbeat("h1", run, ended));
        look(&membership);
        membership.evidence_kept("h1");
        membership.heartbeat(0, 0, heartbeat("h1", None, Work::Idle));
        look(&membership);
        let lines = overview(&membership).lines;
        assert!(lines[0].contains("its evidence is here"), "{lines:?}");
        // Its agent takes up another run while the other host still works.
        membership.heartbeat(0, 0, heartbeat("h1", Some("run-2"), running(0.1)));
        look(&membership);
        assert_eq!(shown, [50, 75, 75, 75]);
    }
}
