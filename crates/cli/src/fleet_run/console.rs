//! What the controller of a run on many hosts shows while it goes on.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fleet::controller::Watcher;
use fleet::membership::{Membership, Note};
use fleet::overview::lines;

use crate::failure::Failure;
use crate::signals::count_interrupts;

/// Lines about the hosts come at most this often where there is no terminal.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// Where a person sees a run go on.
pub struct Console {
    interrupts: Arc<AtomicU32>,
    is_terminal: bool,
    /// Lines on the terminal that the next look rewrites.
    shown: usize,
    last_plain: Option<Instant>,
}

impl Console {
    pub fn new() -> Result<Console, Failure> {
        let interrupts = count_interrupts()?;
        let is_terminal = std::io::stderr().is_terminal();
        Ok(Console { interrupts, is_terminal, shown: 0, last_plain: None })
    }

    /// Takes back the lines that would be rewritten.
    pub fn clear(&mut self) {
        let shown = std::mem::take(&mut self.shown);
        if shown > 0 {
            show!("\x1b[{shown}A\x1b[J");
        }
    }
}

impl Watcher for Console {
    fn note(&mut self, note: &Note) {
        self.clear();
        let host = note.host.as_ref().map_or(String::new(), |host| format!("{host}: "));
        say!("{host}{}", note.text);
    }

    fn look(&mut self, membership: &Membership) {
        if !self.is_terminal {
            if self.last_plain.is_none_or(|last| last.elapsed() >= PLAIN_EVERY) {
                self.last_plain = Some(Instant::now());
                lines(membership).iter().for_each(|line| say!("{line}"));
            }
            return;
        }
        self.clear();
        let lines = lines(membership);
        self.shown = lines.len();
        // No wrapping: a wrapped line would count as two.
        show!("\x1b[?7l{}\n\x1b[?7h", lines.join("\n"));
    }

    fn interrupts(&self) -> u32 {
        self.interrupts.load(Ordering::SeqCst)
    }
}
