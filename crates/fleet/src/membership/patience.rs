//! How long a controller waits for its hosts, and why a wait ends: every wait has a limit and a reason.
//!
//! Limits: hosts that wait at a barrier wait for as long as the slowest host works, because the controller cannot
//! tell slow storage from storage that hangs.

use super::{Fate, Membership, Memory};

/// Largest number of transfers of a file whose contents differ from what its host announced. The first may only
/// continue what an earlier controller left.
const SPOILED_MAX: u32 = 3;

/// Event for which a controller waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Evidence of a host whose part is over.
    Evidence,
    /// End of a host that was told to stop.
    End,
}

impl Awaited {
    /// Times after which the wait is reported, and after which it ends, s.
    fn limits_s(self) -> (u64, u64) {
        match self {
            Awaited::Evidence => (10, 60),
            Awaited::End => (60, 600),
        }
    }

    /// Description of what has not happened for this long.
    fn missing_for(self, seconds: u64) -> String {
        match self {
            Awaited::Evidence => format!("nothing of its evidence has come for {seconds} s"),
            Awaited::End => format!("it has not ended {seconds} s after it was told to stop"),
        }
    }
}

/// Wait for one host.
#[derive(Debug, Default)]
pub(super) struct Wait {
    awaited: Option<Awaited>,
    /// Start of the wait, or time of the last received evidence, ns.
    since_ns: u64,
    is_told: bool,
    spoiled: u32,
    /// Last order that the host did not obey, with its reason.
    refusal: Option<String>,
}

impl Wait {
    /// Notes a heartbeat's report about orders that were not obeyed.
    pub fn hear(&mut self, refusals: &[String]) {
        if let Some(last) = refusals.last() {
            self.refusal = Some(last.clone());
        }
    }

    /// Continues the wait for `awaited`. Returns what to report, and whether the wait ends.
    fn go_on(&mut self, awaited: Awaited, now_ns: u64, hears_since_ns: u64) -> Option<(String, bool)> {
        if self.awaited != Some(awaited) {
            (self.awaited, self.since_ns, self.is_told) = (Some(awaited), now_ns, false);
        }
        let waited_s = now_ns.saturating_sub(self.since_ns.max(hears_since_ns)) / 1_000_000_000;
        let (told_s, limit_s) = awaited.limits_s();
        if waited_s >= limit_s {
            let refusal =
                self.refusal.as_ref().map_or(String::new(), |why| format!(" (its last word: {why})"));
            return Some((awaited.missing_for(limit_s) + &refusal, true));
        }
        let is_due = waited_s >= told_s && !std::mem::replace(&mut self.is_told, true);
        is_due.then(|| {
            (format!("{}; after {limit_s} s the run ends without it", awaited.missing_for(told_s)), false)
        })
    }
}

/// Event that is awaited from a host with this fate.
fn awaited(memory: &Memory, fate: &Fate, has_run: bool) -> Option<Awaited> {
    match fate {
        Fate::Ended { evidence_kept: false, .. } => Some(Awaited::Evidence),
        Fate::Open if memory.stop.is_some() && (memory.go || has_run) => Some(Awaited::End),
        _ => None,
    }
}

impl Membership {
    /// Handles the user's request for the end. Working hosts end in order, and their evidence is still collected;
    /// without a working host nothing more is waited for. Repeated calls have no effect.
    pub fn interrupt(&mut self, why: &str) {
        if std::mem::replace(&mut self.is_interrupted, true) {
            return;
        }
        let is_open = |host: &str| self.memory.fates[host] == Fate::Open;
        if self.members.iter().any(|(host, member)| is_open(host) && !member.lost) {
            self.stop(why);
        } else {
            self.waits_no_longer = true;
            self.say(format!("nothing more is waited for: {why}"));
        }
    }

    /// Notes that bytes of a host's evidence arrived.
    pub fn evidence_came(&mut self, now_ns: u64, host: &str) {
        if let Some(member) = self.members.get_mut(host) {
            (member.wait.since_ns, member.wait.is_told) = (now_ns, false);
        }
    }

    /// Notes that a file of a host arrived completely and differs from what the host announced.
    pub fn evidence_spoiled(&mut self, host: &str, file: &str) {
        let Some(member) = self.members.get_mut(host) else { return };
        member.wait.spoiled += 1;
        if member.wait.spoiled == SPOILED_MAX {
            self.give_up(host, format!("its evidence is not what it announced: {file}"));
        }
    }

    /// Reason why the run ends without the missing evidence of a host; `None` if it does not.
    pub fn given_up(&self, host: &str) -> Option<&str> {
        self.memory.given_up.get(host).map(String::as_str)
    }

    fn give_up(&mut self, host: &str, why: String) {
        self.note(Some(host), format!("{why}; the run ends without it"));
        self.memory.given_up.insert(host.to_owned(), why);
    }

    /// Reports long waits, and ends those that have reached their limit.
    pub(super) fn look_at_waits(&mut self, now_ns: u64) {
        let Membership { members, memory, hears_since_ns, .. } = self;
        let mut said = Vec::new();
        for (host, member) in members {
            let has_run =
                member.last.as_ref().is_some_and(|last| last.run.as_ref() == Some(&memory.plan.run));
            let is_here = !member.lost && !member.elsewhere && !memory.given_up.contains_key(host);
            let awaited = awaited(memory, &memory.fates[host], has_run).filter(|_| is_here);
            match awaited.map(|awaited| member.wait.go_on(awaited, now_ns, *hears_since_ns)) {
                Some(Some(told)) => said.push((host.clone(), told)),
                Some(None) => {}
                None => member.wait.awaited = None,
            }
        }
        for (host, (text, ends)) in said {
            if ends { self.give_up(&host, text) } else { self.note(Some(&host), text) }
        }
    }
}
