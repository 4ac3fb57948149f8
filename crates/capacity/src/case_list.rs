//! The cases of `--vary` as a list that several machines answer: the share of each, the answer of a case as a document,
//! and their merge.
//!
//! Invariant: answers are merged only if the same program gave them to the same list. A list is known by the text of
//! every case and by the options that decide the answers.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::answer::Variant;
use crate::carry::Case;

/// Share K of N of a list: every N-th case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    number: usize,
    of: usize,
}

impl Share {
    /// Parses `K/N` of the command line. The shares 0 and N are the same one, so tasks may count from 0 or from 1.
    ///
    /// # Errors
    /// It is no share.
    pub fn of_argument(argument: &str) -> Result<Share, String> {
        let numbers = argument.split_once('/').map(|(number, of)| (number.parse(), of.parse()));
        match numbers {
            Some((Ok(number), Ok(of))) if of > 0 && number <= of => Ok(Share { number, of }),
            _ => Err("write K/N such as 2/5, with K from 1 to N, or from 0 to N - 1".to_owned()),
        }
    }

    /// Whether the share has the case with this number, from 1.
    pub fn has(self, case: usize) -> bool {
        case % self.of == self.number % self.of
    }
}

/// Answer of one case of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseAnswer {
    /// Program that gave the answer, with its build.
    pub program: String,
    /// Digest of [`CaseList::text`].
    pub list: String,
    /// Number of the case, from 1.
    pub case: usize,
    /// Answer.
    pub variant: Variant,
}

/// List of cases that is answered in shares.
pub struct CaseList<'a> {
    /// Cases, the solution as described first.
    pub cases: &'a [Case],
    /// Program that reads the list, with its build.
    pub program: &'a str,
    /// Digest of [`CaseList::text`].
    pub digest: String,
}

/// Reason why the answers of a list cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// An answer belongs to another list.
    #[error("the case list has changed: case {0} was answered for another solution, or with other options")]
    OtherList(usize),
    /// An answer is of another program.
    #[error("case {case} was answered by {program}, and this is another version")]
    OtherProgram {
        /// Number of the case.
        case: usize,
        /// Program that answered it.
        program: String,
    },
    /// Cases have no answer.
    #[error("{} of {of} cases have no answer", .cases.len())]
    Cases {
        /// Numbers of the cases.
        cases: Vec<usize>,
        /// Number of all cases.
        of: usize,
    },
}

impl CaseList<'_> {
    /// Text by which a list is known: each case, and the options that decide the answers.
    pub fn text(cases: &[Case], options: &str) -> String {
        let mut text = format!("{options}\n");
        for case in cases {
            let changed = case.changed.as_deref().unwrap_or_default();
            let _ = writeln!(text, "{changed}\n{}", case.solution.text());
        }
        text
    }

    /// Document for the answer of a case.
    pub fn answer(&self, case: usize, variant: Variant) -> CaseAnswer {
        CaseAnswer { program: self.program.to_owned(), list: self.digest.clone(), case, variant }
    }

    /// Checks that an answer, found as that of `case`, belongs to this list.
    ///
    /// # Errors
    /// It is of another list or program.
    pub fn check(&self, case: usize, answer: &CaseAnswer) -> Result<(), MergeError> {
        if answer.program != self.program {
            return Err(MergeError::OtherProgram { case, program: answer.program.clone() });
        }
        if (answer.case, &answer.list) != (case, &self.digest) {
            return Err(MergeError::OtherList(case));
        }
        Ok(())
    }

    /// Answers of all cases in their order; `answers[i]` is that of case i + 1.
    ///
    /// # Errors
    /// A case has no answer, or one that does not belong to this list.
    pub fn merged(&self, answers: Vec<Option<CaseAnswer>>) -> Result<Vec<Variant>, MergeError> {
        for (case, answer) in (1..).zip(&answers) {
            answer.iter().try_for_each(|answer| self.check(case, answer))?;
        }
        let missing = (1..).zip(&answers).filter(|(_, answer)| answer.is_none());
        let cases: Vec<usize> = missing.map(|(case, _)| case).collect();
        if cases.is_empty() {
            Ok(answers.into_iter().flatten().map(|answer| answer.variant).collect())
        } else {
            Err(MergeError::Cases { cases, of: answers.len() })
        }
    }
}

/// Command line that answers one case alone: this one without what concerns the merged answer.
pub fn again(command: impl Iterator<Item = String>, case: usize, of: usize, folder: &str) -> String {
    let mut words = Vec::new();
    let mut command = command.skip(1);
    while let Some(word) = command.next() {
        match word.as_str() {
            "--merge" | "--write" => drop(command.next()),
            "--json" => {}
            other if other.starts_with("--merge=") || other.starts_with("--write=") => {}
            _ => words.push(word),
        }
    }
    let share = [format!("--case={case}/{of}"), "--out".to_owned(), folder.to_owned()];
    words.extend(share);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+".contains(c);
    let quoted = words.into_iter().map(|word| match word.chars().all(plain) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    format!("proofload {}", quoted.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_in_one_share_whether_tasks_count_from_0_or_from_1() {
        let share = |text: String| Share::of_argument(&text).expect("it is a share");
        for of in 1..7 {
            for shares in [0..of, 1..of + 1] {
                let shares: Vec<Share> = shares.map(|number| share(format!("{number}/{of}"))).collect();
                for case in 1..20 {
                    assert_eq!(shares.iter().filter(|share| share.has(case)).count(), 1, "{case} of {of}");
                }
            }
        }
        assert!(share("3/5".into()).has(3), "a case alone is its number of all");
        for wrong in ["", "1", "3/2", "1/0", "a/2", "-1/2", "1/2/3"] {
            assert!(Share::of_argument(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_that_answers_a_case_again_has_the_options_that_decide_the_answer() {
        let words =
            ["proofload", "capacity", "s.toml", "--vary", "copies=[1],[2]", "--merge", "answers", "--json"];
        let line = again(words.into_iter().map(str::to_owned), 3, 5, "my answers");
        assert_eq!(line, "proofload capacity s.toml --vary 'copies=[1],[2]' --case=3/5 --out 'my answers'");
    }
}
