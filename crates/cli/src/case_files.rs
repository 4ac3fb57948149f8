//! `proofload capacity --case` and `--merge`: the answers of a list of cases, one file each.
//!
//! Invariant: a file has its name when it is complete, so a task that is killed leaves no half answer.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use capacity::{Case, CaseAnswer, CaseList, MergeError, Share, Variant, again};
use evidence::sha256_hex;

use crate::failure::{Failure, Status};

/// Answers of a list of cases in a folder.
pub struct CaseFiles<'a> {
    folder: &'a Path,
    list: CaseList<'a>,
}

impl<'a> CaseFiles<'a> {
    /// Files in `folder` for these cases with these options.
    pub fn new(folder: &'a Path, cases: &'a [Case], options: &str) -> CaseFiles<'a> {
        let digest = sha256_hex(CaseList::text(cases, options).as_bytes());
        CaseFiles { folder, list: CaseList { cases, program: crate::BUILD, digest } }
    }

    /// Answers the cases of a share that have no answer yet.
    pub fn answer(
        &self,
        share: Share,
        answers: impl FnOnce(&[Case]) -> Result<Option<Vec<Variant>>, Failure>,
    ) -> Result<Status, Failure> {
        let (mut numbers, mut cases) = (Vec::new(), Vec::new());
        for (number, case) in (1..).zip(self.list.cases).filter(|(number, _)| share.has(*number)) {
            match self.read(number)? {
                Some(answer) => {
                    self.list.check(number, &answer).map_err(|error| self.failure(&error))?;
                    say!("case {number} has its answer: {}", self.path(number).display());
                }
                None => {
                    numbers.push(number);
                    cases.push(case.clone());
                }
            }
        }
        if cases.is_empty() {
            return Ok(Status::Pass);
        }
        std::fs::create_dir_all(self.folder).map_err(|error| not_written(self.folder, &error))?;
        let Some(variants) = answers(&cases)? else { return Ok(Status::Interrupted) };
        for (number, variant) in numbers.into_iter().zip(variants) {
            self.write(&self.list.answer(number, variant))?;
        }
        Ok(Status::Pass)
    }

    /// The answers of all cases.
    pub fn merge(&self) -> Result<Vec<Variant>, Failure> {
        let answers = (1..=self.list.cases.len()).map(|number| self.read(number));
        let answers = answers.collect::<Result<Vec<_>, _>>()?;
        self.list.merged(answers).map_err(|error| self.failure(&error))
    }

    fn path(&self, case: usize) -> PathBuf {
        self.folder.join(format!("case-{case}.json"))
    }

    fn read(&self, case: usize) -> Result<Option<CaseAnswer>, Failure> {
        let path = self.path(case);
        let wrong = || Failure::wrong_input(format!("{} is no answer of a case", path.display()));
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong().because(error)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(wrong().because(error)),
        }
    }

    fn write(&self, answer: &CaseAnswer) -> Result<(), Failure> {
        let path = self.path(answer.case);
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let text = serde_json::to_string_pretty(answer).map_err(|error| not_written(&path, &error))?;
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, &path))
            .map_err(|error| not_written(&path, &error))?;
        say!("wrote {}", path.display());
        Ok(())
    }

    fn failure(&self, error: &MergeError) -> Failure {
        match error {
            MergeError::OtherList(_) | MergeError::OtherProgram { .. } => Failure::wrong_input(
                error.to_string(),
            )
            .help(format!("answer all cases into a new folder; {} stays as it is", self.folder.display())),
            MergeError::Cases { cases, of } => {
                for case in cases {
                    let changed = self.list.cases[case - 1].changed.as_deref().unwrap_or("as described");
                    say!("case {case} of {of} ({changed}) has no answer. Run it again:");
                    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
                    say!("  {}", again(words, *case, *of, &self.folder.display().to_string()));
                }
                Failure::could_not_run(error.to_string()).help("run these cases again, then merge again")
            }
        }
    }
}

fn not_written(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::could_not_run(format!("cannot write {}", path.display())).because(error)
}
