//! What a drill runs on: hosts, databases and the places of their copies, resolved from the solution file.
//! Which host holds which copy is the planner's layout.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine::{Counters, DatabaseConfig, InstanceConfig};
use replication::{ActivationPolicy, CopySpec, DatabaseId, Dial, HostId, SiteId, Timing};
use solution::{
    DatabaseSpec, Deployment, DrillSpec, EngineSpec, Failure, HostSpec, InstanceSpec, LoadMode, MountDial,
    Partner, Role, Solution, SolutionError, TestSpec, Thresholds, VolumeInfo, VolumeSpec,
};
use workload::codec::DatabaseCodec;
use workload::mix::Mix;
use workload::template::TemplateDatabase;
use world::TemplatePages;

use crate::host::{COMPRESSIBILITY_PCT, FREE_PAGES, LOG_BUFFER_BYTES, database_path, fold};
use crate::load_tests::mix_of;

/// Name of the host of the arbiter, which never fails.
pub const ARBITER_NAME: &str = "arbiter";

/// Number of the arbiter in the protocol of the copies.
pub const ARBITER: HostId = HostId(u16::MAX);

const DAY_MS: f64 = 86_400_000.0;

/// Protocol times of a drill. Leases are renewed as often as the published cluster sends heartbeats, and a holder
/// counts as silent after five of them. Passive copies that do not answer delay an election for two seconds.
fn timing() -> Timing {
    Timing {
        lease_ms: 5_000,
        renew_ms: 1_000,
        drift_ppm: 1_000,
        detect_ms: 5_000,
        report_ms: 1_000,
        collect_ms: 2_000,
        catch_up_ms: 10_000,
        mount_ms: 60_000,
        drain_ms: 30_000,
        resend_ms: 500,
        partner_patience_ms: 3_000,
        move_back_ms: None,
    }
}

/// I/O per batch until it has been measured.
pub(super) const IO_PER_BATCH_GUESS: f64 = 30.0;

/// Number of generations that an active copy may start beyond those on the arbiter's record.
const RUN_AHEAD_GENERATIONS: u32 = 2;

/// Drill that is to be performed.
pub struct PlannedDrill {
    /// Hosts, copies and databases of the drill.
    pub topology: Rc<Topology>,
    /// Test of kind `drill`.
    pub test: TestSpec,
    /// Failures of the drill.
    pub drill: DrillSpec,
    /// Place in the campaign, from 1.
    pub ordinal: u32,
    /// Title of the drill.
    pub name: String,
}

impl PlannedDrill {
    /// Drill of a solution that is test number `ordinal` of the campaign and has this title.
    ///
    /// # Errors
    /// A solution without further copies, without the load of its users, or with fewer volumes than its layout needs.
    pub fn of(
        solution: &Solution,
        test: &TestSpec,
        drill: &DrillSpec,
        ordinal: u32,
        name: &str,
    ) -> Result<PlannedDrill, Box<SolutionError>> {
        let topology = Rc::new(Topology::of(solution, test, drill)?);
        let (test, drill, name) = (test.clone(), drill.clone(), name.to_owned());
        Ok(PlannedDrill { topology, test, drill, ordinal, name })
    }
}

/// Host with copies.
#[derive(Debug, Clone, PartialEq)]
pub struct DrillHost {
    /// Name of the host.
    pub name: String,
    /// Number of its site.
    pub site: usize,
    /// Volumes that the drill uses.
    pub volumes: Vec<VolumeSpec>,
    /// Address at which other hosts reach its copies, `host:port`; real runs only.
    pub copy_address: Option<String>,
}

/// Place of one copy of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyPlace {
    /// Number of the host.
    pub host: usize,
    /// Volume of the database file.
    pub volume: String,
    /// Volume of the log.
    pub log_volume: String,
    /// Folder of the database file.
    pub dir: String,
    /// Folder of the log.
    pub log_dir: String,
}

/// Database of a drill with its copies.
pub struct DrillDatabase {
    /// Name of the database.
    pub name: String,
    /// Places of its copies, by activation preference.
    pub places: Vec<CopyPlace>,
    /// Configuration of the database for the protocol.
    pub spec: Rc<replication::DatabaseSpec>,
    /// Template database: initial pages, the same on each copy.
    pub template: Rc<TemplateDatabase>,
}

impl DrillDatabase {
    /// Size of a new copy's file, bytes.
    pub fn bytes(&self) -> u64 {
        self.template.pages() * self.template.page_bytes() as u64
    }
}

/// Rate of the users of one database.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Transactional I/O per second of the active copy.
    Iops(f64),
    /// Batches per second.
    Batches(f64),
}

/// Topology of a drill: hosts, databases, load, thresholds.
pub struct Topology {
    /// Hosts with copies.
    pub hosts: Vec<DrillHost>,
    /// Databases.
    pub databases: Vec<DrillDatabase>,
    /// Rate of the users of one database.
    pub pace: Pace,
    /// Length of the window, s.
    pub duration_s: f64,
    /// Mix of operations in a batch.
    pub mix: Mix,
    /// Latency limits from the first failure until all copies are back.
    pub thresholds: Thresholds,
    engine: EngineSpec,
    page_bytes: u32,
    log_file_bytes: u64,
    cache_bytes: u64,
    /// A deployment of the solution, for what all hosts have in common.
    base: Deployment,
}

type Outcome<T> = Result<T, Box<SolutionError>>;

impl Topology {
    /// Topology of a drill. Size and cache of the databases, and the load of their users, are those of the first
    /// database of the other tests.
    ///
    /// # Errors
    /// A solution without further copies, without the load of its users, or with fewer volumes than its layout needs.
    pub fn of(solution: &Solution, test: &TestSpec, drill: &DrillSpec) -> Outcome<Topology> {
        let tested = solution.hosts_under_test();
        let base = solution.deployment(tested.first().map(|host| host.name.as_str()))?;
        let layout = plan::plan(solution, &[])?.layout;
        let [first, ..] = &base.instances[..] else { unreachable!("a deployment has instances") };
        let pace = pace_of(solution, &base)?;
        let databases = layout.databases.iter().enumerate().map(|(number, placed)| {
            let name = &placed.name;
            let copies = placed.copies.iter();
            let places = copies
                .map(|copy| copy_place(solution, usize::from(copy.server), copy.volume, name))
                .collect::<Outcome<Vec<CopyPlace>>>()?;
            let signature = fold(&[&base.solution, "drill", name]);
            let (page_bytes, bytes) = (first.page_bytes, first.databases[0].bytes);
            let template =
                TemplateDatabase::of_size(page_bytes, bytes, FREE_PAGES, signature, COMPRESSIBILITY_PCT);
            let template = template.map_err(|error| solution.error("sizing", error.to_string(), None))?;
            let lagged = layout.lagged as usize;
            let spec = protocol_of(solution, drill, number, signature, &places, lagged);
            Ok(DrillDatabase { name: name.clone(), places, spec: Rc::new(spec), template: Rc::new(template) })
        });
        Ok(Topology {
            databases: databases.collect::<Outcome<_>>()?,
            hosts: solution.hosts.iter().map(drill_host).collect(),
            pace,
            duration_s: test.duration_s,
            mix: mix_of(&base.load),
            thresholds: test.thresholds,
            engine: base.engine,
            page_bytes: first.page_bytes,
            log_file_bytes: first.log_file_bytes,
            cache_bytes: first.cache_max_bytes / first.databases.len().max(1) as u64,
            base,
        })
    }

    /// Deployments of the hosts for the storage model: their volumes.
    pub fn deployments(&self) -> Vec<Deployment> {
        let deployment = |host: &DrillHost| Deployment {
            host: host.name.clone(),
            volumes: host.volumes.clone(),
            ..self.base.clone()
        };
        self.hosts.iter().map(deployment).collect()
    }

    /// Deployment of a host with its copies as if they were tested databases: place, size, and kind of log stream.
    pub fn holdings(&self, host: usize) -> Deployment {
        let copies = self.databases.iter().filter_map(|database| {
            let place = database.places.iter().find(|place| place.host == host)?;
            Some(InstanceSpec {
                name: database.name.clone(),
                log_volume: place.log_volume.clone(),
                log_dir: place.log_dir.clone(),
                log_file_bytes: self.log_file_bytes,
                page_bytes: self.page_bytes,
                cache_min_bytes: 0,
                cache_max_bytes: self.cache_bytes,
                databases: vec![DatabaseSpec {
                    meta_cache: None,
                    name: database.name.clone(),
                    volume: place.volume.clone(),
                    dir: place.dir.clone(),
                    bytes: database.bytes(),
                }],
            })
        });
        let DrillHost { name, volumes, .. } = &self.hosts[host];
        let (host, volumes) = (name.clone(), volumes.clone());
        Deployment { host, volumes, instances: copies.collect(), ..self.base.clone() }
    }

    /// Whether databases of other tests have MetaCaches. Those of a drill have none.
    pub fn lacks_meta_caches(&self) -> bool {
        let mut databases = self.base.instances.iter().flat_map(|instance| &instance.databases);
        databases.any(|database| database.meta_cache.is_some())
    }

    /// About how many batches the users of one database want in the window.
    pub fn batches_wanted(&self) -> f64 {
        let batches_per_s = match self.pace {
            Pace::Iops(iops) => iops / IO_PER_BATCH_GUESS,
            Pace::Batches(batches_per_s) => batches_per_s,
        };
        batches_per_s * self.duration_s
    }

    /// Names of the hosts by their numbers in the protocol.
    pub fn names(&self) -> BTreeMap<HostId, String> {
        (0..).zip(&self.hosts).map(|(number, host)| (HostId(number), host.name.clone())).collect()
    }

    /// Hosts whose copy of a database is missing at the end, because of a failure that is not undone.
    pub fn absent(&self, database: usize, drill: &DrillSpec) -> BTreeSet<HostId> {
        let lost = |place: &&CopyPlace| {
            let forever = drill.failures.iter().filter(|failure| failure.back_at_s.is_none());
            forever.clone().any(|failure| self.hits(failure, place))
        };
        let places = self.databases[database].places.iter().filter(lost);
        places.map(|place| HostId(place.host as u16)).collect()
    }

    /// Whether a failure removes a copy.
    pub fn hits(&self, failure: &Failure, place: &CopyPlace) -> bool {
        let of_volume = |volume: &String| place.volume == *volume || place.log_volume == *volume;
        failure.hosts.contains(&self.hosts[place.host].name) && failure.volume.as_ref().is_none_or(of_volume)
    }

    /// Place of a database's copy on a host.
    pub fn place(&self, database: usize, host: usize) -> Option<&CopyPlace> {
        self.databases[database].places.iter().find(|place| place.host == host)
    }

    /// Engine configuration of a copy.
    pub fn instance_config(
        &self,
        database: usize,
        place: &CopyPlace,
        counters: &Counters,
        log_counters: &Counters,
    ) -> InstanceConfig {
        let DrillDatabase { name, template, .. } = &self.databases[database];
        let mut config = InstanceConfig::new(&place.log_dir, self.page_bytes as usize);
        config.log_bytes = self.log_file_bytes as u32;
        config.log_buffer_bytes = LOG_BUFFER_BYTES.min(self.log_file_bytes as usize / 2);
        config.checkpoint_depth_bytes = self.engine.checkpoint_depth_bytes;
        config.flush_start = self.engine.flush_start;
        config.flush_stop = self.engine.flush_stop;
        config.cache_bytes_per_database = self.cache_bytes;
        config.log_counters = log_counters.clone();
        config.databases.push(DatabaseConfig {
            codec: Some(Rc::new(DatabaseCodec::new(template.clone()))),
            template_id: Some(template.id()),
            counters: counters.clone(),
            ..DatabaseConfig::new(&database_path(&place.dir, name))
        });
        config
    }
}

/// Rate of the users of one database: that of one tested database.
fn pace_of(solution: &Solution, base: &Deployment) -> Outcome<Pace> {
    let tested = base.instances.iter().map(|instance| instance.databases.len()).sum::<usize>();
    let share = |whole: f64| whole / tested as f64;
    match (base.load.mode, base.load.target_iops) {
        (LoadMode::PacedBatches { batches_per_s }, _) => Ok(Pace::Batches(share(batches_per_s))),
        (LoadMode::PacedIops { iops }, _) | (_, Some(iops)) => Ok(Pace::Iops(share(iops))),
        _ => {
            let message = "a drill holds the load of users, which is not given";
            let help = "add target_iops, iops or batches_per_s".to_owned();
            Err(solution.error("load", message, Some(help)))
        }
    }
}

/// Protocol configuration of database number `number` with copies at these places, the last ones `lagged`.
fn protocol_of(
    solution: &Solution,
    drill: &DrillSpec,
    number: usize,
    signature: u64,
    places: &[CopyPlace],
    lagged: usize,
) -> replication::DatabaseSpec {
    let copies = &solution.copies;
    let copy = |(copy, place): (usize, &CopyPlace)| {
        let is_lagged = copy + lagged >= places.len();
        CopySpec {
            host: HostId(place.host as u16),
            site: SiteId(solution.hosts[place.host].site as u16),
            preference: copy as u32 + 1,
            activation: match is_lagged && !copies.lagged_can_activate {
                true => ActivationPolicy::Blocked,
                false => ActivationPolicy::Unrestricted,
            },
            replay_lag_ms: if is_lagged { (copies.lag_days * DAY_MS) as u64 } else { 0 },
            truncation_lag_ms: 0,
        }
    };
    replication::DatabaseSpec {
        id: DatabaseId(number as u16),
        dial: match drill.mount_dial {
            MountDial::Lossless => Dial::Lossless,
            MountDial::GoodAvailability => Dial::GoodAvailability,
            MountDial::BestAvailability => Dial::BestAvailability,
        },
        copies: places.iter().enumerate().map(copy).collect(),
        run_ahead_generations: RUN_AHEAD_GENERATIONS,
        partner_in_other_site: drill.partner == Partner::OtherSite,
        signature,
        circular_logging: true,
        planted: replication::Planted::default(),
        timing: timing(),
    }
}

fn drill_host(host: &HostSpec) -> DrillHost {
    let used = host.volumes.iter().filter(|volume| matches!(volume.role, Role::Database | Role::Log));
    let volume =
        |volume: &VolumeInfo| Some(VolumeSpec { name: volume.name.clone(), dir: volume.path.clone()? });
    DrillHost {
        name: host.name.clone(),
        site: host.site,
        volumes: used.filter_map(volume).collect(),
        copy_address: host.copy_address.clone(),
    }
}

/// Folders of a copy on volume number `number` (from 1) of a host.
fn copy_place(solution: &Solution, host: usize, number: u16, database: &str) -> Outcome<CopyPlace> {
    let volumes = &solution.hosts[host].volumes;
    let of_role = |role| volumes.iter().filter(move |volume| volume.role == role && volume.path.is_some());
    let index = usize::from(number) - 1;
    let Some(volume) = of_role(Role::Database).nth(index) else {
        let there = of_role(Role::Database).count();
        let message =
            format!("the layout puts {database} on volume {number} of a host, which has {there} with a path");
        let help = Some("more volumes, or databases_per_volume in [dag]".into());
        return Err(solution.error("volume", message, help));
    };
    // A log volume for each database volume, or one for all of them, or none.
    let log = of_role(Role::Log).nth(index).or_else(|| of_role(Role::Log).next()).unwrap_or(volume);
    let folder = |volume: &VolumeInfo| {
        format!("{}/drill/{database}", volume.path.as_deref().unwrap_or_default().trim_end_matches('/'))
    };
    Ok(CopyPlace {
        host,
        volume: volume.name.clone(),
        log_volume: log.name.clone(),
        dir: folder(volume),
        log_dir: folder(log),
    })
}
