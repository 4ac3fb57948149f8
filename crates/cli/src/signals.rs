//! Requests to end a command: SIGINT (Ctrl-C), SIGTERM (`kill`, `systemctl stop`) and SIGHUP (the terminal is gone).
//!
//! Invariants
//! 1. All three ask for the same orderly end; the third request ends the process at once.
//! 2. A request is answered on stderr at once, however slow the storage is.
//! 3. A SIGHUP that is ignored when the command starts stays ignored: a run started by `nohup` goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::failure::Failure;

/// Number of requests to end after which the process ends at once.
const PATIENCE: u32 = 3;

/// Counts requests to end (Ctrl-C, SIGTERM) from now on, for commands that end in order.
pub fn count_interrupts() -> Result<Arc<AtomicU32>, Failure> {
    let interrupts = Arc::new(AtomicU32::new(0));
    let counter = interrupts.clone();
    on_request(move || {
        let asked = counter.fetch_add(1, Ordering::SeqCst) + 1;
        if asked >= PATIENCE {
            crate::live::leave();
            std::process::exit(4);
        }
        crate::live::beside_screen(match asked {
            1 => {
                "ending in order: what was measured is kept (the third Ctrl-C ends the process at once and leaves \
                 the databases open; the next run recovers them)"
            }
            _ => "still ending in order (Ctrl-C once more ends the process at once)",
        });
    })?;
    Ok(interrupts)
}

/// Calls `heard` at each request to end (Ctrl-C, SIGTERM).
pub fn on_request(heard: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    let hangup_is_ignored = is_ignored(libc::SIGHUP);
    ctrlc::set_handler(heard)
        .map_err(|error| Failure::could_not_run("signals cannot be handled").because(error))?;
    if hangup_is_ignored {
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    }
    Ok(())
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zeros is a valid sigaction, and without a new action the call only fills it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a sigaction of our own.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
