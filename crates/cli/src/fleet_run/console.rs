//! What the controller of a run on many hosts shows while it goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fleet::controller::Watcher;
use fleet::membership::{Membership, Note};
use fleet::overview::{Overview, overview};
use review::progress::{HostsProgress, Told};

use crate::failure::Failure;
use crate::progress::Meter;
use crate::signals::count_interrupts;

/// The terminal's display of a fleet's run: progress lines and messages.
pub struct Console {
    interrupts: Arc<AtomicU32>,
    meter: Meter,
}

impl Console {
    pub fn new(meter: Meter) -> Result<Console, Failure> {
        Ok(Console { interrupts: count_interrupts()?, meter })
    }
}

impl Watcher for Console {
    fn note(&mut self, note: &Note) {
        let host = note.host.as_ref().map_or(String::new(), |host| format!("{host}: "));
        say!("{host}{}", note.text);
        if let Some(detail) = &note.detail {
            detail!("{host}{detail}");
        }
    }

    fn look(&mut self, membership: &Membership) {
        let Overview { done, hosts, working, waiting, iops, missing, lines } = overview(membership);
        let all = HostsProgress { done, hosts, working, waiting, iops, missing };
        self.meter.show(Told::Hosts(all), lines);
    }

    fn interrupts(&self) -> u32 {
        self.interrupts.load(Ordering::SeqCst)
    }
}
