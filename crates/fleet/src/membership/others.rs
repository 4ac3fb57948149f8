//! The controllers of other runs, as far as they have been heard.

use std::collections::BTreeMap;

use super::LOST_AFTER_NS;
use crate::message::ControllerHead;

/// Last message of each other controller, by run, with its time.
#[derive(Debug, Default)]
pub(super) struct OtherControllers(BTreeMap<String, (u64, ControllerHead)>);

fn is_recent(now_ns: u64, heard_ns: u64) -> bool {
    now_ns.saturating_sub(heard_ns) <= LOST_AFTER_NS
}

impl OtherControllers {
    pub fn hear(&mut self, now_ns: u64, head: ControllerHead) {
        self.0.retain(|_, (heard_ns, _)| is_recent(now_ns, *heard_ns));
        match head.ends {
            true => drop(self.0.remove(&head.run)),
            false => drop(self.0.insert(head.run.clone(), (now_ns, head))),
        }
    }

    /// Whether the controller of a run is alive, as far as a listener since `listens_ns` can know.
    pub fn lives(&self, now_ns: u64, run: &str, listens_ns: u64) -> bool {
        is_recent(now_ns, self.0.get(run).map_or(listens_ns, |other| other.0))
    }

    /// Run of a living controller that wants this host and has precedence over one that started at this moment with
    /// this run.
    pub fn first(&self, now_ns: u64, (since_unix_ns, run): (u64, &str), host: &str) -> Option<&str> {
        let goes_first = |(heard_ns, other): &&(u64, ControllerHead)| {
            let is_earlier = (other.since_unix_ns, other.run.as_str()) < (since_unix_ns, run);
            is_recent(now_ns, *heard_ns) && is_earlier && other.hosts.iter().any(|wanted| wanted == host)
        };
        self.0.values().find(goes_first).map(|(_, other)| other.run.as_str())
    }
}
