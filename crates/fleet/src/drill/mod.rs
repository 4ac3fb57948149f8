//! A drill on the hosts of a fleet. The agents conduct it ([`campaign::drill::conduct`]), each for its own
//! host: a process of its own holds the copies, and the agent kills that process, cuts it off and starts it
//! again. The controller has the arbiter. Each agent and the controller keep a journal, and the controller
//! judges them all at the end.

mod agent_host;
mod journal;
mod process;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use campaign::barrier::Barrier;
use campaign::drill::{ARBITER_NAME, JournalHead, PlannedDrill, Reviewed, Topology, conduct, review};
use campaign::{CampaignError, CampaignOutcome};
use replication::HostId;
use results::Recorder;
use world::World;

use crate::arbiter::{ArbiterLink, Arbitration};
use crate::message::Assignment;
use crate::run_control::RunControl;
use agent_host::{AgentHost, Given, not_kept};

pub use journal::Journal;
pub use process::{CopyProcess, Purpose};

/// Subcommand of this program that holds copies ([`CopyProcess`]).
pub const COMMAND: &str = "drill-work";

/// The number of a host in a drill.
pub fn number_of(topology: &Topology, host: &str) -> Option<usize> {
    topology.hosts.iter().position(|known| known.name == host)
}

/// Addresses of the copies of each host.
pub fn addresses(topology: &Topology) -> BTreeMap<HostId, String> {
    let hosts = (0..).zip(&topology.hosts);
    hosts.filter_map(|(number, host)| Some((HostId(number), host.copy_address.clone()?))).collect()
}

/// Databases, copies and hosts of a drill, for its arbiter.
pub fn arbitration(topology: &Topology) -> Arbitration {
    let databases = topology.databases.iter().map(|database| (*database.spec).clone());
    Arbitration { databases: databases.collect(), hosts: topology.names() }
}

/// Part of a host in a drill.
pub struct HostPart<'a> {
    /// Plan of the drill.
    pub planned: &'a PlannedDrill,
    /// Assignment of the run.
    pub assignment: &'a Assignment,
    /// Credentials file of the host.
    pub credentials: PathBuf,
    /// Whether I/O is unbuffered.
    pub direct: bool,
    /// Folder of the evidence.
    pub folder: &'a Path,
    /// Run control, through which hosts wait for each other.
    pub control: &'a RunControl,
    /// Connection to the arbiter.
    pub link: ArbiterLink,
}

impl HostPart<'_> {
    /// Performs the part in step with the other hosts. The drill is judged later, where the journals of all hosts are.
    pub async fn carry_out(
        self,
        world: World,
        barrier: &dyn Barrier,
        recorder: &mut dyn Recorder,
    ) -> CampaignOutcome {
        CampaignOutcome { verdicts: Vec::new(), error: self.perform(world, barrier, recorder).await.err() }
    }

    async fn perform(
        self,
        world: World,
        barrier: &dyn Barrier,
        recorder: &mut dyn Recorder,
    ) -> Result<(), CampaignError> {
        let HostPart { planned, assignment, credentials, direct, folder, control, link } = self;
        let host = number_of(&planned.topology, &assignment.host).ok_or_else(|| {
            CampaignError::Drill(format!("host {} has no part in the drill", assignment.host))
        })?;
        let head = JournalHead::new(&assignment.run, &assignment.host, &assignment.solution);
        let journal = Journal::open(folder, &head).map_err(|error| not_kept(&error))?;
        let given = Given { planned, assignment, host, credentials, direct, control, journal, world };
        let mut drilled = AgentHost::new(given, link);
        conduct(planned, &[host], &mut drilled, barrier, recorder).await?;
        drilled.end()
    }
}

/// Judges the drill of `run` by the arbiter's journal in `folder` and the hosts' journals in the folders that
/// `of_host` returns.
pub fn judge(
    planned: &PlannedDrill,
    run: &str,
    solution_text: &str,
    folder: &Path,
    of_host: impl Fn(&str) -> PathBuf,
) -> Reviewed {
    let head = |author: &str| JournalHead::new(run, author, solution_text);
    let hosts = planned.topology.hosts.iter();
    let hosts: Vec<_> = hosts.map(|host| journal::read_in(&of_host(&host.name), &head(&host.name))).collect();
    review(planned, &hosts, &journal::read_in(folder, &head(ARBITER_NAME)))
}
