//! `proofload crash-test`: does this storage keep what it says is durable? See docs/crash-test.md.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use engine::StopSignal;
use futures_util::future::{Either, select};
use serde::{Deserialize, Serialize};
use workload::crash_test::{CrashTestError, Findings, SESSIONS_MAX, Testimony, verify, witness, write};
use world::real::RealConfig;
use world::{ErrorKind, World};

use crate::failure::{Failure, Status};
use crate::output::data;
use crate::signals::count_interrupts;

/// Finds out whether storage keeps what it says is durable: commit, pull the plug, compare with what another host heard.
#[derive(clap::Args)]
pub struct CrashTestArguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(clap::Subcommand)]
enum Part {
    /// On another host: note which commits the writer was told are durable. Ends when the writer is gone.
    Witness {
        /// Where to listen, for example 0.0.0.0:7700.
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: String,
        /// The file to keep the notes in; must not exist.
        #[arg(long, value_name = "NOTES.json")]
        out: PathBuf,
    },
    /// On the storage under test: commit until the plug is pulled (or Ctrl-C).
    Write {
        /// The folder to make.
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// Where the witness listens.
        #[arg(long, value_name = "HOST:PORT")]
        witness: String,
        /// Sessions that commit at once.
        #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=i64::from(SESSIONS_MAX)))]
        sessions: u32,
        /// Size of the database.
        #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
        size_mib: u64,
        /// Write through the page cache, with a sync for each commit: for file systems without unbuffered I/O.
        #[arg(long)]
        buffered: bool,
    },
    /// When the host is back: recover, and compare with the witness's notes.
    Verify {
        /// The folder that the writer made.
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// The witness's file.
        #[arg(long, value_name = "NOTES.json")]
        notes: PathBuf,
        /// Read through the page cache: for file systems without unbuffered I/O. Proves nothing unless the host has restarted.
        #[arg(long)]
        buffered: bool,
    },
}

/// The witness's file.
#[derive(Serialize, Deserialize)]
struct Notes {
    /// Layout of this file: 1.
    version: u32,
    /// The run, in hexadecimal digits.
    run: String,
    /// By session: the last commit that was acknowledged as durable.
    sessions: BTreeMap<u32, u64>,
}

/// Runs the command.
pub fn run(arguments: &CrashTestArguments) -> Result<Status, Failure> {
    match &arguments.part {
        Part::Witness { listen, out } => hear(listen, out),
        Part::Write { folder, witness, sessions, size_mib, buffered } => {
            commit(folder, witness, *sessions, size_mib << 20, *buffered)
        }
        Part::Verify { folder, notes, buffered } => compare(folder, notes, *buffered),
    }
}

fn on_this_host<T, F: Future<Output = T>>(
    buffered: bool,
    main: impl FnOnce(World) -> F,
) -> Result<T, Failure> {
    let config = RealConfig { direct: !buffered, ..RealConfig::new("crash-test") };
    world::real::run(config, main)
        .map_err(|error| Failure::could_not_run("the I/O driver does not start").because(error))
}

fn hear(listen: &str, out: &Path) -> Result<Status, Failure> {
    let not_kept = |error: std::io::Error| {
        Failure::could_not_run(format!("the notes cannot be kept in {}", out.display())).because(error)
    };
    if out.exists() {
        let message = format!("{} exists; the witness overwrites nothing", out.display());
        return Err(Failure::wrong_input(message).help("name a new file with --out"));
    }
    let failed: RefCell<Option<std::io::Error>> = RefCell::default();
    let kept_at = Cell::new(None);
    let heard = on_this_host(false, |world| {
        let (failed, kept_at) = (&failed, &kept_at);
        async move {
            let listener = world.listen(listen).await?;
            say!("listening on {listen}; start the writer, then pull its plug");
            let heard = witness(&listener, |testimony| {
                // Once a second: what was heard since is kept when the connection ends.
                let is_due = kept_at.get().is_none_or(|at| world.now() >= at + Duration::from_secs(1));
                if is_due && let Err(error) = keep(out, testimony) {
                    failed.borrow_mut().get_or_insert(error);
                }
                if is_due {
                    kept_at.set(Some(world.now()));
                }
            });
            heard.await
        }
    })?;
    let heard = heard.map_err(|error: CrashTestError| told(&error))?;
    keep(out, &heard).map_err(not_kept)?;
    if let Some(error) = failed.into_inner() {
        return Err(not_kept(error));
    }
    let total: u64 = heard.sessions.values().sum();
    say!("the writer is gone; {total} durable commits heard of, noted in {}", out.display());
    Ok(Status::Pass)
}

/// Replaces the file as a whole.
fn keep(out: &Path, testimony: &Testimony) -> std::io::Result<()> {
    let notes =
        Notes { version: 1, run: format!("{:016x}", testimony.run), sessions: testimony.sessions.clone() };
    let fresh = out.with_extension("json.new");
    std::fs::write(&fresh, serde_json::to_vec_pretty(&notes)?)?;
    std::fs::File::open(&fresh)?.sync_all()?;
    std::fs::rename(&fresh, out)
}

fn commit(
    folder: &Path,
    witness: &str,
    sessions: u32,
    file_bytes: u64,
    buffered: bool,
) -> Result<Status, Failure> {
    if folder.exists() {
        let message = format!("{} exists; the crash test makes its folder itself", folder.display());
        return Err(Failure::wrong_input(message)
            .help("name a folder that does not exist, on the storage under test"));
    }
    let folder = text(folder)?;
    let interrupts = Arc::new(AtomicU32::new(0));
    count_interrupts(&interrupts)?;
    say!("writes {} MiB and logs below {folder}; nothing else is touched", file_bytes >> 20);
    let written = on_this_host(buffered, |world| async move {
        let stop = StopSignal::new();
        let shown = Cell::new(world.now());
        let clock = world.clone();
        let writing = write(&world, &folder, file_bytes, sessions, witness, &stop, |committed| {
            if clock.now() >= shown.get() + Duration::from_secs(1) {
                shown.set(clock.now());
                say!("{committed} durable commits; pull the plug at any time");
            }
        });
        let mut writing = std::pin::pin!(writing);
        loop {
            let tick = std::pin::pin!(world.sleep(Duration::from_millis(200)));
            match select(writing.as_mut(), tick).await {
                Either::Left((written, _)) => return written,
                Either::Right(_) if interrupts.load(Ordering::SeqCst) > 0 => stop.stop(),
                Either::Right(_) => {}
            }
        }
    })?;
    let total = written.map_err(|error| told(&error))?;
    say!("ended in order after {total} durable commits: nothing has been proved without a crash");
    Ok(Status::Interrupted)
}

fn compare(folder: &Path, notes: &Path, buffered: bool) -> Result<Status, Failure> {
    let wrong = |cause: String| {
        Failure::wrong_input(format!("{} holds no notes of a witness", notes.display())).because(cause)
    };
    let read = std::fs::read(notes).map_err(|error| wrong(error.to_string()))?;
    let parsed: Notes = serde_json::from_slice(&read).map_err(|error| wrong(error.to_string()))?;
    if parsed.version != 1 {
        return Err(wrong(format!("version {} is not known here", parsed.version)));
    }
    let run = u64::from_str_radix(&parsed.run, 16).map_err(|error| wrong(error.to_string()))?;
    let testimony = Testimony { run, sessions: parsed.sessions };
    let folder = text(folder)?;
    let found = on_this_host(buffered, |world| async move { verify(&world, &folder, &testimony).await })?;
    match found {
        Ok(found) => {
            data(&story(&found))?;
            Ok(if found.is_kept() { Status::Pass } else { Status::VerdictFail })
        }
        Err(error) if error.is_loss() => {
            let what = match error {
                CrashTestError::Engine(_) => "the database cannot be recovered: ",
                _ => "",
            };
            data(&format!("NOT KEPT: {what}{error}\n"))?;
            Ok(Status::VerdictFail)
        }
        Err(error) => Err(told(&error)),
    }
}

fn story(found: &Findings) -> String {
    let Findings { acknowledged, lost, beyond, recovery, pages } = found;
    let mut text = String::new();
    for (session, first, last) in lost {
        text += &format!(
            "session {session}: commits {first} to {last} were acknowledged as durable and are gone\n"
        );
    }
    for (pgno, what) in &pages.list {
        text += &format!("page {pgno}: {what}\n");
    }
    let gone: u64 = lost.iter().map(|(_, first, last)| last - first + 1).sum();
    text += &format!(
        "{acknowledged} commits acknowledged, {gone} of them lost; {beyond} survived that the witness had not heard of; \
         {} logs replayed, {} torn pages repaired, {} pages checked\n",
        recovery.logs_replayed, recovery.pages_repaired, pages.pages
    );
    text += if found.is_kept() {
        "KEPT: everything that was reported as durable has survived\n"
    } else {
        "NOT KEPT: a drive, controller, array or hypervisor below reports writes as durable that are not\n"
    };
    text
}

/// The whole path, without a slash at its end.
fn text(path: &Path) -> Result<String, Failure> {
    let absolute = std::path::absolute(path)
        .map_err(|error| Failure::wrong_input(format!("{} is no path", path.display())).because(error))?;
    let text = absolute.to_str().map(|text| text.trim_end_matches('/').to_owned());
    text.ok_or_else(|| Failure::wrong_input(format!("{} is not UTF-8", path.display())))
}

fn told(error: &CrashTestError) -> Failure {
    match error {
        CrashTestError::Foreign { .. } | CrashTestError::OtherRun { .. } => {
            Failure::wrong_input(error.to_string())
                .help("verify the folder that the writer made with the notes of the witness that it had")
        }
        CrashTestError::NoWriter => {
            Failure::could_not_run(error.to_string()).help("start the witness again, and then the writer")
        }
        CrashTestError::World(error) | CrashTestError::Engine(engine::Error::World(error))
            if error.kind == ErrorKind::Unsupported =>
        {
            Failure::could_not_run("nothing is proved: the crash test has ended early")
                .because(error)
                .help("add --buffered, or use a file system with unbuffered I/O")
        }
        error => Failure::could_not_run("nothing is proved: the crash test has ended early").because(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_identity_is_not_kept_and_another_folder_is_the_callers_mistake() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, notes) = (dir.path().join("disk"), dir.path().join("notes.json"));
        keep(&notes, &Testimony { run: 7, sessions: BTreeMap::new() }).expect("writable");
        std::fs::create_dir(&folder).expect("writable");
        let failed = compare(&folder, &notes, false).expect_err("no folder of a crash test");
        assert!(failed.to_string().contains("was not made by a crash test"), "{failed}");
        for part in ["db", "log"] {
            std::fs::create_dir(folder.join(part)).expect("writable");
        }
        let verdict = || compare(&folder, &notes, false).expect("it has been compared");
        assert_eq!(verdict(), Status::VerdictFail, "missing");
        for bytes in [0, 4096] {
            std::fs::write(folder.join("crash-test.id"), vec![0; bytes]).expect("writable");
            assert_eq!(verdict(), Status::VerdictFail, "{bytes} bytes of zeros");
        }
    }

    #[test]
    fn a_folder_is_named_without_a_slash_at_its_end() {
        assert_eq!(text(Path::new("/mnt/volume/crash-test//")).expect("a path"), "/mnt/volume/crash-test");
    }
}
