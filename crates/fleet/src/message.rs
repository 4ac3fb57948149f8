//! What agents and controller say to each other.
//!
//! There is one exchange of a run: an agent sends a [`Heartbeat`] that says all about itself, the controller
//! answers with [`Orders`] that say all that it wants. Both are levels, not edges, so a lost, repeated or late
//! message changes nothing that the next exchange does not put right. Evidence travels in [`Chunk`]s, each
//! answered by how much has been kept so far.
//!
//! Copies and their arbiter say more, unasked and often ([`CopyHead`]).
//!
//! On the wire: JSON; a chunk, or what copies say, is its head in JSON, a line feed, and its bytes. Times are
//! nanoseconds.

use results::Environment;
use serde::{Deserialize, Serialize};

/// Version of these messages. Another version is refused by both sides.
pub const PROTOCOL: u32 = 3;
/// Bytes of a file in one chunk: with its head below the default payload limit of the bus, 1 MiB.
pub const CHUNK_BYTES: usize = 512 * 1024;

/// Names a place in the campaign at which the hosts of a run wait for each other: the n-th, from 1. All hosts
/// carry out the same tests, so they come to the same places in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point(pub u32);

/// A program that takes part in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// What it was built from and how, and SHA-256 of its executable file: programs of one version may still differ.
    pub build: String,
}

/// What the controller has a host do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Name of the run.
    pub run: String,
    /// Version of the controller's program: hosts of one run measure with the same one.
    pub tool_version: String,
    /// The host of the solution file that this agent stands for.
    pub host: String,
    /// The solution file.
    pub solution: String,
    /// Kinds of tests to run; all if empty.
    pub tests: Vec<String>,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Allow databases on a memory file system.
    pub allow_memory: bool,
    /// What to do when the controller is not heard of for too long.
    pub when_alone: WhenAlone,
    /// How long is too long.
    pub alone_after_ms: u64,
}

/// What an agent does with its run when it has not heard of the controller for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenAlone {
    /// It goes on without waiting for others, and says so in its evidence.
    #[default]
    Finish,
    /// It ends the run in good order.
    Stop,
}

/// How a host's part of a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Every test was carried out, no verdict of this host failed. What all hosts did together, the controller judges.
    Passed,
    /// Every test was carried out, some verdict failed.
    Failed,
    /// It was stopped in good order.
    Interrupted,
    /// It could not go on.
    Aborted,
    /// The agent died in the middle; what it had kept by then is all there is.
    AgentDied,
}

/// What an agent saw on its host before the tests.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Look {
    /// What it looked at, for people.
    pub checks: Vec<String>,
    /// What tells the host and its storage from others ([`evidence::environment::sharing`]).
    #[serde(default)]
    pub identity: Vec<Environment>,
}

/// A file of the evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceFile {
    /// Its name, without a folder.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// SHA-256 of its contents, in hexadecimal.
    pub sha256: String,
}

/// What an agent is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Work {
    /// Nothing.
    Idle,
    /// It has looked at what the run needs and found it in order.
    Ready(Look),
    /// It cannot do its part.
    Refused {
        /// Why, with the remedy.
        why: String,
    },
    /// The tests are running.
    Running {
        /// Where it waits for the others, if it does.
        waiting_at: Option<Point>,
        /// What it is doing, for people.
        progress: String,
        /// Share of the campaign that is done, 0 to 1.
        done: f64,
        /// Transactional I/O per second.
        iops: f64,
        /// Mean transactional read latency of the test so far.
        read_latency_ms: f64,
        /// Mean log write latency of the test so far.
        log_write_latency_ms: f64,
    },
    /// Its part is over; the evidence is in its own folder.
    Ended {
        /// How it ended.
        how: Ended,
        /// The cause, if it could not go on.
        why: Option<String>,
        /// The evidence.
        files: Vec<EvidenceFile>,
    },
}

/// All about an agent, sent about twice a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// Version of the sender's program.
    pub tool_version: String,
    /// [`Program::build`] of the sender.
    #[serde(default)]
    pub build: String,
    /// The host that the sender's credentials are for.
    pub host: String,
    /// Drawn when the agent's process started: another number is another process.
    pub process: u64,
    /// Drawn for this message; the answer to it carries the same.
    pub nonce: u64,
    /// The run that `work` is about.
    pub run: Option<String>,
    /// The highest epoch of that run that the agent has obeyed.
    pub epoch: u64,
    /// What it is doing.
    pub work: Work,
    /// The agent's calendar minus the controller's, as far as the agent knows it.
    pub calendar_offset_ns: Option<i64>,
    /// Half the round trip of the best exchange: how wrong the agent's idea of the controller's time can be.
    pub clock_uncertainty_ns: Option<u64>,
    /// Orders that it did not obey since the last heartbeat, and why.
    pub refusals: Vec<String>,
    /// Why the agent cannot write its own state, if it cannot.
    #[serde(default)]
    pub state_error: Option<String>,
}

/// All that the controller wants of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// Of the heartbeat that this answers.
    pub nonce: u64,
    /// The controller's calendar when it answered, since 1970.
    pub now_unix_ns: u64,
    /// The run that this is about.
    pub run: String,
    /// Grows with each start of a controller of this run: orders of an older one are not obeyed.
    pub epoch: u64,
    /// What it is to do; sent until the agent says that it has it.
    pub assignment: Option<Assignment>,
    /// Whether the tests may start.
    pub go: bool,
    /// Why the run is to end in good order, if it is.
    pub stop: Option<String>,
    /// The latest point that the hosts may pass, and when, by the controller's calendar.
    pub released: Option<(Point, u64)>,
    /// Hosts that take no part in the run any more, although they should: the others do not wait for them.
    pub left: Vec<String>,
    /// Whether the evidence is wanted now.
    pub send_evidence: bool,
    /// Whether the controller has all evidence of this host: the agent may forget the run (its folder stays).
    pub have_evidence: bool,
    /// The agent has lost its memory of the run: `assignment` is not to be carried out again. The agent says
    /// what evidence of it lies in its folder.
    pub collect: bool,
    /// Why the controller does not speak with this agent, if it does not.
    pub refused: Option<String>,
}

/// Characters of a text of another host that are kept.
const TEXT_MAX: usize = 600;
/// Texts of one heartbeat that are kept.
const TEXTS_MAX: usize = 20;
/// Rows of a host's identity that are kept.
const IDENTITY_MAX: usize = 2_000;

/// A text of another host, as it may reach a terminal or a log: printable, and not longer than a few lines.
pub(crate) fn tame(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let mut tamed: String = text.chars().take(TEXT_MAX).map(printable).collect();
    if text.chars().nth(TEXT_MAX).is_some() {
        tamed.push('…');
    }
    tamed
}

fn tame_all(texts: &[String]) -> Vec<String> {
    texts.iter().take(TEXTS_MAX).map(|text| tame(text)).collect()
}

impl Heartbeat {
    /// The same with texts that may be shown. The name of a run that this fleet could have is not changed by
    /// that. Names of files stay as they are: they are compared, not shown.
    pub fn tamed(self) -> Heartbeat {
        let work = match self.work {
            Work::Ready(Look { checks, identity }) => {
                let tame_row = |row: Environment| Environment {
                    host: self.host.clone(),
                    area: tame(&row.area),
                    value: tame(&row.value),
                    ..row
                };
                let identity = identity.into_iter().take(IDENTITY_MAX).map(tame_row).collect();
                Work::Ready(Look { checks: tame_all(&checks), identity })
            }
            Work::Refused { why } => Work::Refused { why: tame(&why) },
            Work::Running { waiting_at, progress, done, iops, read_latency_ms, log_write_latency_ms } => {
                let progress = tame(&progress);
                Work::Running { waiting_at, progress, done, iops, read_latency_ms, log_write_latency_ms }
            }
            Work::Ended { how, why, files } => Work::Ended { how, why: why.map(|why| tame(&why)), files },
            Work::Idle => Work::Idle,
        };
        let [tool_version, build] = [self.tool_version, self.build].map(|text| tame(&text));
        let refusals = tame_all(&self.refusals);
        let [run, state_error] = [self.run, self.state_error].map(|text| text.map(|text| tame(&text)));
        Heartbeat { work, tool_version, build, run, refusals, state_error, ..self }
    }
}

/// Head of a piece of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// The host.
    pub host: String,
    /// The run.
    pub run: String,
    /// The whole file.
    pub file: EvidenceFile,
    /// Where in the file the bytes belong.
    pub offset: u64,
}

/// Answer to a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkAnswer {
    /// Bytes of the file that the controller has kept, from its start.
    pub kept: u64,
    /// Why the chunk was not taken, if it was not.
    pub refused: Option<String>,
}

/// Head of what copies and their arbiter say to each other; behind it a message of `replica::wire`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyHead {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// The run.
    pub run: String,
    /// The epoch of the arbiter's controller, or the highest one that the copy's agent has obeyed.
    pub epoch: u64,
}

/// What each controller says to the others of its fleet, about twice a second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerHead {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// The run that it conducts.
    pub run: String,
    /// Its epoch.
    pub epoch: u64,
    /// When it started, by its calendar: of two runs that want the same hosts, the earlier one goes first.
    pub since_unix_ns: u64,
    /// The hosts that it wants or has.
    pub hosts: Vec<String>,
    /// It ends now, in good order.
    pub ends: bool,
}

/// A message that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("a message that cannot be read: {0}")]
pub struct Unreadable(String);

/// Reads a message of one JSON value.
pub fn parse<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, Unreadable> {
    serde_json::from_slice(payload).map_err(|error| Unreadable(error.to_string()))
}

/// Writes a message of one JSON value.
pub fn format<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages have string keys only")
}

/// Reads a message of a head and bytes.
pub fn parse_headed<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<(T, &'a [u8]), Unreadable> {
    let end = payload
        .iter()
        .position(|byte| *byte == b'\n')
        .ok_or_else(|| Unreadable("the head of a message does not end".into()))?;
    Ok((parse(&payload[..end])?, &payload[end + 1..]))
}

/// Writes a message of a head and bytes.
pub fn format_headed<T: Serialize>(head: &T, bytes: &[u8]) -> Vec<u8> {
    let mut payload = format(head);
    payload.push(b'\n');
    payload.extend_from_slice(bytes);
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk() -> Chunk {
        let file = EvidenceFile { name: "run.db".into(), bytes: 9, sha256: "00".into() };
        Chunk { protocol: PROTOCOL, host: "a".into(), run: "r".into(), file, offset: 4 }
    }

    #[test]
    fn a_chunk_keeps_its_bytes_whatever_they_are() {
        let bytes = [b'\n', 0, 255, b'{', b'\n'];
        let payload = format_headed(&chunk(), &bytes);
        let (head, rest) = parse_headed::<Chunk>(&payload).unwrap();
        assert_eq!((head, rest), (chunk(), &bytes[..]));
    }

    #[test]
    fn texts_of_a_host_reach_nobody_raw_or_without_limit() {
        assert_eq!(tame("a\x1b[2Jb\nc"), "a [2Jb c");
        assert_eq!(tame(&"x".repeat(1_000_000)).chars().count(), TEXT_MAX + 1);
        assert_eq!(tame_all(&vec![String::new(); 1_000]).len(), TEXTS_MAX);
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(parse_headed::<Chunk>(b"").is_err());
        assert!(parse_headed::<Chunk>(b"{}\nabc").is_err());
        assert!(parse::<Heartbeat>(b"\xff\xfe").is_err());
        assert!(parse::<Orders>(&format(&chunk())).is_err());
    }
}
