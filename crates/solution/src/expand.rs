//! Templates written out: every host and every volume by its own name.

use crate::template::{Names, expand, matches};
use crate::{Disk, MAX_NAMES, Pool, Raid, Result, Role, Solution, did_you_mean};

/// One host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSpec {
    /// Name.
    pub name: String,
    /// Index of its site in [`crate::SolutionFile::site`] (0 when the file names none).
    pub site: usize,
    /// Enclosure whose loss takes it along.
    pub enclosure: Option<String>,
    /// Where the other hosts reach its copies, `host:port`.
    pub copy_address: Option<String>,
    /// Index in [`crate::SolutionFile::host`].
    pub entry: usize,
}

/// One volume of one host.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeInfo {
    /// Name, unique on the host.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Folder on the file system under test.
    pub path: Option<String>,
    /// Capacity in GiB, if the file says enough to know it.
    pub capacity_gib: Option<f64>,
    /// Index in [`crate::SolutionFile::volume`].
    pub entry: usize,
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

impl Solution {
    /// Every host in the order of the file, templates written out.
    pub fn hosts(&self) -> Result<Vec<HostSpec>> {
        let mut hosts: Vec<HostSpec> = Vec::new();
        for (entry, host) in self.file.host.iter().enumerate() {
            let path = format!("host[{entry}]");
            let site = match &host.site {
                Some(site) => self.site_index(site, &format!("{path}.site"))?,
                None if self.file.site.len() <= 1 => 0,
                None => {
                    return Err(self.error(
                        &path,
                        format!(
                            "host `{}` does not say which of the {} sites it is in",
                            host.name,
                            self.file.site.len()
                        ),
                        Some("add site = \"...\"".into()),
                    ));
                }
            };
            let first = host.first.unwrap_or(1);
            for n in self.numbers(host.count, first, &format!("{path}.count"), hosts.len())? {
                let name = self.name(&host.name, Names { n, host: None }, &format!("{path}.name"))?;
                if hosts.iter().any(|other| other.name == name) {
                    return Err(self.error(
                        &format!("{path}.name"),
                        format!("two hosts are called `{name}`"),
                        Some("a name with {n} counts".into()),
                    ));
                }
                let copy_address = match &host.copy_address {
                    Some(address) => {
                        let names = Names { n, host: Some(&name) };
                        Some(self.name(address, names, &format!("{path}.copy_address"))?)
                    }
                    None => None,
                };
                hosts.push(HostSpec { name, site, enclosure: host.enclosure.clone(), copy_address, entry });
            }
        }
        Ok(hosts)
    }

    /// Every volume of a host in the order of the file, templates written out.
    pub fn volumes(&self, host: &str) -> Result<Vec<VolumeInfo>> {
        let mut volumes: Vec<VolumeInfo> = Vec::new();
        for (entry, volume) in self.file.volume.iter().enumerate() {
            if !volume.host.as_deref().is_none_or(|pattern| matches(pattern, host)) {
                continue;
            }
            let path = format!("volume[{entry}]");
            let capacity_gib = self.volume_gib(entry)?;
            for n in self.numbers(volume.count, 1, &format!("{path}.count"), volumes.len())? {
                let names = Names { n, host: Some(host) };
                let name = self.name(&volume.name, names, &format!("{path}.name"))?;
                if volumes.iter().any(|other| other.name == name) {
                    let message = format!("host `{host}` has two volumes called `{name}`");
                    return Err(self.error(
                        &format!("{path}.name"),
                        message,
                        Some("a name with {n} counts".into()),
                    ));
                }
                let folder = match &volume.path {
                    Some(folder) => Some(self.name(folder, names, &format!("{path}.path"))?),
                    None => None,
                };
                volumes.push(VolumeInfo { name, role: volume.role, path: folder, capacity_gib, entry });
            }
        }
        Ok(volumes)
    }

    /// The kind of disk called `name`, asked for at `path`.
    pub fn disk(&self, name: &str, path: &str) -> Result<&Disk> {
        self.file.disk.iter().find(|disk| disk.name == name).ok_or_else(|| {
            self.unknown_name("disk", name, self.file.disk.iter().map(|disk| disk.name.as_str()), path)
        })
    }

    /// The pool called `name`, asked for at `path`.
    pub fn pool(&self, name: &str, path: &str) -> Result<&Pool> {
        self.file.pool.iter().find(|pool| pool.name == name).ok_or_else(|| {
            self.unknown_name("pool", name, self.file.pool.iter().map(|pool| pool.name.as_str()), path)
        })
    }

    /// The index of the site called `name`, asked for at `path`.
    pub fn site_index(&self, name: &str, path: &str) -> Result<usize> {
        self.file.site.iter().position(|site| site.name == name).ok_or_else(|| {
            self.unknown_name("site", name, self.file.site.iter().map(|site| site.name.as_str()), path)
        })
    }

    /// An error about a name that nothing has.
    pub fn unknown_name<'a>(
        &self,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
        path: &str,
    ) -> Box<crate::SolutionError> {
        let help =
            did_you_mean(name, known.clone()).map(|near| format!("did you mean `{near}`?")).or_else(|| {
                let known: Vec<&str> = known.take(12).collect();
                (!known.is_empty()).then(|| format!("known: {}", known.join(", ")))
            });
        self.error(path, format!("no {what} is called `{name}`"), help)
    }

    fn volume_gib(&self, entry: usize) -> Result<Option<f64>> {
        let volume = &self.file.volume[entry];
        if volume.disk.is_some() && volume.pool.is_some() {
            return Err(self.error(
                &format!("volume[{entry}].pool"),
                format!("volume `{}` has disks of its own and lies in a pool", volume.name),
                Some("keep either disk or pool".into()),
            ));
        }
        if let Some(pool) = &volume.pool {
            self.pool(pool, &format!("volume[{entry}].pool"))?;
        }
        let Some(kind) = &volume.disk else { return Ok(volume.capacity_gib) };
        let disk = self.disk(kind, &format!("volume[{entry}].disk"))?;
        let disks = volume.disks.unwrap_or(1);
        if let Some(lacking) = volume.raid.lacks(disks) {
            return Err(self.error(
                &format!("volume[{entry}].disks"),
                format!("volume `{}` cannot be made of {disks} disks at this RAID level", volume.name),
                Some(lacking),
            ));
        }
        Ok(volume.capacity_gib.or(Some(gib_of_disks(disk.capacity_gb, disks, volume.raid, disks))))
    }

    /// The running numbers of an entry with `count`, refused when there are too many.
    pub(crate) fn numbers(
        &self,
        count: Option<u32>,
        first: u32,
        path: &str,
        already: usize,
    ) -> Result<std::ops::Range<u32>> {
        let count = count.unwrap_or(1);
        if count == 0 || count > MAX_NAMES.saturating_sub(already as u32) {
            let message = format!("{count} of these cannot be, a solution may have 1 to {MAX_NAMES}");
            return Err(self.error(path, message, None));
        }
        Ok(first..first.saturating_add(count))
    }

    /// A template filled in, with an error at `path` when it names what is not known.
    pub(crate) fn name(&self, template: &str, names: Names<'_>, path: &str) -> Result<String> {
        expand(template, names).map_err(|sentence| {
            self.error(
                path,
                sentence,
                Some("known are {n}, {n:03}, {n/4} and, in volumes and instances, {host}".into()),
            )
        })
    }

    /// A template filled in that names a file or a folder below a volume; refused at `path` where it would lie elsewhere.
    pub(crate) fn name_on_disk(&self, template: &str, names: Names<'_>, path: &str) -> Result<String> {
        let name = self.name(template, names, path)?;
        self.refuse_foreign_name(&name, path)?;
        Ok(name)
    }

    /// Volumes are marked and cleaned as a whole: a name must not lead out of its volume.
    pub(crate) fn refuse_foreign_name(&self, name: &str, path: &str) -> Result<()> {
        // Markers of folders have `#` for any digit of a log's number.
        if !matches!(name, "" | "." | "..") && !name.contains(['/', '\0', '#']) {
            return Ok(());
        }
        let message = format!("no file or folder of a volume can be called `{name}`");
        Err(self.error(
            path,
            message,
            Some("a name without `/` and `#`; the volume's path says where it lies".into()),
        ))
    }
}
