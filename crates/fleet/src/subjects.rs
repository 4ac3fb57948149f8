//! Who speaks to whom on the bus, by the names of subjects.
//!
//! An agent asks on `proofload.<host>.beat` and `proofload.<host>.chunk`, and hears answers below
//! `proofload_inbox.<host>`. Copies speak on `proofload.<host>.copy` and hear on `proofload_inbox.<host>.copy`
//! what needs no answer ([`crate::arbiter`]). A host's credentials allow nothing else. The controller hears
//! `proofload.*.*`. A host name travels hex-escaped where NATS forbids a character.

use ring::rand::{SystemRandom, generate};

/// Subject on which the controllers of a fleet announce run and epoch. It lies below the inboxes, to which only a
/// controller may publish, and belongs to no host, because `=` is escaped in host names.
pub const CONTROLLERS: &str = "proofload_inbox.=controllers";

/// Subject for questions of a kind from a host.
pub fn subject(host: &str, kind: &str) -> String {
    format!("proofload.{}.{kind}", token(host))
}

/// Prefix of the subjects on which a host receives answers.
pub fn inbox(host: &str) -> String {
    format!("proofload_inbox.{}", token(host))
}

/// Subject on which a host's copies receive messages of the arbiter.
pub fn copy_inbox(host: &str) -> String {
    format!("{}.copy", inbox(host))
}

/// Encodes a host name as one token of a subject.
pub fn token(host: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    host.chars().fold(String::new(), |token, c| {
        if plain(c) { token + c.encode_utf8(&mut [0; 4]) } else { format!("{token}={:x}=", c as u32) }
    })
}

/// Random mark in the name of a run. It separates runs that two controllers begin in the same second for the same
/// solution. `None` if the operating system gives no random numbers.
pub fn mark_of_run() -> Option<String> {
    let drawn = generate::<[u8; 4]>(&SystemRandom::new()).ok()?;
    Some(format!("{:08x}", u32::from_le_bytes(drawn.expose())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_begin_in_one_second_have_names_of_their_own() {
        let marks = [mark_of_run().unwrap(), mark_of_run().unwrap()];
        assert!(
            marks[0] != marks[1] && marks.iter().all(|mark| crate::files::is_plain_name(mark)),
            "{marks:?}"
        );
    }

    #[test]
    fn different_hosts_have_different_subjects_of_three_tokens() {
        let names = ["a", "A", "a.b", "a b", "a=2e=b", "a*", "ä", ">"];
        let mut subjects: Vec<String> = names.iter().map(|name| subject(name, "beat")).collect();
        assert!(subjects.iter().all(|subject| subject.split('.').count() == 3), "{subjects:?}");
        assert!(subjects.iter().all(|subject| !subject.contains(['*', '>', ' '])), "{subjects:?}");
        subjects.sort();
        subjects.dedup();
        assert_eq!(subjects.len(), names.len());
    }
}
