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

/// Protocol version of these messages. Both sides refuse another version.
pub const PROTOCOL: u32 = 3;
/// Bytes of a file in one chunk: with its head below the default payload limit of the bus, 1 MiB.
pub const CHUNK_BYTES: usize = 512 * 1024;

/// Barrier of the campaign, by its number from 1. All hosts carry out the same tests, so they reach the same barriers
/// in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point(pub u32);

/// Version and build of a program that takes part in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Version of the program.
    pub version: String,
    /// Build of the program and SHA-256 of its executable: programs of one version may differ.
    pub build: String,
}

/// Assignment of a host in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Name of the run.
    pub run: String,
    /// Version of the controller's program; all hosts of a run use the same.
    pub tool_version: String,
    /// Host of the solution file that this agent represents.
    pub host: String,
    /// Text of the solution file.
    pub solution: String,
    /// Kinds of tests to carry out; empty: all.
    pub tests: Vec<String>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Whether databases on a memory file system are allowed.
    pub allow_memory: bool,
    /// Reaction to a lost controller.
    pub when_alone: WhenAlone,
    /// Silence after which the controller counts as lost, ms.
    pub alone_after_ms: u64,
}

/// Reaction of an agent to a lost controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenAlone {
    /// Finish without waiting for others, with a note in the evidence.
    #[default]
    Finish,
    /// End the run in order.
    Stop,
}

/// Ending of a host's part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Every test was carried out, and no verdict of this host failed. The controller judges what all hosts did
    /// together.
    Passed,
    /// Every test was carried out, and a verdict failed.
    Failed,
    /// The part was stopped and ended in order.
    Interrupted,
    /// The part could not go on.
    Aborted,
    /// The agent died during the tests; the evidence ends there.
    AgentDied,
}

/// Result of an agent's checks before the tests.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Look {
    /// Checks that were made, as text for people.
    pub checks: Vec<String>,
    /// Identifiers of the host and its storage, by which shared parts are found ([`evidence::environment::sharing`]).
    #[serde(default)]
    pub identity: Vec<Environment>,
}

/// File of the evidence, as announced by its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceFile {
    /// File name without a folder.
    pub name: String,
    /// Length of the file, bytes.
    pub bytes: u64,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
}

/// Current work of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Work {
    /// The agent has no work.
    Idle,
    /// The checks of the run's needs passed.
    Ready(Look),
    /// The agent cannot do its part.
    Refused {
        /// Reason, with the remedy.
        why: String,
    },
    /// The tests are running.
    Running {
        /// Barrier at which the tests wait for the other hosts; `None` if they do not.
        waiting_at: Option<Point>,
        /// Current activity, as text for people.
        progress: String,
        /// Finished share of the campaign, 0 to 1.
        done: f64,
        /// Transactional I/O per second.
        iops: f64,
        /// Mean transactional read latency of the test so far, ms.
        read_latency_ms: f64,
        /// Mean log write latency of the test so far, ms.
        log_write_latency_ms: f64,
    },
    /// The agent's part is over; the evidence is in its own folder.
    Ended {
        /// Ending of the part.
        how: Ended,
        /// Cause, if the part could not go on.
        why: Option<String>,
        /// Files of the evidence.
        files: Vec<EvidenceFile>,
    },
}

/// Heartbeat: the full state of an agent, sent about twice a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Protocol version of the sender ([`PROTOCOL`]).
    pub protocol: u32,
    /// Version of the sender's program.
    pub tool_version: String,
    /// Build of the sender's program ([`Program::build`]).
    #[serde(default)]
    pub build: String,
    /// Host to which the sender's credentials belong.
    pub host: String,
    /// Random number of this agent process. A different number means that the agent restarted.
    pub process: u64,
    /// Random number of this message, which its answer repeats.
    pub nonce: u64,
    /// Run that `work` is about.
    pub run: Option<String>,
    /// Highest epoch of that run whose orders the agent obeyed.
    pub epoch: u64,
    /// Current work of the agent.
    pub work: Work,
    /// Agent's calendar minus the controller's, ns, as far as the agent knows it.
    pub calendar_offset_ns: Option<i64>,
    /// Largest error of the agent's estimate of the controller's time, ns: half the round trip of the best exchange.
    pub clock_uncertainty_ns: Option<u64>,
    /// Orders that were not obeyed since the last heartbeat, with reasons.
    pub refusals: Vec<String>,
    /// Reason why the agent cannot store its state; `None` if it can.
    #[serde(default)]
    pub state_error: Option<String>,
}

/// Orders: everything that the controller wants of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// Protocol version of the sender ([`PROTOCOL`]).
    pub protocol: u32,
    /// Nonce of the heartbeat that this answers.
    pub nonce: u64,
    /// Controller's calendar at the time of the answer, ns since 1970.
    pub now_unix_ns: u64,
    /// Run that the orders are about.
    pub run: String,
    /// Epoch of the controller; it rises with each start. Orders of a lower epoch are not obeyed.
    pub epoch: u64,
    /// Assignment of the host; sent until the agent confirms it.
    pub assignment: Option<Assignment>,
    /// Whether the tests may start.
    pub go: bool,
    /// Reason why the run is to end in order; `None` if it is not.
    pub stop: Option<String>,
    /// Newest released barrier, and its time by the controller's calendar.
    pub released: Option<(Point, u64)>,
    /// Hosts that have left the run; the others do not wait for them.
    pub left: Vec<String>,
    /// Whether the controller wants the evidence now.
    pub send_evidence: bool,
    /// Whether the controller has all evidence of this host. The agent may then forget the run; its folder stays.
    pub have_evidence: bool,
    /// Whether the agent lost its state of the run: it must not carry out `assignment` again, but list the evidence in
    /// its folder.
    pub collect: bool,
    /// Reason why the controller refuses this agent; `None` if it does not.
    pub refused: Option<String>,
}

/// Largest length of a text from another host, characters.
const TEXT_MAX: usize = 600;
/// Largest number of texts of one heartbeat.
const TEXTS_MAX: usize = 20;
/// Largest number of identity rows of a host.
const IDENTITY_MAX: usize = 2_000;

/// Makes a text of another host safe for terminal and log: printable, and at most a few lines.
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
    /// Makes all shown texts of a message safe. Valid run names do not change. File names stay, because they are
    /// compared and not shown.
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

/// Head of a chunk of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Protocol version of the sender ([`PROTOCOL`]).
    pub protocol: u32,
    /// Host that sends the file.
    pub host: String,
    /// Run of the file.
    pub run: String,
    /// Announced file to which the chunk belongs.
    pub file: EvidenceFile,
    /// Offset of the chunk in the file, bytes.
    pub offset: u64,
}

/// Answer to a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkAnswer {
    /// Length of the controller's copy of the file, bytes.
    pub kept: u64,
    /// Reason why the chunk was refused; `None` if it was not.
    pub refused: Option<String>,
}

/// Head of a message between copies and their arbiter; a message of `replica::wire` follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyHead {
    /// Protocol version of the sender ([`PROTOCOL`]).
    pub protocol: u32,
    /// Run of the copies.
    pub run: String,
    /// Epoch of the arbiter's controller, or the highest one that the copy's agent has obeyed.
    pub epoch: u64,
}

/// Head of a message between the controllers of a fleet, about twice a second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerHead {
    /// Protocol version of the sender ([`PROTOCOL`]).
    pub protocol: u32,
    /// Run of the controller.
    pub run: String,
    /// Epoch of the controller.
    pub epoch: u64,
    /// Start of the controller by its calendar, ns. Of two runs that want the same hosts, the earlier one has
    /// precedence.
    pub since_unix_ns: u64,
    /// Hosts that the run wants or has.
    pub hosts: Vec<String>,
    /// Whether the controller ends now, in order.
    pub ends: bool,
}

/// Error: a message cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("a message that cannot be read: {0}")]
pub struct Unreadable(String);

/// Parses a message that is one JSON value.
pub fn parse<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, Unreadable> {
    serde_json::from_slice(payload).map_err(|error| Unreadable(error.to_string()))
}

/// Formats a message as one JSON value.
pub fn format<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages have string keys only")
}

/// Parses a message of a JSON head and bytes.
pub fn parse_headed<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<(T, &'a [u8]), Unreadable> {
    let end = payload
        .iter()
        .position(|byte| *byte == b'\n')
        .ok_or_else(|| Unreadable("the head of a message does not end".into()))?;
    Ok((parse(&payload[..end])?, &payload[end + 1..]))
}

/// Formats a message of a JSON head and bytes.
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
