//! The solution file resolved for one host: what a run needs, with nothing left to default.

use serde::{Deserialize, Serialize};

use crate::template::{Names, matches};
use crate::{
    Databases, DrillSpec, Fault, Generation, HostSpec, Instance, Mix, Result, Role, Sizing, Solution,
    TestKind, ThresholdWishes, VolumeInfo,
};

/// Databases of one instance: log records name them by a byte.
const DATABASES_MAX: usize = 255;

pub(crate) const MIB: u64 = 1 << 20;

/// Everything that a run on one host needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deployment {
    /// Name of the solution.
    pub solution: String,
    /// Name of the host.
    pub host: String,
    /// Generation that the defaults were taken from.
    pub generation: Generation,
    /// Database instances, in the order of the file.
    pub instances: Vec<InstanceSpec>,
    /// Volumes that hold them.
    pub volumes: Vec<VolumeSpec>,
    /// The engine.
    pub engine: EngineSpec,
    /// The load.
    pub load: LoadSpec,
    /// The tests in their order.
    pub tests: Vec<TestSpec>,
    /// Faults that are expected.
    pub faults: Vec<Fault>,
}

/// A volume under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// Name.
    pub name: String,
    /// Folder.
    pub dir: String,
}

/// One log stream and its databases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstanceSpec {
    /// Name.
    pub name: String,
    /// Folder of the logs and the checkpoint.
    pub log_dir: String,
    /// Size of one log generation.
    pub log_file_bytes: u64,
    /// Page size.
    pub page_bytes: u32,
    /// Smallest page cache of the instance (all its databases together).
    pub cache_min_bytes: u64,
    /// Largest page cache of the instance.
    pub cache_max_bytes: u64,
    /// Its databases.
    pub databases: Vec<DatabaseSpec>,
}

/// One database file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatabaseSpec {
    /// Name, unique on the host.
    pub name: String,
    /// Folder of the file.
    pub dir: String,
    /// Size when created, a whole number of pages.
    pub bytes: u64,
}

/// The engine's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EngineSpec {
    /// Log that recovery may have to replay.
    pub checkpoint_depth_bytes: u64,
    /// Clean share of the cache below which pages are written out, 0 to 1.
    pub flush_start: f64,
    /// Clean share of the cache at which writing out stops, 0 to 1.
    pub flush_stop: f64,
    /// Background maintenance runs during the load.
    pub maintenance: bool,
    /// Background maintenance runs while logs are replayed.
    pub recovery_maintenance: bool,
    /// Pause of the maintenance reader.
    pub maintenance_pause_ms: f64,
    /// The pause ends at the next multiple of this.
    pub maintenance_tick_ms: f64,
}

/// How the load is driven.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum LoadMode {
    /// So many sessions, shared by all databases.
    Closed {
        /// Sessions on the host.
        sessions: u32,
    },
    /// Hold so many transactional I/O per second.
    PacedIops {
        /// I/O per second on the host.
        iops: f64,
    },
    /// As many sessions as the test `tune` has found.
    Tuned,
    /// Hold so many batches per second.
    PacedBatches {
        /// Batches per second on the host.
        batches_per_s: f64,
    },
}

/// The load on a host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoadSpec {
    /// Closed or paced.
    pub mode: LoadMode,
    /// Transactional I/O per second that a test must reach.
    pub target_iops: Option<f64>,
    /// Transactional I/O per second of one mailbox in the planned profile.
    pub iops_per_mailbox: Option<f64>,
    /// How far below the target still passes, 0 to 1.
    pub tolerance: f64,
    /// Rest of a session after a batch, as a multiple of the time the batch took.
    pub idle_factor: f64,
    /// Operations of a batch.
    pub mix: Mix,
    /// Copies whose log reading is imitated, the active one included.
    pub copies: u32,
}

/// Latencies in ms; `None` is not judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    /// Mean database read latency.
    pub read_avg_ms: Option<f64>,
    /// Worst sample of the database read latency.
    pub read_max_ms: Option<f64>,
    /// Mean log write latency.
    pub log_write_avg_ms: Option<f64>,
    /// Worst sample of the log write latency.
    pub log_write_max_ms: Option<f64>,
}

/// One test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestSpec {
    /// What is done.
    pub kind: TestKind,
    /// Measured window, or time limit.
    pub duration_s: f64,
    /// Time limit of reading databases for a checksum or backup: what was read by then counts; none when `None`.
    pub limit_s: Option<f64>,
    /// Longest wait for a filled cache.
    pub warmup_limit_s: f64,
    /// Logs to generate or to verify per instance.
    pub logs: u32,
    /// Folder of the backup; beside each database (folder `backup`) when `None`.
    pub backup_dir: Option<String>,
    /// Latencies to judge.
    pub thresholds: Thresholds,
    /// What the published programme judges in a test of this kind and length.
    pub published: Thresholds,
    /// What fails in a drill.
    pub drill: Option<DrillSpec>,
}

impl Thresholds {
    /// What the published tests judged: strict up to 6 hours, lenient (`stress`) beyond.
    pub fn published(generation: Generation, stress: bool) -> Thresholds {
        let (log_write_avg, max) = match (generation, stress) {
            (Generation::E2003, _) => (20.0, None),
            (Generation::E2007, _) => (10.0, Some(50.0)),
            (_, false) => (10.0, Some(100.0)),
            (_, true) => (10.0, Some(200.0)),
        };
        Thresholds {
            read_avg_ms: Some(20.0),
            read_max_ms: max,
            log_write_avg_ms: Some(log_write_avg),
            log_write_max_ms: max,
        }
    }

    pub(crate) fn with(self, wishes: Option<ThresholdWishes>) -> Thresholds {
        let wishes = wishes.unwrap_or_default();
        Thresholds {
            read_avg_ms: wishes.read_avg_ms.or(self.read_avg_ms),
            read_max_ms: wishes.read_max_ms.or(self.read_max_ms),
            log_write_avg_ms: wishes.log_write_avg_ms.or(self.log_write_avg_ms),
            log_write_max_ms: wishes.log_write_max_ms.or(self.log_write_max_ms),
        }
    }
}

impl Solution {
    /// Hosts that the tests run on.
    pub fn hosts_under_test(&self) -> Result<Vec<HostSpec>> {
        let hosts = self.hosts()?;
        let wanted = self.file.under_test.as_ref().map(|part| part.hosts.as_slice()).unwrap_or_default();
        for (i, pattern) in wanted.iter().enumerate() {
            if !hosts.iter().any(|host| matches(pattern, &host.name)) {
                let path = format!("under_test.hosts[{i}]");
                return Err(self.unknown_name("host", pattern, hosts.iter().map(|h| h.name.as_str()), &path));
            }
        }
        let all = wanted.is_empty();
        Ok(hosts.into_iter().filter(|host| all || wanted.iter().any(|p| matches(p, &host.name))).collect())
    }

    /// Resolves the file for one host; `None` is allowed when only one host is tested.
    pub fn deployment(&self, host: Option<&str>) -> Result<Deployment> {
        let hosts = self.hosts_under_test()?;
        let known = || hosts.iter().map(|host| host.name.as_str());
        let host = match (host, hosts.as_slice()) {
            (Some(name), _) => match hosts.iter().find(|host| host.name == name) {
                Some(host) => host,
                None => return Err(self.unknown_name("host under test", name, known(), "under_test.hosts")),
            },
            (None, [only]) => only,
            (None, []) => {
                return Err(self.error(
                    "host",
                    "no host is described",
                    Some("add [[host]] with a name".into()),
                ));
            }
            (None, several) => {
                let message =
                    format!("{} hosts are under test, so one of them has to be named", several.len());
                return Err(self.error(
                    "under_test.hosts",
                    message,
                    Some(known().collect::<Vec<_>>().join(", ")),
                ));
            }
        };
        let generation = self.file.profile.as_ref().map_or(Generation::E2016, |profile| profile.exchange);
        let volumes = self.tested_volumes(&host.name)?;
        let instances = self.instances(&host.name, generation, &volumes)?;
        let used: Vec<VolumeSpec> = volumes
            .iter()
            .filter_map(|volume| Some(VolumeSpec { name: volume.name.clone(), dir: volume.path.clone()? }))
            .collect();
        Ok(Deployment {
            solution: self.file.solution.name.clone(),
            host: host.name.clone(),
            generation,
            instances,
            engine: self.engine()?,
            load: self.load(generation)?,
            tests: self.tests(generation, &used)?,
            volumes: used,
            faults: self.faults()?,
        })
    }

    /// Volumes of the host, database volumes cut to the number under test.
    fn tested_volumes(&self, host: &str) -> Result<Vec<VolumeInfo>> {
        let limit = self.file.under_test.as_ref().and_then(|part| part.volumes_per_host);
        let mut volumes = self.volumes(host)?;
        let Some(limit) = limit else { return Ok(volumes) };
        let there = volumes.iter().filter(|volume| volume.role == Role::Database).count();
        if limit as usize > there {
            let message = format!("{limit} volumes are to be tested on `{host}`, which has {there}");
            return Err(self.error("under_test.volumes_per_host", message, None));
        }
        let mut kept = 0;
        volumes.retain(|volume| {
            kept += u32::from(volume.role == Role::Database);
            volume.role != Role::Database || kept <= limit
        });
        Ok(volumes)
    }

    fn instances(
        &self,
        host: &str,
        generation: Generation,
        volumes: &[VolumeInfo],
    ) -> Result<Vec<InstanceSpec>> {
        let mut parts: Vec<InstanceParts> = Vec::new();
        self.refuse_foreign_hosts()?;
        for (entry, instance) in self.file.instance.iter().enumerate() {
            if !instance.host.as_deref().is_none_or(|pattern| matches(pattern, host)) {
                continue;
            }
            let path = format!("instance[{entry}]");
            for n in self.numbers(instance.count, 1, &format!("{path}.count"), parts.len())? {
                parts.push(self.instance_parts(instance, &path, Names { n, host: Some(host) }, volumes)?);
            }
        }
        if parts.is_empty() {
            let message = format!("no instance is described for host `{host}`");
            return Err(self.error(
                "instance",
                message,
                Some("add [[instance]] with a name and a volume".into()),
            ));
        }
        self.refuse_duplicates(&parts)?;
        let sizes = self.database_sizes(&parts, volumes)?;
        let mut sizes = sizes.into_iter();
        parts
            .into_iter()
            .map(|part| {
                let instance = &self.file.instance[part.entry];
                let page_bytes = instance.page_kib.unwrap_or(generation.page_kib()) * 1024;
                let log_file_kib = instance.log_file_kib.unwrap_or(generation.log_file_kib());
                let databases: Vec<DatabaseSpec> = part
                    .databases
                    .into_iter()
                    .zip(&mut sizes)
                    .map(|(database, bytes)| DatabaseSpec {
                        name: database.name,
                        dir: database.dir,
                        bytes: bytes / u64::from(page_bytes) * u64::from(page_bytes),
                    })
                    .collect();
                let count = databases.len() as u64;
                Ok(InstanceSpec {
                    name: part.name,
                    log_dir: part.log_dir,
                    log_file_bytes: u64::from(log_file_kib) * 1024,
                    page_bytes,
                    cache_min_bytes: self.file.engine.cache_min_mib * MIB * count,
                    cache_max_bytes: self.file.engine.cache_max_mib * MIB * count,
                    databases,
                })
            })
            .collect()
    }

    /// Refuses volumes and instances of a host that nobody is called: they belong to none, and would be missed without a word.
    ///
    /// # Errors
    /// The first of them.
    pub fn refuse_foreign_hosts(&self) -> Result<()> {
        let hosts = self.hosts()?;
        let volumes = self.file.volume.iter().map(|volume| &volume.host).enumerate();
        let instances = self.file.instance.iter().map(|instance| &instance.host).enumerate();
        let of_volumes = volumes.map(|(entry, pattern)| ("volume", entry, pattern));
        let of_instances = instances.map(|(entry, pattern)| ("instance", entry, pattern));
        for (table, entry, pattern) in of_volumes.chain(of_instances) {
            let Some(pattern) = pattern else { continue };
            if !hosts.iter().any(|host| matches(pattern, &host.name)) {
                let known = hosts.iter().map(|host| host.name.as_str());
                return Err(self.unknown_name("host", pattern, known, &format!("{table}[{entry}].host")));
            }
        }
        Ok(())
    }

    fn instance_parts(
        &self,
        instance: &Instance,
        path: &str,
        names: Names<'_>,
        volumes: &[VolumeInfo],
    ) -> Result<InstanceParts> {
        let name = self.name_on_disk(&instance.name, names, &format!("{path}.name"))?;
        let folder = |template: Option<&String>, at: &str| -> Result<(String, usize)> {
            let index = self.volume_of(template, at, names, volumes)?;
            match &volumes[index].path {
                Some(dir) => Ok((format!("{}/{name}", dir.trim_end_matches('/')), index)),
                None => Err(self.error(
                    &format!("volume[{}]", volumes[index].entry),
                    format!("volume `{}` has no path, so nothing can be written to it", volumes[index].name),
                    Some("add path = \"...\"".into()),
                )),
            }
        };
        let (log_dir, _) = match &instance.log_volume {
            Some(log_volume) => folder(Some(log_volume), &format!("{path}.log_volume"))?,
            None => folder(instance.volume.as_ref(), &format!("{path}.volume"))?,
        };
        let mut databases = Vec::new();
        let described = instance.databases.as_ref().unwrap_or(&Databases::Count(1));
        let count = match described {
            Databases::Count(count) => *count as usize,
            Databases::List(list) => list.len(),
        };
        if !(1..=DATABASES_MAX).contains(&count) {
            let message = format!("instance `{name}` cannot have {count} databases");
            return Err(self.error(
                &format!("{path}.databases"),
                message,
                Some(format!("from 1 to {DATABASES_MAX}")),
            ));
        }
        match described {
            Databases::Count(count) => {
                for number in self.numbers(Some(*count), 1, &format!("{path}.databases"), 0)? {
                    let (dir, volume) = folder(instance.volume.as_ref(), &format!("{path}.volume"))?;
                    let name = if *count == 1 { name.clone() } else { format!("{name}-{number}") };
                    databases.push(DatabaseParts { name, dir, volume, wished_bytes: None });
                }
            }
            Databases::List(list) => {
                for (i, database) in list.iter().enumerate() {
                    let at = format!("{path}.databases[{i}]");
                    let wished = database.volume.as_ref().or(instance.volume.as_ref());
                    let (dir, volume) = folder(wished, &format!("{at}.volume"))?;
                    databases.push(DatabaseParts {
                        name: self.name_on_disk(&database.name, names, &format!("{at}.name"))?,
                        dir,
                        volume,
                        wished_bytes: database.size_mib.map(|mib| (mib.saturating_mul(MIB), at)),
                    });
                }
            }
        }
        let entry = self.file.instance.iter().position(|other| std::ptr::eq(other, instance)).unwrap_or(0);
        Ok(InstanceParts { name, entry, log_dir, databases })
    }

    /// The volume that a template names; the only database volume when nothing is said.
    fn volume_of(
        &self,
        template: Option<&String>,
        path: &str,
        names: Names<'_>,
        volumes: &[VolumeInfo],
    ) -> Result<usize> {
        let Some(template) = template else {
            let mut databases = (0..volumes.len()).filter(|&i| volumes[i].role == Role::Database);
            return match (databases.next(), databases.next()) {
                (Some(only), None) => Ok(only),
                _ => Err(self.error(path, "the instance does not say which volume it is on", None)),
            };
        };
        let name = self.name(template, names, path)?;
        volumes.iter().position(|volume| volume.name == name).ok_or_else(|| {
            self.unknown_name(
                "volume under test",
                &name,
                volumes.iter().map(|volume| volume.name.as_str()),
                path,
            )
        })
    }

    fn refuse_duplicates(&self, parts: &[InstanceParts]) -> Result<()> {
        let mut instances: Vec<(&str, usize)> =
            parts.iter().map(|part| (part.name.as_str(), part.entry)).collect();
        let mut databases: Vec<(&str, usize)> = parts
            .iter()
            .flat_map(|part| part.databases.iter().map(|database| (database.name.as_str(), part.entry)))
            .collect();
        for (what, names) in [("instances", &mut instances), ("databases", &mut databases)] {
            names.sort_unstable();
            if let Some(twice) = names.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                return Err(self.error(
                    &format!("instance[{}].name", twice[1].1),
                    format!("two {what} are called `{}`", twice[1].0),
                    Some("a name with {n} counts".into()),
                ));
            }
        }
        Ok(())
    }

    /// Size of every database in order, before rounding to pages.
    fn database_sizes(&self, parts: &[InstanceParts], volumes: &[VolumeInfo]) -> Result<Vec<u64>> {
        let databases = || parts.iter().flat_map(|part| part.databases.iter());
        let total = databases().count() as u64;
        let default = self.file.sizing.clone().unwrap_or_default();
        let size_of = |database: &DatabaseParts| -> Result<u64> {
            if let Some((bytes, path)) = &database.wished_bytes {
                return self.sized(*bytes, &format!("{path}.size_mib"));
            }
            match default {
                Sizing { database_mib: Some(mib), percent_of_capacity: None, mailboxes: None } => {
                    self.sized(mib.saturating_mul(MIB), "sizing.database_mib")
                }
                Sizing { database_mib: None, percent_of_capacity: Some(percent), mailboxes: None } => {
                    let volume = &volumes[database.volume];
                    let sharing = databases().filter(|other| other.volume == database.volume).count();
                    self.percent_of_capacity(percent, volume, sharing)
                }
                Sizing { database_mib: None, percent_of_capacity: None, mailboxes: Some(mailboxes) } => {
                    let quota_mb = self.file.profile.as_ref().and_then(|profile| profile.quota_mb);
                    let Some(quota_mb) = quota_mb else {
                        let message = "sizing by mailboxes needs the mailbox quota";
                        let help = Some("add quota_mb to [profile]".into());
                        return Err(self.error("sizing.mailboxes", message, help));
                    };
                    self.sized(
                        (mailboxes as f64 * quota_mb * MIB as f64 / total as f64) as u64,
                        "sizing.mailboxes",
                    )
                }
                _ => Err(self.error(
                    "sizing",
                    "the size of the test databases has to be given in exactly one way",
                    Some("one of database_mib, percent_of_capacity, mailboxes in [sizing]".into()),
                )),
            }
        };
        databases().map(size_of).collect()
    }

    /// The published rule: of the share that the databases fill in the end, one fifth is left for growth.
    fn percent_of_capacity(&self, percent: f64, volume: &VolumeInfo, sharing: usize) -> Result<u64> {
        let Some(gib) = volume.capacity_gib else {
            return Err(self.error(
                &format!("volume[{}]", volume.entry),
                format!(
                    "the capacity of volume `{}` is not given, so a share of it is not known",
                    volume.name
                ),
                Some("add capacity_gib, or disk and disks".into()),
            ));
        };
        let bytes = gib * (1u64 << 30) as f64 * percent / 100.0 / 1.25 / sharing as f64;
        self.sized(bytes as u64, "sizing.percent_of_capacity")
    }

    fn sized(&self, bytes: u64, path: &str) -> Result<u64> {
        const LEAST: u64 = 16 * MIB;
        const MOST: u64 = 1 << 44;
        if (LEAST..=MOST).contains(&bytes) {
            return Ok(bytes);
        }
        let message = format!("a database of {} MiB cannot be made", bytes / MIB);
        Err(self.error(path, message, Some("from 16 MiB to 16 TiB".into())))
    }
}

struct InstanceParts {
    name: String,
    /// Index in `[[instance]]`.
    entry: usize,
    log_dir: String,
    databases: Vec<DatabaseParts>,
}

struct DatabaseParts {
    name: String,
    dir: String,
    /// Index in the volumes of the host.
    volume: usize,
    /// Size of its own, and the path of the entry that says so.
    wished_bytes: Option<(u64, String)>,
}
