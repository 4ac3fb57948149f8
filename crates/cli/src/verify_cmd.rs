//! `proofload verify`: checks an EDB file page by page; repairs single-bit errors into a copy.
//!
//! Invariants
//! 1. The file itself is only read.
//! 2. A copy is made under a name that does not exist yet.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use edb::verify::{Counts, CutOff, Finding};
use evidence::report::counted;
use workload::verify::{Opened, VerifyError};

use crate::failure::{Failure, Status};
use crate::stdout::tell;

/// Pages that are named one by one; all are counted.
const NAMED_MAX: u64 = 100;

/// Checks a database file page by page.
#[derive(clap::Args)]
pub struct VerifyArguments {
    /// The database file.
    #[arg(value_name = "FILE.edb")]
    file: PathBuf,
    /// Write a copy with single-bit errors corrected to this new file. The checksum cannot locate a flipped bit
    /// in itself or in the flag of its form (65 of the first 640 bits of a page), and takes three flipped bits
    /// for a single one in about one case of ten: a page whose structure or payload then contradicts the
    /// correction is not corrected, others may be wrong.
    #[arg(long, value_name = "NEW.edb")]
    repair_to: Option<PathBuf>,
}

/// Why the command has ended: the file, or the reader of stdout.
enum Stop {
    Verify(VerifyError),
    Failure(Failure),
}

impl From<VerifyError> for Stop {
    fn from(error: VerifyError) -> Stop {
        Stop::Verify(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failure(failure)
    }
}

/// Runs the command. Findings go to stdout, one per line, then the counts.
pub fn run(arguments: &VerifyArguments) -> Result<Status, Failure> {
    verify(arguments).map_err(|stop| match stop {
        Stop::Failure(failure) => failure,
        Stop::Verify(VerifyError::Read(error)) => unreadable(arguments, error),
        Stop::Verify(VerifyError::Copy(error)) => not_written(arguments, error),
        Stop::Verify(VerifyError::NoDatabase(damage)) => {
            let path = arguments.file.display();
            Failure::wrong_input(format!("{path} is no EDB database: header and shadow are both damaged"))
                .because(damage)
        }
    })
}

fn unreadable(arguments: &VerifyArguments, error: std::io::Error) -> Failure {
    Failure::wrong_input(format!("cannot read {}", arguments.file.display())).because(error)
}

fn verify(arguments: &VerifyArguments) -> Result<Status, Stop> {
    let mut file = File::open(&arguments.file).map_err(VerifyError::Read)?;
    let file_bytes = file.metadata().map_err(VerifyError::Read)?.len();
    let mut opened = Opened::new(&mut file, file_bytes)?;
    if opened.is_dirty() {
        tell(
            "the database was not closed, or is in use: what is wrong with it may be what recovery mends\n",
        )?;
    }
    if let Some(words) = opened.damaged_header {
        tell(&format!("{words}\n"))?;
    }
    let mut copy = arguments.repair_to.as_ref().map(create_copy).transpose()?;
    if let Some(reason) = &opened.untold {
        tell(&format!("which pages are in use cannot be told: {reason}; zero pages may be lost ones\n"))?;
    }
    let mut named = 0;
    let found =
        opened.check(&mut file, copy.as_mut().map(|copy| copy as &mut dyn Write), |pgno, finding| {
            let Some(words) = describe(finding) else { return Ok(()) };
            named += 1;
            if named > NAMED_MAX {
                Ok(())
            } else {
                tell(&format!("page {pgno}: {words}\n")).map_err(Stop::from)
            }
        })?;
    if named > NAMED_MAX {
        tell(&format!("... and {} more\n", named - NAMED_MAX))?;
    }
    if let Some(copy) = copy {
        copy.sync_all().map_err(VerifyError::Copy)?;
    }
    if found.tail_bytes > 0 {
        let tail = counted(found.tail_bytes, "byte");
        tell(&format!("{tail} behind the last whole page: no page, and not checked\n"))?;
    }
    tell_totals(&found.counts, found.cut_off)?;
    tell(&format!("{}\n", found.unseen))?;
    if let Some(to) = arguments.repair_to.as_ref().filter(|_| found.counts.correctable > 0) {
        tell(&format!(
            "{} corrected in {}: more than two flipped bits may look like one; compare what you can\n",
            counted(found.counts.correctable, "page"),
            to.display()
        ))?;
    }
    let clean = found.is_clean() && opened.damaged_header.is_none();
    Ok(if clean { Status::Pass } else { Status::VerdictFail })
}

fn create_copy(to: &PathBuf) -> Result<File, Failure> {
    OpenOptions::new().write(true).create_new(true).open(to).map_err(|error| {
        Failure::could_not_run(format!("cannot create {}", to.display()))
            .because(error)
            .help("name a file that does not exist yet")
    })
}

fn not_written(arguments: &VerifyArguments, error: std::io::Error) -> Failure {
    let to = arguments.repair_to.as_deref().unwrap_or(&arguments.file);
    Failure::could_not_run(format!("cannot write {}", to.display())).because(error)
}

/// What is wrong with a page, in words; `None` if nothing is.
fn describe(finding: Finding) -> Option<String> {
    match finding {
        Finding::Good { .. } | Finding::Uninitialised | Finding::Trailer => None,
        Finding::Lost => Some("was lost: it is zero, and the database uses it".into()),
        Finding::Correctable { .. } => Some("a single bit is flipped; it can be corrected".into()),
        Finding::Miscorrected => {
            Some("looks like a single flipped bit, but more are wrong; it cannot be corrected".into())
        }
        Finding::WrongNumber { claimed } => Some(format!("holds the bytes of page {claimed}")),
        Finding::Bad => Some("wrong checksum".into()),
        Finding::Damaged(damage) => Some(format!("right checksum, broken structure: {damage}")),
        Finding::Foreign => Some("right checksum, but an entry is not one that was written".into()),
    }
}

fn tell_totals(counts: &Counts, cut_off: Option<CutOff>) -> Result<(), Failure> {
    if let Some(cut_off) = cut_off {
        tell(&format!("{cut_off}\n"))?;
    }
    tell(&format!(
        "{} seen, {} bad, {} correctable, {} uninitialised, {} of a wrong number; highest dbtime {}\n",
        counted(counts.seen, "page"),
        counts.bad,
        counts.correctable,
        counts.uninitialised,
        counts.wrong_number,
        counts.dbtime_max
    ))
}
