//! `[[fault]]` with nothing left to default: each kind with the keys that it takes, on a part that there is.
//!
//! Limits: which part fails, and whether what is left can do without it, depends on the hosts that take part in
//! a simulation. What depends on that is refused there.

use crate::error::{Checked, Wrong};
use crate::file::{Fault as Entry, FaultWord, SolutionFile, StorageArray, Store, TestKind, WhenLinkLost};
use crate::hosts::HostSpec;
use crate::names::DefinedNames;
use crate::source::Mistakes;
use crate::storage::Behind;

/// Kind of a planned fault in a simulation, with its keys.
#[derive(Debug, Clone, PartialEq)]
pub enum FaultKind {
    /// A disk of a volume fails.
    DiskFails {
        /// Disk of the volume, from 1; in a replicated store those of the host's node, disks before flash.
        disk: u32,
    },
    /// Every access of a disk becomes slower.
    DiskSlow {
        /// Disk of the volume, as for [`FaultKind::DiskFails`].
        disk: u32,
        /// Factor by which accesses of the disk take longer.
        factor: f64,
    },
    /// Disks are added to a dynamic pool.
    DisksAdded {
        /// Number of added disks.
        disks: u32,
    },
    /// A clone of a thin pool is taken and read.
    CloneRead {
        /// Largest rate of the reader, MiB/s; `None`: no limit.
        mib_per_s: Option<f64>,
    },
    /// A link between a host and its storage fails.
    PathLost,
    /// The link to the copy at another site fails.
    RemoteCopyLost,
    /// The battery of a controller's write cache fails.
    CacheUnprotected,
    /// A controller fails.
    ControllerFails,
    /// A host moves to another node of its replicated store.
    HostMoves {
        /// Node, from 1; `None`: the one after the host's.
        node: Option<u32>,
    },
    /// A node of a replicated store fails.
    NodeDies {
        /// Node, from 1; `None`: the one after the host's.
        node: Option<u32>,
    },
    /// Extents of a replicated store fail their checksum.
    ExtentsRot {
        /// Disk of the volume, as for [`FaultKind::DiskFails`].
        disk: u32,
        /// One in this many extents of the disk is bad.
        one_in: u64,
    },
    /// Two bits of a database page flip.
    BitRot {
        /// Name of the database; `None`: the first on the volume.
        database: Option<String>,
        /// Page number, from 1.
        page: u32,
    },
}

/// Planned fault. What it breaks does not fail the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Kind of the fault, with its keys.
    pub kind: FaultKind,
    /// Kind of test in which it happens; `None`: every kind but drills.
    pub test: Option<TestKind>,
    /// Name of the host; `None`: the first that takes part.
    pub host: Option<String>,
    /// Name of the volume; `None`: the first of the host.
    pub volume: Option<String>,
    /// Time of the fault, s after the start of the measured window, or of the test if it has none.
    pub at_s: f64,
    /// Length of the fault, s; `None`: to the end of the test, or for good if it is a loss.
    pub duration_s: Option<f64>,
    /// Note that explains why the fault is expected.
    pub note: Option<String>,
}

/// Page that a `bit_rot` without `page` hits: in the first 128 MiB of any database.
const ROTTEN_PAGE: u32 = 4096;

impl FaultKind {
    /// Name of the kind in the solution file.
    pub fn name(&self) -> &'static str {
        match self {
            FaultKind::DiskFails { .. } => "disk_fails",
            FaultKind::DiskSlow { .. } => "disk_slow",
            FaultKind::DisksAdded { .. } => "disks_added",
            FaultKind::CloneRead { .. } => "clone_read",
            FaultKind::PathLost => "path_lost",
            FaultKind::RemoteCopyLost => "remote_copy_lost",
            FaultKind::CacheUnprotected => "cache_unprotected",
            FaultKind::ControllerFails => "controller_fails",
            FaultKind::HostMoves { .. } => "host_moves",
            FaultKind::NodeDies { .. } => "node_dies",
            FaultKind::ExtentsRot { .. } => "extents_rot",
            FaultKind::BitRot { .. } => "bit_rot",
        }
    }

    /// Disk of the volume that the fault hits, from 1.
    pub fn disk(&self) -> Option<u32> {
        match *self {
            FaultKind::DiskFails { disk }
            | FaultKind::DiskSlow { disk, .. }
            | FaultKind::ExtentsRot { disk, .. } => Some(disk),
            _ => None,
        }
    }

    fn of(entry: &Entry) -> FaultKind {
        let disk = entry.disk.unwrap_or(1);
        match entry.kind {
            FaultWord::DiskFails => FaultKind::DiskFails { disk },
            FaultWord::DiskSlow => FaultKind::DiskSlow { disk, factor: entry.factor.unwrap_or(10.0) },
            FaultWord::DisksAdded => FaultKind::DisksAdded { disks: entry.disks.unwrap_or(1) },
            FaultWord::CloneRead => FaultKind::CloneRead { mib_per_s: entry.mib_per_s },
            FaultWord::PathLost => FaultKind::PathLost,
            FaultWord::RemoteCopyLost => FaultKind::RemoteCopyLost,
            FaultWord::CacheUnprotected => FaultKind::CacheUnprotected,
            FaultWord::ControllerFails => FaultKind::ControllerFails,
            FaultWord::HostMoves => FaultKind::HostMoves { node: entry.node },
            FaultWord::NodeDies => FaultKind::NodeDies { node: entry.node },
            FaultWord::ExtentsRot => FaultKind::ExtentsRot { disk, one_in: entry.one_in.unwrap_or(1000) },
            FaultWord::BitRot => FaultKind::BitRot {
                database: entry.database.clone(),
                page: entry.page.unwrap_or(ROTTEN_PAGE),
            },
        }
    }

    /// Keys that this kind takes besides those of every fault.
    fn keys(&self) -> &'static [&'static str] {
        match self {
            FaultKind::DiskFails { .. } => &["disk"],
            FaultKind::DiskSlow { .. } => &["disk", "factor", "duration_s"],
            FaultKind::DisksAdded { .. } => &["disks"],
            FaultKind::CloneRead { .. } => &["mib_per_s"],
            FaultKind::PathLost | FaultKind::RemoteCopyLost | FaultKind::CacheUnprotected => &["duration_s"],
            FaultKind::ControllerFails => &[],
            FaultKind::HostMoves { .. } | FaultKind::NodeDies { .. } => &["node"],
            FaultKind::ExtentsRot { .. } => &["disk", "one_in"],
            FaultKind::BitRot { .. } => &["database", "page"],
        }
    }
}

/// Hosts, volumes and pools in which the parts of faults are looked up.
struct FaultTargets<'a> {
    named: &'a DefinedNames,
    array: Option<&'a StorageArray>,
}

/// Resolves every `[[fault]]`, in the order of the file.
pub(crate) fn faults(file: &SolutionFile, named: &DefinedNames, mistakes: &mut Mistakes<'_>) -> Vec<Fault> {
    let parts = FaultTargets { named, array: file.array.as_ref() };
    let checked = |(index, entry): (usize, &Entry)| {
        let fault = Fault {
            kind: FaultKind::of(entry),
            test: entry.test,
            host: entry.host.clone(),
            volume: entry.volume.clone(),
            at_s: entry.at_s.unwrap_or(0.0),
            duration_s: entry.duration_s,
            note: entry.note.clone(),
        };
        let at = format!("fault[{index}]");
        refuse_misplaced(entry, &fault, &at)?;
        parts.check(&fault, &at)?;
        Ok(fault)
    };
    let entries = file.fault.iter().enumerate();
    entries.filter_map(|entry| mistakes.keep(checked(entry))).collect()
}

/// Refuses keys that the kind of fault does not take.
fn refuse_misplaced(entry: &Entry, fault: &Fault, at: &str) -> Checked<()> {
    let given = [
        ("disk", entry.disk.is_some()),
        ("disks", entry.disks.is_some()),
        ("database", entry.database.is_some()),
        ("page", entry.page.is_some()),
        ("node", entry.node.is_some()),
        ("one_in", entry.one_in.is_some()),
        ("factor", entry.factor.is_some()),
        ("mib_per_s", entry.mib_per_s.is_some()),
        ("duration_s", entry.duration_s.is_some()),
    ];
    let (kind, taken) = (fault.kind.name(), fault.kind.keys());
    match given.into_iter().find(|(key, is_given)| *is_given && !taken.contains(key)) {
        None => Ok(()),
        Some(("duration_s", _)) => {
            let message = format!("{kind} has no end that a duration could set");
            Err(Wrong::new(format!("{at}.duration_s"), message).help("leave duration_s out"))
        }
        Some((key, _)) => Err(Wrong::new(format!("{at}.{key}"), format!("{kind} takes no {key}"))
            .help(format!("leave {key} out"))),
    }
}

impl FaultTargets<'_> {
    fn check(&self, fault: &Fault, at: &str) -> Checked<()> {
        if fault.test == Some(TestKind::Drill) {
            let wrong = Wrong::new(format!("{at}.test"), "no fault happens in a drill");
            return Err(wrong.help("a drill has failures of its own: [[test.drill.event]]"));
        }
        let Some(host) = self.host(fault, at)? else { return Ok(()) };
        let usable = || host.volumes.iter().filter(|volume| volume.is_under_test && volume.path.is_some());
        let volume = match &fault.volume {
            None => usable().next(),
            Some(name) => {
                let known = || usable().map(|volume| volume.name.as_str());
                let path = format!("{at}.volume");
                let unknown = || Wrong::unknown_name("volume with a path", name, known(), path);
                Some(usable().find(|volume| volume.name == *name).ok_or_else(unknown)?)
            }
        };
        if let FaultKind::BitRot { database, page } = &fault.kind {
            return check_page(host, fault.volume.as_deref(), database.as_deref(), *page, at);
        }
        match (self.array, volume) {
            (Some(array), Some(volume)) => self.check_part(array, fault, &host.name, volume, at),
            _ => {
                let wrong = Wrong::new(at, "no modelled volume is hit by this fault");
                Err(wrong.help("name host and volume, and describe [array]"))
            }
        }
    }

    /// Host of a fault that names none: the first under test; `None` if no host is under test.
    fn host(&self, fault: &Fault, at: &str) -> Checked<Option<&HostSpec>> {
        let Some(name) = &fault.host else {
            return Ok(self.named.hosts.iter().find(|host| host.is_under_test));
        };
        let known = || self.named.hosts.iter().map(|host| host.name.as_str());
        let path = format!("{at}.host");
        let found = self.named.hosts.iter().find(|host| host.name == *name);
        match found.ok_or_else(|| Wrong::unknown_name("host", name, known(), &path))? {
            host if host.is_under_test => Ok(Some(host)),
            _ => {
                let message = format!("host `{name}` is not under test, so nothing happens to it");
                Err(Wrong::new(path, message).help("add it to hosts in [under_test]"))
            }
        }
    }

    /// Checks that the array has the part that a fault hits, and that the fault can end.
    fn check_part(
        &self,
        array: &StorageArray,
        fault: &Fault,
        host: &str,
        volume: &crate::VolumeInfo,
        at: &str,
    ) -> Checked<()> {
        let refuse = |field: &str, message: String, help: &str| {
            let wrong = Wrong::new(format!("{at}{field}"), message);
            Err(if help.is_empty() { wrong } else { wrong.help(help) })
        };
        let (name, behind) = (&volume.name, self.named.volumes[volume.kind].behind);
        let pool = match behind {
            Behind::Pool(pool) => Some(&self.named.pools[pool]),
            _ => None,
        };
        let nodes = array.replicated().filter(|_| pool.is_some()).map(|store| store.nodes);
        let disks = array.disks_of(behind, &self.named.pools);
        if fault.kind.disk().is_some_and(|disk| disk > disks) {
            return refuse(
                ".disk",
                format!("volume `{name}` has no disk of this number, the last is {disks}"),
                "",
            );
        }
        match fault.kind {
            FaultKind::ExtentsRot { .. } if nodes.is_none() => {
                let help = "describe a replicated store";
                refuse("", format!("no copies on `{name}` can be bad so"), help)
            }
            FaultKind::HostMoves { node } | FaultKind::NodeDies { node } => match nodes {
                None => {
                    let help = "describe a replicated store, or leave this fault out";
                    refuse("", format!("{host} is on no node of a replicated store"), help)
                }
                Some(nodes) if node.is_some_and(|node| node > nodes) => {
                    refuse(".node", format!("the store has nodes 1 to {nodes}"), "")
                }
                Some(_) => Ok(()),
            },
            FaultKind::DisksAdded { .. }
                if pool.is_none() || !matches!(array.store, Some(Store::DynamicPool { .. })) =>
            {
                let help = "store = { kind = \"dynamic_pool\", .. } in [array]";
                refuse("", format!("volume `{name}` lies in no dynamic pool"), help)
            }
            FaultKind::CloneRead { .. } if pool.is_none_or(|pool| pool.thin_chunk_kib.is_none()) => {
                let message = format!("volume `{name}` lies in no thin pool");
                refuse("", message, "thin_chunk_kib in its [[pool]]")
            }
            FaultKind::RemoteCopyLost if array.remote_copy.is_none() => {
                let message = format!("volume `{name}` has no copy at another site");
                refuse("", message, "add [array.remote_copy]")
            }
            _ if self.holds_its_test(array, fault) => {
                let message = format!(
                    "I/O of {host} waits until {} is over, and its test for the I/O",
                    fault.kind.name()
                );
                let help = "add duration_s, or a test with a measured window: performance or stress";
                refuse(".kind", message, help)
            }
            _ => Ok(()),
        }
    }

    /// Whether a fault without an end of its own would block its test: I/O waits for the end of the fault, and the
    /// fault for the end of a test that cannot come without that I/O.
    fn holds_its_test(&self, array: &StorageArray, fault: &Fault) -> bool {
        let waits = match fault.kind {
            FaultKind::PathLost => array.links_per_host == 1,
            FaultKind::RemoteCopyLost => {
                array.remote_copy.as_ref().is_some_and(|copy| copy.when_link_lost == WhenLinkLost::Stall)
            }
            _ => false,
        };
        waits && !fault.has_end()
    }
}

impl Fault {
    /// Whether a temporary fault ends by itself: after its duration, or with the measured window of its test.
    pub fn has_end(&self) -> bool {
        self.duration_s.is_some() || self.test.is_some_and(|test| TestKind::WINDOWED.contains(&test))
    }
}

/// Checks that a database of the host or volume has the page; skipped if the file does not describe the databases.
fn check_page(
    host: &HostSpec,
    volume: Option<&str>,
    database: Option<&str>,
    page: u32,
    at: &str,
) -> Checked<()> {
    let Ok(instances) = &host.instances else { return Ok(()) };
    let databases = instances.iter().flat_map(|instance| {
        instance.databases.iter().map(move |database| (u64::from(instance.page_bytes), database))
    });
    let mut meant = databases.filter(|(_, one)| {
        database.is_none_or(|name| one.name == name) && volume.is_none_or(|name| one.volume == name)
    });
    // Two pages of header come first.
    let has_page =
        |(page_bytes, one): (u64, &crate::DatabaseSpec)| (u64::from(page) + 2) * page_bytes <= one.bytes;
    match meant.next().is_some_and(has_page) {
        true => Ok(()),
        false => {
            let wrong = Wrong::new(at, "no database has this page");
            Err(wrong.help("name a database of the host, and a page that it has"))
        }
    }
}
