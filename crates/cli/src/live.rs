//! `proofload run --live`: the run on the whole terminal, redrawn once a second.
//!
//! Invariants
//! 1. The terminal is given back as it was, however the run ends: [`leave`] is called when the screen is dropped and
//!    before the process ends at the third Ctrl-C.
//! 2. A frame is a function of what is known and of the size of the terminal ([`draw`]); names and notes cannot
//!    move the cursor.
//!
//! Drawn on stderr: stdout is data. Nothing is read from the keyboard, so Ctrl-C stays a signal.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use campaign::progress::{Progress, Watcher};
use evidence::live::LiveRun;
use review::terminal::draw;

use crate::progress::{LineWatcher, Meter};

/// Whether the terminal shows the screen of a run (its alternate screen).
static ON_SCREEN: AtomicBool = AtomicBool::new(false);
/// Escape sequences: alternate screen, no cursor, no wrapping.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Restores the terminal. May be called at any time, from any thread.
pub fn leave() {
    if ON_SCREEN.swap(false, Ordering::SeqCst) {
        show!("{LEAVE}");
    }
}

/// Shows a message, unless the screen of the run says the same at its foot.
pub fn beside_screen(text: &str) {
    if !ON_SCREEN.load(Ordering::SeqCst) {
        say!("{text}");
    }
}

/// The display of a run on the terminal: lines or a whole screen.
pub enum RunWatcher {
    /// A line that rewrites itself, or plain lines now and then.
    Lines(LineWatcher),
    /// The whole terminal (`--live`).
    Screen(LiveScreen),
}

impl RunWatcher {
    /// A whole screen if `--live` is given and there is a terminal, else lines. `evidence` is the folder of the run.
    pub fn new(live: bool, meter: Meter, interrupts: Arc<AtomicU32>, evidence: String) -> RunWatcher {
        let live = live && !crate::output::is_quiet();
        if live && std::io::stderr().is_terminal() {
            return RunWatcher::Screen(LiveScreen::enter(interrupts, evidence));
        }
        if live {
            say!("--live needs a terminal: plain lines instead");
        }
        RunWatcher::Lines(LineWatcher::new(meter, interrupts))
    }

    /// The state of the run that the screen is drawn from; none for lines.
    pub fn live(&self) -> Option<Rc<RefCell<LiveRun>>> {
        match self {
            RunWatcher::Lines(_) => None,
            RunWatcher::Screen(screen) => Some(screen.live.clone()),
        }
    }
}

impl Watcher for RunWatcher {
    fn progress(&mut self, progress: &Progress) {
        match self {
            RunWatcher::Lines(lines) => lines.progress(progress),
            RunWatcher::Screen(screen) => screen.draw(progress),
        }
    }

    fn line(&mut self, text: &str) {
        match self {
            RunWatcher::Lines(lines) => lines.line(text),
            // The event that the line tells of is a row of the run, too.
            RunWatcher::Screen(_) => {}
        }
    }

    fn interrupted(&self) -> bool {
        match self {
            RunWatcher::Lines(lines) => lines.interrupted(),
            RunWatcher::Screen(screen) => screen.interrupts.load(Ordering::SeqCst) > 0,
        }
    }
}

/// A run on the whole terminal, redrawn each second.
pub struct LiveScreen {
    live: Rc<RefCell<LiveRun>>,
    interrupts: Arc<AtomicU32>,
    evidence: String,
}

impl LiveScreen {
    fn enter(interrupts: Arc<AtomicU32>, evidence: String) -> LiveScreen {
        ON_SCREEN.store(true, Ordering::SeqCst);
        show!("{ENTER}\x1b[2J");
        LiveScreen { live: Rc::default(), interrupts, evidence }
    }

    fn draw(&self, progress: &Progress) {
        let Some(view) = self.live.borrow().view() else { return };
        let ending = self.interrupts.load(Ordering::SeqCst) > 0;
        let footer = if ending {
            "ending: databases are being closed (Ctrl-C twice more: at once)".to_owned()
        } else {
            format!("Ctrl-C ends the run in order; the evidence is kept in {}", self.evidence)
        };
        let lines = draw(&view, progress, &footer, size());
        // From the top left corner; each line erases what is left of the old one, the last what is below.
        show!("\x1b[H{}\x1b[J", lines.join("\x1b[K\r\n"));
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        leave();
    }
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}
