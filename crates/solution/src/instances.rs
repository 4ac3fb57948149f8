//! Database instances of a host: their names, their volumes, their sizes.

use std::collections::BTreeMap;

use crate::error::{Checked, Wrong};
use crate::file::{Databases, Generation, Instance, Role, Sizing, SolutionFile};
use crate::hosts::{DatabaseSpec, HostSpec, InstanceSpec, MetaCacheSpec, VolumeInfo, known_host};
use crate::source::Mistakes;
use crate::storage::MAX_IN_ALL;
use crate::template::{Names, matches, name, name_on_disk, numbers};

/// Largest number of databases of an instance, since log records name a database by a byte.
const DATABASES_MAX: usize = 255;

pub(crate) const MIB: u64 = 1 << 20;

/// Reason why the instances of a host cannot be resolved.
enum Refusal {
    /// The file contains a mistake.
    Mistake(Wrong),
    /// The file lacks something that only a test needs.
    Lack(Wrong),
}

impl From<Wrong> for Refusal {
    fn from(wrong: Wrong) -> Refusal {
        Refusal::Mistake(wrong)
    }
}

/// Instances of each host under test, or the first thing that the file lacks for them.
pub(crate) fn instances(
    file: &SolutionFile,
    generation: Generation,
    hosts: &mut [HostSpec],
    mistakes: &mut Mistakes<'_>,
) {
    for (entry, instance) in file.instance.iter().enumerate() {
        if let Some(pattern) = &instance.host {
            mistakes.keep(known_host(pattern, hosts, &format!("instance[{entry}].host")));
        }
    }
    let mut in_all = 0;
    for host in hosts.iter_mut().filter(|host| host.is_under_test) {
        let instances = OfHost { file, generation, host }.instances(mistakes);
        in_all += instances.as_ref().map_or(0, Vec::len);
        if in_all > MAX_IN_ALL {
            let message = format!("all hosts together have more than {MAX_IN_ALL} instances");
            mistakes.add(Wrong::new("instance[0].count", message));
            return;
        }
        host.instances = instances;
    }
}

/// Resolver of the instances of one host.
struct OfHost<'a> {
    file: &'a SolutionFile,
    generation: Generation,
    host: &'a HostSpec,
}

impl<'a> OfHost<'a> {
    fn instances(&self, mistakes: &mut Mistakes<'_>) -> Checked<Vec<InstanceSpec>> {
        let (mut parts, mut lack) = (Vec::new(), None);
        for (entry, instance) in self.file.instance.iter().enumerate() {
            if instance.host.as_deref().is_none_or(|pattern| matches(pattern, &self.host.name)) {
                match self.of_entry(entry, instance, parts.len()) {
                    Ok(more) => parts.extend(more),
                    Err(Refusal::Mistake(wrong)) => mistakes.add(wrong),
                    Err(Refusal::Lack(wrong)) => lack = lack.or(Some(wrong)),
                }
            }
        }
        mistakes.keep(refuse_duplicates(&parts));
        if let Some(lack) = lack {
            return Err(lack);
        }
        if parts.is_empty() {
            let message = format!("no instance is described for host `{}`", self.host.name);
            return Err(Wrong::new("instance", message).help("add [[instance]] with a name and a volume"));
        }
        let caches = self.meta_caches(&parts).inspect_err(|wrong| mistakes.add(wrong.clone()))?;
        match self.sizes(&parts) {
            Ok(sizes) => Ok(self.sized(parts, sizes, caches)),
            Err(Refusal::Lack(wrong)) => Err(wrong),
            Err(Refusal::Mistake(wrong)) => {
                // The size may follow from a profile that was misread.
                if !mistakes.is_misread("profile") {
                    mistakes.add(wrong.clone());
                }
                Err(wrong)
            }
        }
    }

    /// Instances of one `[[instance]]` entry.
    fn of_entry(
        &self,
        entry: usize,
        instance: &'a Instance,
        already: usize,
    ) -> Result<Vec<UnsizedInstance<'a>>, Refusal> {
        let path = format!("instance[{entry}]");
        let numbers = numbers(instance.count, 1, &format!("{path}.count"), already)?;
        numbers.map(|n| self.parts(entry, instance, &path, n)).collect()
    }

    fn parts(
        &self,
        entry: usize,
        instance: &'a Instance,
        path: &str,
        n: u32,
    ) -> Result<UnsizedInstance<'a>, Refusal> {
        let names = Names { n, host: Some(&self.host.name) };
        let written = name_on_disk(&instance.name, names, &format!("{path}.name"))?;
        let place = |volume: Option<&String>, at: String| self.place(volume, names, at, &written);
        let log = match &instance.log_volume {
            Some(volume) => place(Some(volume), format!("{path}.log_volume"))?,
            None => place(instance.volume.as_ref(), format!("{path}.volume"))?,
        };
        let count = instance.databases.count() as usize;
        if !(1..=DATABASES_MAX).contains(&count) {
            let wrong = Wrong::new(
                format!("{path}.databases"),
                format!("instance `{written}` cannot have {count} databases"),
            );
            return Err(wrong.help(format!("from 1 to {DATABASES_MAX}")).into());
        }
        let mut databases = Vec::with_capacity(count);
        match &instance.databases {
            Databases::Count(count) => {
                let volume = place(instance.volume.as_ref(), format!("{path}.volume"))?;
                databases.extend((1..=*count).map(|number| UnsizedDatabase {
                    name: if *count == 1 { written.clone() } else { format!("{written}-{number}") },
                    place: volume.clone(),
                    wished_bytes: None,
                }));
            }
            Databases::List(list) => {
                for (i, database) in list.iter().enumerate() {
                    let at = format!("{path}.databases[{i}]");
                    let volume = database.volume.as_ref().or(instance.volume.as_ref());
                    databases.push(UnsizedDatabase {
                        name: name_on_disk(&database.name, names, &format!("{at}.name"))?,
                        place: place(volume, format!("{at}.volume"))?,
                        wished_bytes: database.size_mib.map(|mib| (mib.saturating_mul(MIB), at)),
                    });
                }
            }
        }
        Ok(UnsizedInstance { name: written, entry, instance, log, databases })
    }

    /// Folder of an instance on the volume that a template names.
    fn place(
        &self,
        template: Option<&String>,
        names: Names<'_>,
        at: String,
        instance: &str,
    ) -> Result<VolumeFolder<'a>, Refusal> {
        let volume = self.volume(template, names, at)?;
        let Some(dir) = &volume.path else {
            let message = format!("volume `{}` has no path, so nothing can be written to it", volume.name);
            let lack = Wrong::new(format!("volume[{}]", volume.kind), message);
            return Err(Refusal::Lack(lack.help("add path = \"...\"")));
        };
        Ok(VolumeFolder { volume, dir: format!("{}/{instance}", dir.trim_end_matches('/')) })
    }

    /// Volume that a template names; without one, the only database volume.
    fn volume(
        &self,
        template: Option<&String>,
        names: Names<'_>,
        at: String,
    ) -> Result<&'a VolumeInfo, Refusal> {
        let mut tested = self.host.volumes.iter().filter(|volume| volume.is_under_test);
        let Some(template) = template else {
            let mut databases = tested.filter(|volume| volume.role == Role::Database);
            let unsaid = Wrong::new(at, "the instance does not say which volume it is on");
            return match (databases.next(), databases.next()) {
                (Some(only), None) => Ok(only),
                (None, _) => Err(Refusal::Lack(unsaid.help("add [[volume]] with a path"))),
                _ => Err(unsaid.into()),
            };
        };
        let wanted = name(template, names, &at)?;
        let known = tested.clone().map(|volume| volume.name.as_str());
        tested
            .find(|volume| volume.name == wanted)
            .ok_or_else(|| Wrong::unknown_name("volume under test", &wanted, known, at).into())
    }

    /// Size of every database in order, bytes, before rounding to pages.
    fn sizes(&self, parts: &[UnsizedInstance<'_>]) -> Result<Vec<u64>, Refusal> {
        let databases = || parts.iter().flat_map(|part| &part.databases);
        let total = databases().count() as f64;
        let mut sharing = BTreeMap::<&str, usize>::new();
        databases().for_each(|database| *sharing.entry(&database.place.volume.name).or_default() += 1);
        let sizing = self.file.sizing.clone().unwrap_or_default();
        let size = |database: &UnsizedDatabase<'_>| match (&database.wished_bytes, &sizing) {
            (Some((bytes, path)), _) => Ok(possible(*bytes, format!("{path}.size_mib"))?),
            (None, Sizing { database_mib: Some(mib), percent_of_capacity: None, mailboxes: None }) => {
                Ok(possible(mib.saturating_mul(MIB), "sizing.database_mib")?)
            }
            (None, Sizing { database_mib: None, percent_of_capacity: Some(percent), mailboxes: None }) => {
                let volume = database.place.volume;
                Ok(percent_of_capacity(*percent, volume, sharing[volume.name.as_str()])?)
            }
            (None, Sizing { database_mib: None, percent_of_capacity: None, mailboxes: Some(mailboxes) }) => {
                let quota_mb = self.file.profile.as_ref().and_then(|profile| profile.quota_mb);
                let unsaid = || {
                    let wrong = Wrong::new("sizing.mailboxes", "sizing by mailboxes needs the mailbox quota");
                    wrong.help("add quota_mb to [profile]")
                };
                let mib = *mailboxes as f64 * quota_mb.ok_or_else(unsaid)?;
                Ok(possible((mib * MIB as f64 / total) as u64, "sizing.mailboxes")?)
            }
            (None, sizing) => {
                let message = "the size of the test databases has to be given in exactly one way";
                let wrong = Wrong::new("sizing", message);
                let wrong = wrong.help("one of database_mib, percent_of_capacity, mailboxes in [sizing]");
                let is_unsaid = *sizing == Sizing::default();
                Err(if is_unsaid { Refusal::Lack(wrong) } else { Refusal::Mistake(wrong) })
            }
        };
        databases().map(size).collect()
    }

    /// MetaCache of every database in order: the volumes of that role take them in turn.
    fn meta_caches(&self, parts: &[UnsizedInstance<'_>]) -> Checked<Vec<Option<MetaCacheSpec>>> {
        let instances = parts.iter().flat_map(|part| part.databases.iter().map(|_| &part.name));
        let Some(mib) = self.file.engine.meta_cache_mib else { return Ok(instances.map(|_| None).collect()) };
        let tested = self.host.volumes.iter().filter(|volume| volume.is_under_test);
        let caches = tested.filter(|volume| volume.role == Role::MetaCache);
        let volumes: Vec<_> = caches.filter_map(|volume| Some((volume, volume.path.as_deref()?))).collect();
        let each = instances.clone().count().div_ceil(volumes.len().max(1)) as u64;
        let gib = each.saturating_mul(mib) as f64 / 1024.0;
        let is_small = |volume: &&VolumeInfo| volume.capacity_gib.is_some_and(|capacity| capacity < gib);
        let wrong = |message: String| Wrong::new("engine.meta_cache_mib", message);
        if volumes.is_empty() {
            let message = format!("host `{}` has no volume for MetaCaches", self.host.name);
            return Err(wrong(message).help("add [[volume]] with role = \"meta_cache\" and a path"));
        }
        if let Some(small) = volumes.iter().map(|(volume, _)| *volume).find(is_small) {
            let message = format!("{each} MetaCaches do not fit on volume `{}`: {gib:.1} GiB", small.name);
            return Err(wrong(message).help("make them smaller, or add volumes of role meta_cache"));
        }
        let spec = |(number, instance): (usize, &String)| {
            let (volume, path) = volumes[number % volumes.len()];
            let dir = format!("{}/{instance}", path.trim_end_matches('/'));
            Some(MetaCacheSpec { volume: volume.name.clone(), dir, bytes: mib * MIB })
        };
        Ok(instances.enumerate().map(spec).collect())
    }

    fn sized(
        &self,
        parts: Vec<UnsizedInstance<'_>>,
        sizes: Vec<u64>,
        caches: Vec<Option<MetaCacheSpec>>,
    ) -> Vec<InstanceSpec> {
        let mut sizes = sizes.into_iter().zip(caches);
        let engine = &self.file.engine;
        let spec = |part: UnsizedInstance<'_>| {
            let page_bytes = part.instance.page_kib.unwrap_or(self.generation.page_kib()) * 1024;
            let log_file_kib = part.instance.log_file_kib.unwrap_or(self.generation.log_file_kib());
            let databases = part.databases.into_iter().zip(&mut sizes);
            let databases = databases.map(|(database, (bytes, meta_cache))| DatabaseSpec {
                name: database.name,
                volume: database.place.volume.name.clone(),
                dir: database.place.dir,
                bytes: bytes / u64::from(page_bytes) * u64::from(page_bytes),
                meta_cache,
            });
            let databases: Vec<DatabaseSpec> = databases.collect();
            let count = databases.len() as u64;
            InstanceSpec {
                name: part.name,
                log_volume: part.log.volume.name.clone(),
                log_dir: part.log.dir,
                log_file_bytes: u64::from(log_file_kib) * 1024,
                page_bytes,
                cache_min_bytes: engine.cache_min_mib().saturating_mul(MIB * count),
                cache_max_bytes: engine.cache_max_mib.saturating_mul(MIB * count),
                databases,
            }
        };
        parts.into_iter().map(spec).collect()
    }
}

fn refuse_duplicates(parts: &[UnsizedInstance<'_>]) -> Checked<()> {
    let mut instances: Vec<(&str, usize)> =
        parts.iter().map(|part| (part.name.as_str(), part.entry)).collect();
    let databases = parts.iter().flat_map(|part| part.databases.iter().map(move |one| (one, part.entry)));
    let mut databases: Vec<(&str, usize)> =
        databases.map(|(database, entry)| (database.name.as_str(), entry)).collect();
    for (what, names) in [("instances", &mut instances), ("databases", &mut databases)] {
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let message = format!("two {what} are called `{}`", twice[1].0);
            let wrong = Wrong::new(format!("instance[{}].name", twice[1].1), message);
            return Err(wrong.help("a name with {n} counts"));
        }
    }
    Ok(())
}

/// Size of a database by `percent_of_capacity`: the published rule leaves a fifth of the share for growth.
fn percent_of_capacity(percent: f64, volume: &VolumeInfo, sharing: usize) -> Checked<u64> {
    let Some(gib) = volume.capacity_gib else {
        let message =
            format!("the capacity of volume `{}` is not given, so a share of it is not known", volume.name);
        let wrong = Wrong::new(format!("volume[{}]", volume.kind), message);
        return Err(wrong.help("add capacity_gib, or disk and disks"));
    };
    let bytes = gib * (1u64 << 30) as f64 * percent / 100.0 / 1.25 / sharing as f64;
    possible(bytes as u64, "sizing.percent_of_capacity")
}

/// Size of a database, bytes, if it is possible.
fn possible(bytes: u64, path: impl Into<String>) -> Checked<u64> {
    const LEAST: u64 = 16 * MIB;
    const MOST: u64 = 1 << 44;
    if (LEAST..=MOST).contains(&bytes) {
        return Ok(bytes);
    }
    let wrong = Wrong::new(path, format!("a database of {} MiB cannot be made", bytes / MIB));
    Err(wrong.help("from 16 MiB to 16 TiB"))
}

/// Instance before the sizes of its databases are known.
struct UnsizedInstance<'a> {
    name: String,
    /// Index of its entry in `[[instance]]`.
    entry: usize,
    instance: &'a Instance,
    log: VolumeFolder<'a>,
    databases: Vec<UnsizedDatabase<'a>>,
}

struct UnsizedDatabase<'a> {
    name: String,
    place: VolumeFolder<'a>,
    /// Size that the entry states for a database, bytes, with the path of that entry.
    wished_bytes: Option<(u64, String)>,
}

/// Folder on a volume.
#[derive(Clone)]
struct VolumeFolder<'a> {
    volume: &'a VolumeInfo,
    dir: String,
}
