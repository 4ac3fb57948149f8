//! Disks, pools and volumes: which volume lies on what, and what it holds.

use crate::error::{Checked, Wrong};
use crate::file::{Disk, Enclosure, PoolIo, Raid, Role, Snapshots, SolutionFile, Tiering, Volume};
use crate::hosts::{HostSpec, VolumeInfo, known_host};
use crate::source::Mistakes;
use crate::template::{Names, matches, name, numbers};

/// Largest number of volumes, and of instances, of all hosts together.
pub(crate) const MAX_IN_ALL: usize = 1 << 16;

/// Pool: disks that several volumes share.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolSpec {
    /// Name of the pool.
    pub name: String,
    /// Number of pools of this form in the environment.
    pub count: u32,
    /// Index of the kind of disk.
    pub disk: usize,
    /// Number of disks in one pool.
    pub disks: u32,
    /// Faster tier of the pool.
    pub fast: Option<FastTier>,
    /// Protection of the pool.
    pub raid: Raid,
    /// Tiering between the disks and the faster tier.
    pub tiering: Option<TieringSpec>,
    /// Number of disks of one parity group.
    pub group_disks: u32,
    /// Usable capacity, GiB.
    pub formatted_gib: f64,
    /// Capacity after compression and deduplication, GiB, if different.
    pub effective_gib: Option<f64>,
    /// Back-end writes per random write; `None`: by the RAID level.
    pub write_penalty: Option<f64>,
    /// Whether the I/O of the pool follows from its disks or from the array.
    pub io: PoolIo,
    /// Chunk of thin provisioning, KiB: a volume takes a chunk at its first write. `None`: volumes take all space from
    /// the start.
    pub thin_chunk_kib: Option<u64>,
    /// Snapshots of the pool's volumes.
    pub snapshots: Option<Snapshots>,
}

/// Faster tier of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastTier {
    /// Index of the kind of disk.
    pub disk: usize,
    /// Number of disks in one pool.
    pub disks: u32,
}

/// Tiering of a pool: slices of its volumes move to the faster tier by their reads and writes.
#[derive(Debug, Clone, PartialEq)]
pub struct TieringSpec {
    /// Kind of tiering, as named in `assumptions.toml`.
    pub model: String,
    /// Protection of the faster tier.
    pub raid: Raid,
    /// Minutes from one relocation to the next.
    pub every_min: f64,
    /// Whether every slice starts where the first relocation would move it.
    pub settled: bool,
}

/// Storage behind a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// The volume has disks of its own.
    Disks {
        /// Index of the kind of disk.
        disk: usize,
        /// Number of disks.
        disks: u32,
        /// Protection of the disks.
        raid: Raid,
    },
    /// The volume is a part of the pool with this index.
    Pool(usize),
    /// The file does not describe the storage.
    Unknown,
}

/// Kind of volume: the volumes that one `[[volume]]` describes.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeKind {
    /// Name in the file, a template.
    pub name: String,
    /// Role of the volumes.
    pub role: Role,
    /// Number of volumes on each host.
    pub count: u32,
    /// Indexes of the hosts that have them.
    pub hosts: Vec<usize>,
    /// Storage behind each volume.
    pub behind: Behind,
    /// Capacity of each, GiB, if the file gives enough to know it.
    pub capacity_gib: Option<f64>,
    /// Name of the enclosure with the disks; `None`: that of the host.
    pub enclosure: Option<String>,
}

/// Formatted capacity in GiB of `disks` disks of `capacity_gb` (10^9 bytes) each under a RAID level. Parity groups span
/// `group_disks` disks.
pub fn gib_of_disks(capacity_gb: f64, disks: u32, raid: Raid, group_disks: u32) -> f64 {
    let disks = f64::from(disks);
    let groups = (disks / f64::from(group_disks.max(1))).ceil();
    let data_disks = match raid {
        Raid::Jbod | Raid::Raid0 => disks,
        Raid::Raid1 | Raid::Raid10 | Raid::Replica2 => disks / 2.0,
        Raid::Replica3 => disks / 3.0,
        Raid::Raid5 => disks - groups,
        Raid::Raid6 => disks - 2.0 * groups,
        Raid::TripleParity => disks - 3.0 * groups,
    };
    data_disks.max(0.0) * capacity_gb * 1e9 / (1u64 << 30) as f64
}

/// Index of the kind of disk `name`, which the value at `path` refers to.
pub(crate) fn disk_index(disks: &[Disk], name: &str, path: &str) -> Checked<usize> {
    let known = || disks.iter().map(|disk| disk.name.as_str());
    known().position(|known| known == name).ok_or_else(|| Wrong::unknown_name("disk", name, known(), path))
}

/// All pools in the order of the file. A wrong entry is left out, so indexes are valid only without mistakes.
pub(crate) fn pools(file: &SolutionFile, mistakes: &mut Mistakes<'_>) -> Vec<PoolSpec> {
    let entries = (0..file.pool.len()).map(|entry| pool(file, entry));
    entries.filter_map(|pool| mistakes.keep(pool)).collect()
}

fn pool(file: &SolutionFile, entry: usize) -> Checked<PoolSpec> {
    let pool = &file.pool[entry];
    let path = format!("pool[{entry}]");
    let disk = disk_index(&file.disk, &pool.disk, &format!("{path}.disk"))?;
    let fast = match (&pool.fast_disk, pool.fast_disks) {
        (Some(kind), disks) => {
            let disk = disk_index(&file.disk, kind, &format!("{path}.fast_disk"))?;
            (disks > 0).then_some(FastTier { disk, disks })
        }
        (None, 0) => None,
        (None, disks) => {
            let message =
                format!("pool `{}` does not say of what kind its {disks} faster disks are", pool.name);
            return Err(Wrong::new(format!("{path}.fast_disks"), message).help("add fast_disk"));
        }
    };
    if let Some(lacking) = pool.raid.lacks(pool.disks) {
        let message =
            format!("pool `{}` cannot be made at this RAID level with disks = {}", pool.name, pool.disks);
        return Err(Wrong::new(format!("{path}.disks"), message).help(lacking));
    }
    let tiering = pool.tiering.as_ref().map(|tiering| tiering_of(tiering, pool.raid));
    if let (Some(tiering), Some(fast)) = (&tiering, fast)
        && let Some(lacking) = tiering.raid.lacks(fast.disks)
    {
        let message = format!(
            "the faster tier of pool `{}` cannot be made at this RAID level with fast_disks = {}",
            pool.name, fast.disks
        );
        return Err(Wrong::new(format!("{path}.fast_disks"), message).help(lacking));
    }
    let group_disks = pool.group_disks.unwrap_or(pool.disks);
    let of_disks = gib_of_disks(file.disk[disk].capacity_gb, pool.disks, pool.raid, group_disks);
    let formatted_gib = pool.formatted_gib.unwrap_or(of_disks);
    if formatted_gib <= 0.0 {
        let message = format!("pool `{}` has no disk left for data", pool.name);
        return Err(Wrong::new(format!("{path}.disks"), message));
    }
    let saving = pool.saving_percent;
    let saved = (saving > 0.0).then_some(formatted_gib / (1.0 - saving / 100.0));
    Ok(PoolSpec {
        name: pool.name.clone(),
        count: pool.count,
        disk,
        disks: pool.disks,
        fast,
        raid: pool.raid,
        tiering,
        group_disks,
        formatted_gib,
        effective_gib: pool.effective_gib.or(saved),
        write_penalty: pool.write_penalty,
        io: pool.io,
        thin_chunk_kib: pool.thin_chunk_kib,
        snapshots: pool.snapshots,
    })
}

fn tiering_of(tiering: &Tiering, of_pool: Raid) -> TieringSpec {
    TieringSpec {
        model: tiering.model.clone(),
        raid: tiering.raid.unwrap_or(of_pool),
        every_min: tiering.every_min,
        settled: tiering.settled,
    }
}

/// All kinds of volume in the order of the file, and the volumes of each host. A wrong entry is left out.
pub(crate) fn volumes(
    file: &SolutionFile,
    enclosures: &[Enclosure],
    hosts: &mut [HostSpec],
    mistakes: &mut Mistakes<'_>,
) -> Vec<VolumeKind> {
    let mut kinds = Vec::new();
    let mut in_all = 0;
    for (entry, volume) in file.volume.iter().enumerate() {
        let path = format!("volume[{entry}]");
        if let Some(pattern) = &volume.host {
            mistakes.keep(known_host(pattern, hosts, &format!("{path}.host")));
        }
        let Some((behind, capacity_gib)) = mistakes.keep(behind(file, volume, &path)) else { continue };
        mistakes.keep(known_enclosure(file, volume, enclosures, &path));
        let is_on =
            |host: &HostSpec| volume.host.as_deref().is_none_or(|pattern| matches(pattern, &host.name));
        let on: Vec<usize> = (0..hosts.len()).filter(|&host| is_on(&hosts[host])).collect();
        for &host in &on {
            let host = &mut hosts[host];
            let already = host.volumes.len();
            match of_host(volume, &path, host, kinds.len(), capacity_gib) {
                Ok(()) => in_all += host.volumes.len() - already,
                Err(wrong) => mistakes.add(wrong),
            }
            if in_all > MAX_IN_ALL {
                let message = format!("all hosts together have more than {MAX_IN_ALL} volumes");
                mistakes.add(Wrong::new(format!("{path}.count"), message));
                return kinds;
            }
        }
        kinds.push(VolumeKind {
            name: volume.name.clone(),
            role: volume.role,
            count: volume.count,
            hosts: on,
            behind,
            capacity_gib,
            enclosure: volume.enclosure.clone(),
        });
    }
    kinds
}

/// Storage behind a volume, and its capacity in GiB.
fn behind(file: &SolutionFile, volume: &Volume, path: &str) -> Checked<(Behind, Option<f64>)> {
    match (&volume.disk, &volume.pool) {
        (Some(_), Some(_)) => {
            let message = format!("volume `{}` has disks of its own and lies in a pool", volume.name);
            Err(Wrong::new(format!("{path}.pool"), message).help("keep either disk or pool"))
        }
        (None, Some(name)) => {
            let known = || file.pool.iter().map(|pool| pool.name.as_str());
            let unknown = || Wrong::unknown_name("pool", name, known(), format!("{path}.pool"));
            let pool = known().position(|known| known == name).ok_or_else(unknown)?;
            Ok((Behind::Pool(pool), volume.capacity_gib))
        }
        (None, None) => Ok((Behind::Unknown, volume.capacity_gib)),
        (Some(kind), None) => {
            let disk = disk_index(&file.disk, kind, &format!("{path}.disk"))?;
            let (disks, raid) = (volume.disks, volume.raid);
            if let Some(lacking) = raid.lacks(disks) {
                let message = format!(
                    "volume `{}` cannot be made at this RAID level with disks = {disks}",
                    volume.name
                );
                return Err(Wrong::new(format!("{path}.disks"), message).help(lacking));
            }
            let of_disks = gib_of_disks(file.disk[disk].capacity_gb, disks, raid, disks);
            Ok((Behind::Disks { disk, disks, raid }, volume.capacity_gib.or(Some(of_disks))))
        }
    }
}

/// Checks the name of an enclosure. Without `[[enclosure]]` any name is allowed, as for hosts.
fn known_enclosure(
    file: &SolutionFile,
    volume: &Volume,
    enclosures: &[Enclosure],
    path: &str,
) -> Checked<()> {
    let known = || enclosures.iter().map(|enclosure| enclosure.name.as_str());
    match &volume.enclosure {
        Some(name) if !file.enclosure.is_empty() && !known().any(|known| known == name) => {
            Err(Wrong::unknown_name("enclosure", name, known(), format!("{path}.enclosure")))
        }
        _ => Ok(()),
    }
}

/// Adds the volumes of an entry to a host.
fn of_host(
    volume: &Volume,
    path: &str,
    host: &mut HostSpec,
    kind: usize,
    capacity_gib: Option<f64>,
) -> Checked<()> {
    for n in numbers(volume.count, 1, &format!("{path}.count"), host.volumes.len())? {
        let names = Names { n, host: Some(&host.name) };
        let written = name(&volume.name, names, &format!("{path}.name"))?;
        if host.volumes.iter().any(|other| other.name == written) {
            let message = format!("host `{}` has two volumes called `{written}`", host.name);
            return Err(Wrong::new(format!("{path}.name"), message).help("a name with {n} counts"));
        }
        let folder = volume.path.as_ref();
        let folder = folder.map(|folder| name(folder, names, &format!("{path}.path"))).transpose()?;
        host.volumes.push(VolumeInfo {
            name: written,
            role: volume.role,
            path: folder,
            capacity_gib,
            kind,
            is_under_test: false,
        });
    }
    Ok(())
}

/// Marks the volumes that the tests use: all volumes of the hosts under test, but database volumes only up to the
/// number in `[under_test]`.
pub(crate) fn mark_under_test(file: &SolutionFile, hosts: &mut [HostSpec], mistakes: &mut Mistakes<'_>) {
    let limit = file.under_test.as_ref().and_then(|part| part.volumes_per_host);
    for host in hosts.iter_mut().filter(|host| host.is_under_test) {
        let there = host.volumes.iter().filter(|volume| volume.role == Role::Database).count();
        if let Some(limit) = limit.filter(|&limit| limit as usize > there) {
            let message =
                format!("`{}` has fewer volumes than are to be tested: {there}, not {limit}", host.name);
            mistakes.add(Wrong::new("under_test.volumes_per_host", message));
        }
        let mut left = limit.unwrap_or(u32::MAX);
        for volume in &mut host.volumes {
            volume.is_under_test = volume.role != Role::Database || left > 0;
            left -= u32::from(volume.role == Role::Database && left > 0);
        }
    }
}
