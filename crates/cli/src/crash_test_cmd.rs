//! `proofload crash-test`: does this storage keep what it says is durable? See docs/crash-test.md.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use evidence::report::counted;
use review::answers::{Committed, Heard};
use review::progress::Told;
use runner::crash_test::{Writer, commit, compare, hear};
use workload::crash_test::SESSIONS_MAX;

use crate::failure::{Failure, Status};
use crate::progress::ProgressArguments;
use crate::signals::count_interrupts;
use crate::stdout::data;

/// Finds out whether storage keeps what it says is durable.
///
/// Commit, pull the plug, and compare with what another host heard.
#[derive(clap::Args)]
pub struct CrashTestArguments {
    #[command(subcommand)]
    part: CrashTest,
}

#[derive(clap::Subcommand)]
enum CrashTest {
    /// On another host: note which commits the writer was told are durable. Ends when the writer is gone.
    Listen {
        /// Where to listen, for example 0.0.0.0:7700.
        #[arg(long, value_name = "ADDRESS:PORT")]
        address: String,
        /// The file to keep the notes in; must not exist.
        #[arg(long, value_name = "NOTES.json")]
        out: PathBuf,
        /// Print what was heard as JSON.
        #[arg(long)]
        json: bool,
    },
    /// On the storage under test: commit until the plug is pulled (or Ctrl-C).
    Write {
        /// The folder to make.
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// Address of the listener.
        #[arg(long, value_name = "HOST:PORT")]
        listener: String,
        /// Sessions that commit at once.
        #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=i64::from(SESSIONS_MAX)))]
        sessions: u32,
        /// Size of the database.
        #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
        size_mib: u64,
        /// Write through the page cache, with a sync for each commit: for file systems without unbuffered I/O.
        #[arg(long)]
        buffered: bool,
        /// Print what was committed as JSON, when it ends without a crash.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        progress: ProgressArguments,
    },
    /// When the host is back: recover, and compare with the listener's notes.
    Verify {
        /// The folder that the writer made.
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// The listener's file.
        #[arg(long, value_name = "NOTES.json")]
        notes: PathBuf,
        /// Read through the page cache: for file systems without unbuffered I/O. Proves nothing unless the host
        /// has restarted.
        #[arg(long)]
        buffered: bool,
        /// Print what was found as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub fn run(arguments: &CrashTestArguments) -> Result<Status, Failure> {
    let told = |line: &str| say!("{line}");
    match &arguments.part {
        CrashTest::Listen { address, out, json } => {
            let durable_commits = hear(address, out, told)?;
            let heard = counted(durable_commits, "durable commit");
            say!("the writer is gone; heard of {heard}, noted in {}", out.display());
            if *json {
                crate::stdout::json(&Heard { schema_version: 1, notes: out.clone(), durable_commits })?;
            }
            Ok(Status::Pass)
        }
        CrashTest::Write { folder, listener, sessions, size_mib, buffered, json, progress } => {
            let meter = RefCell::new(progress.meter());
            let (sessions, file_bytes, buffered) = (*sessions, size_mib << 20, *buffered);
            let interrupts = count_interrupts()?;
            let end_asked = || interrupts.load(Ordering::SeqCst) > 0;
            let writer = Writer { folder, listener, sessions, file_bytes, buffered };
            let committed = |durable| meter.borrow_mut().show(Told::Commits { durable }, Vec::new());
            let durable_commits = commit(writer, end_asked, told, committed)?;
            let total = counted(durable_commits, "durable commit");
            say!("ended in order after {total}: nothing has been proved without a crash");
            if *json {
                let folder = folder.clone();
                crate::stdout::json(&Committed { schema_version: 1, folder, durable_commits })?;
            }
            Ok(Status::Interrupted)
        }
        CrashTest::Verify { folder, notes, buffered, json } => {
            let compared = compare(folder, notes, *buffered)?;
            if *json {
                crate::stdout::json(&compared)?
            } else {
                data(&compared.text)?
            }
            Ok(if compared.kept { Status::Pass } else { Status::VerdictFail })
        }
    }
}
