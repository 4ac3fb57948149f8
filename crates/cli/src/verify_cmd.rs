//! `proofload verify`: checks an EDB file page by page; repairs single-bit errors into a copy.
//!
//! Invariants
//! 1. The file itself is only read.
//! 2. A copy is made under a name that does not exist yet.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use edb::header::HeaderDamage;
use evidence::report::{counted, number};
use review::answers::{Pages, Verified, WrongPage, describe_page};
use workload::verify::{Opened, VerifyError};

use crate::failure::{Failure, Status};
use crate::stdout::{create_new, json, tell};

/// Most pages with a fault that are printed one by one; all are counted.
const NAMED_MAX: u64 = 100;

/// Checks a database file page by page.
#[derive(clap::Args)]
pub struct VerifyArguments {
    /// The database file.
    #[arg(value_name = "FILE.edb")]
    file: PathBuf,
    /// Write a copy with single-bit errors corrected to this new file. The checksum cannot locate a flipped bit
    /// in itself or in the flag of its form (65 of the first 640 bits of a page). Of 1,000 pages with three
    /// flipped bits in one block, 90 look like pages with a single one. Such a page is not corrected if the
    /// correction contradicts its structure or what Proofload wrote there. 7 of the 1,000 were corrected wrongly
    /// in new databases of Proofload, 55 to 90 in other databases.
    #[arg(long, value_name = "NEW.edb")]
    repair_to: Option<PathBuf>,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

/// Where findings go: printed as they come, or collected for `--json`.
struct Teller {
    document: Option<Verified>,
    named: u64,
}

impl Teller {
    fn note(&mut self, text: String) -> Result<(), Failure> {
        match &mut self.document {
            Some(document) => document.notes.push(text),
            None => tell(&format!("{text}\n"))?,
        }
        Ok(())
    }

    fn page(&mut self, page: u32, text: String) -> Result<(), Failure> {
        self.named += 1;
        match &mut self.document {
            _ if self.named > NAMED_MAX => {}
            Some(document) => document.findings.push(WrongPage { page, text }),
            None => tell(&format!("page {page}: {text}\n"))?,
        }
        Ok(())
    }

    fn further(&self) -> u64 {
        self.named.saturating_sub(NAMED_MAX)
    }
}

/// Why the check stopped: the file cannot be read, or the reader of stdout has gone away.
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
        Stop::Verify(VerifyError::OtherFile(other)) => cannot_check(arguments, other),
        Stop::Verify(VerifyError::NoDatabase(format @ HeaderDamage::Format { .. })) => {
            cannot_check(arguments, format).help("use the program that made the database")
        }
        Stop::Verify(VerifyError::NoDatabase(damage)) => {
            let path = arguments.file.display();
            Failure::wrong_input(format!("{path} is no EDB database: header and shadow are both damaged"))
                .because(damage)
        }
    })
}

fn cannot_check(arguments: &VerifyArguments, cause: impl ToString) -> Failure {
    Failure::wrong_input(format!("cannot check {}", arguments.file.display())).because(cause)
}

fn unreadable(arguments: &VerifyArguments, error: std::io::Error) -> Failure {
    Failure::wrong_input(format!("cannot read {}", arguments.file.display())).because(error)
}

fn verify(arguments: &VerifyArguments) -> Result<Status, Stop> {
    let document = arguments.json.then(Verified::default);
    let mut teller = Teller { document, named: 0 };
    detail!("reads {}, and writes nothing into it", arguments.file.display());
    let mut file = File::open(&arguments.file).map_err(VerifyError::Read)?;
    let file_bytes = file.metadata().map_err(VerifyError::Read)?.len();
    let flush_map = std::fs::read(arguments.file.with_extension("jfm")).ok();
    let mut opened = Opened::new(&mut file, file_bytes, flush_map.as_deref())?;
    if opened.is_dirty() {
        let text = "the database was not closed, or is in use: recovery may repair what is reported here";
        teller.note(text.to_owned())?;
    }
    for note in opened.damaged_header.iter().chain(&opened.untold) {
        teller.note(note.clone())?;
    }
    let mut copy = arguments.repair_to.as_deref().map(create_new).transpose()?;
    let found =
        opened.check(&mut file, copy.as_mut().map(|copy| copy as &mut dyn Write), |pgno, finding| {
            match describe_page(finding) {
                Some(words) => teller.page(pgno, words).map_err(Stop::from),
                None => Ok(()),
            }
        })?;
    if teller.further() > 0 && !arguments.json {
        tell(&format!("... and {} more\n", number(teller.further() as f64, 0)))?;
    }
    if let Some(copy) = copy {
        copy.sync_all().map_err(VerifyError::Copy)?;
    }
    if found.tail_bytes > 0 {
        let tail = counted(found.tail_bytes, "byte");
        teller.note(format!("{tail} behind the last whole page: no page, and not checked"))?;
    }
    if let Some(cut_off) = found.cut_off {
        teller.note(cut_off.to_string())?;
    }
    if !arguments.json {
        tell(&Pages::of(&found.counts).text())?;
    }
    let notes = found.notes.iter().map(String::as_str).chain([found.unseen]);
    notes.map(str::to_owned).try_for_each(|note| teller.note(note))?;
    if let Some(to) = arguments.repair_to.as_ref().filter(|_| found.counts.correctable > 0) {
        teller.note(format!(
            "{} corrected in {}: more than two flipped bits may look like one; compare what you can",
            counted(found.counts.correctable, "page"),
            to.display()
        ))?;
    }
    let clean = found.is_clean() && opened.damaged_header.is_none();
    let further_findings = teller.further();
    if let Some(document) = teller.document {
        let (file, pages) = (arguments.file.clone(), Pages::of(&found.counts));
        json(&Verified { schema_version: 1, file, clean, pages, further_findings, ..document })?;
    }
    Ok(if clean { Status::Pass } else { Status::VerdictFail })
}

fn not_written(arguments: &VerifyArguments, error: std::io::Error) -> Failure {
    let to = arguments.repair_to.as_deref().unwrap_or(&arguments.file);
    Failure::could_not_run(format!("cannot write {}", to.display())).because(error)
}
