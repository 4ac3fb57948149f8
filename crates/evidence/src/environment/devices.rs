//! Block devices below a file system, from `/sys`: partitions, device mapper, md, multipath, down to the disks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::mounts::Mount;
use super::read;

/// A block device under a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Kernel name, for example `nvme0n1`.
    pub name: String,
    /// Its kind in words: disk model, partition, RAID level, logical volume.
    pub description: Vec<String>,
    /// A property that casts doubt on results, such as a cache of the host in front of the disk, and why.
    pub doubts: Vec<(String, &'static str)>,
    /// Whether it is a disk: no block device lies below it.
    pub is_leaf: bool,
}

/// Names of the block devices under test, with their partitions and NVMe controllers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(BTreeSet<String>);

impl Names {
    /// The block devices that these mounts stand on, from the mounted device down to the disks.
    pub fn below<'m>(root: &Path, mounts: impl Iterator<Item = &'m Mount>) -> Names {
        let mut names = BTreeSet::new();
        for device in mounts.flat_map(|mount| below(root, mount)) {
            let dir = root.join("sys/class/block").join(&device.name);
            let parts = std::fs::read_dir(&dir).into_iter().flatten().flatten();
            let parts = parts.filter(|part| part.path().join("partition").exists());
            names.extend(parts.map(|part| part.file_name().to_string_lossy().into_owned()));
            names.extend(controller(&device.name).map(str::to_owned));
            names.insert(device.name);
        }
        Names(names)
    }

    /// Whether a kernel message names block devices, but none of those under test. Where those are not known, as in a
    /// container that does not see its disks, each message may be about them.
    pub fn means_another(&self, message: &str) -> bool {
        let tokens = message.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        // `dm-0` is a name; in `sda1-8` the number of an inode follows the name.
        let names = tokens.map(|token| match token.split_once('-') {
            Some((name, _)) if name != "dm" => name,
            _ => token,
        });
        let named: Vec<&str> = names.filter(|name| is_device_name(name)).collect();
        let is_known = !self.0.is_empty() && !named.is_empty();
        is_known && !named.iter().any(|name| self.0.contains(*name))
    }
}

/// The controller that a kernel message names for an NVMe device: `nvme0` for `nvme0n1`.
fn controller(name: &str) -> Option<&str> {
    let number = name.strip_prefix("nvme")?;
    Some(&name[.."nvme".len() + number.find('n')?])
}

/// Whether a word has the form of a kernel name of a block device, such as `sda`, `dm-3`, `nvme0n1`.
fn is_device_name(name: &str) -> bool {
    let lettered = ["sd", "vd", "xvd", "hd"];
    let numbered = ["nvme", "loop", "dm-", "md", "nbd", "zram", "ram", "mmcblk", "rbd", "zd", "sr"];
    let after = |prefixes: &[&str], is_next: fn(char) -> bool| {
        prefixes.iter().any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(is_next)))
    };
    let is_lettered = after(&lettered, |c| c.is_ascii_lowercase())
        && name.trim_end_matches(|c: char| c.is_ascii_digit()).len() <= "xvdzz".len();
    is_lettered || after(&numbered, |c| c.is_ascii_digit())
}

/// Every block device below a mount, from the top down, each once.
pub fn below(root: &Path, mount: &Mount) -> Vec<Device> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    if let Some(top) = folder(root, mount) {
        descend(&top, &mut seen, &mut found);
    }
    found
}

/// The folder in `/sys` of a mount's block device.
fn folder(root: &Path, mount: &Mount) -> Option<PathBuf> {
    let by_number = root.join("sys/dev/block").join(&mount.device).canonicalize().ok();
    // File systems with devices of their own (btrfs, zfs) have a number that is no block device.
    by_number.or_else(|| {
        let device = root.join(mount.source.strip_prefix('/')?).canonicalize().ok()?;
        root.join("sys/class/block").join(device.file_name()?).canonicalize().ok()
    })
}

fn descend(dir: &Path, seen: &mut BTreeSet<PathBuf>, found: &mut Vec<Device>) {
    // A partition's queue and disk are those of the device that it is part of.
    let is_partition = dir.join("partition").exists();
    let dir = if is_partition { dir.parent().unwrap_or(dir) } else { dir };
    if !seen.insert(dir.to_owned()) {
        return;
    }
    let mut slaves: Vec<PathBuf> = std::fs::read_dir(dir.join("slaves"))
        .map(|entries| entries.filter_map(|entry| entry.ok()?.path().canonicalize().ok()).collect())
        .unwrap_or_default();
    slaves.sort();
    found.push(device(dir, &slaves));
    for slave in slaves {
        descend(&slave, seen, found);
    }
}

fn device(dir: &Path, slaves: &[PathBuf]) -> Device {
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut description = Vec::new();
    let mut doubts = Vec::new();
    let mut say = |label: &str, path: &str| {
        if let Some(value) = read(dir, path) {
            description.push(if label.is_empty() { value } else { format!("{label} {value}") });
        }
    };
    say("", "device/vendor");
    say("", "device/model");
    say("firmware", "device/firmware_rev");
    say("firmware", "device/rev");
    if let Some(drivers) = drivers(dir) {
        description.push(format!("driver {drivers}"));
    }
    let mut say = |label: &str, path: &str| {
        if let Some(value) = read(dir, path) {
            description.push(format!("{label} {value}"));
        }
    };
    say("queue depth", "device/queue_depth");
    say("requests", "queue/nr_requests");
    say("sectors", "queue/logical_block_size");
    say("physical", "queue/physical_block_size");
    let scheduler = read(dir, "queue/scheduler").unwrap_or_default();
    if let Some((_, rest)) = scheduler.split_once('[') {
        description.push(format!("scheduler {}", rest.split(']').next().unwrap_or_default()));
    }
    match read(dir, "queue/rotational").as_deref() {
        Some("1") => description.push("rotating".to_owned()),
        Some("0") => description.push("not rotating".to_owned()),
        _ => {}
    }
    if let Some(cache) = read(dir, "queue/write_cache") {
        description.push(format!("write cache {cache}"));
    }
    if let Some(kind) = stacking(dir) {
        let names: Vec<_> = slaves.iter().filter_map(|slave| slave.file_name()?.to_str()).collect();
        description.push(format!("{kind} over {}", names.join(", ")));
    }
    if read(dir, "md/degraded").is_some_and(|count| count != "0") {
        doubts.push(("degraded array".to_owned(), "a degraded array is slower than a whole one"));
    }
    if read(dir, "md/sync_action").is_some_and(|action| action != "idle") {
        doubts.push(("array is being rebuilt or checked".to_owned(), "that I/O competes with the tests"));
    }
    if name.starts_with("loop") {
        doubts.push(("loop device".to_owned(), "a file on another file system: its cache may hide the disk"));
    }
    if name.starts_with("ram") || name.starts_with("zram") {
        doubts.push(("memory".to_owned(), "memory, not storage: the results say nothing about disks"));
    }
    Device { name, description, doubts, is_leaf: slaves.is_empty() }
}

/// The world-wide name of a disk (NAA, EUI-64 or UUID), where its driver tells one: the same on every host that sees
/// the disk.
pub fn world_wide_name(root: &Path, disk: &str) -> Option<String> {
    let dir = root.join("sys/class/block").join(disk);
    ["wwid", "device/wwid"].into_iter().find_map(|file| read(&dir, file)).filter(|name| is_world_wide(name))
}

/// Whether a disk's identifier is unique in the world, by its prefix: `naa.`, `eui.`, `t10.` or `uuid.`.
pub fn is_world_wide(name: &str) -> bool {
    ["naa.", "eui.", "t10.", "uuid."].iter().any(|form| name.starts_with(form))
}

/// Kernel drivers from the disk up to its adapter, with their versions where they state one.
fn drivers(dir: &Path) -> Option<String> {
    let named = dir.ancestors().filter_map(|device| {
        let driver = device.join("driver").canonicalize().ok()?;
        let name = driver.file_name()?.to_string_lossy().into_owned();
        let version = read(&driver, "module/version").map_or(String::new(), |version| format!(" {version}"));
        Some(name + &version)
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| named.join(" on "))
}

/// The kind of a device that stands on others: device mapper, MD RAID, partition or loop device.
fn stacking(dir: &Path) -> Option<String> {
    if let Some(level) = read(dir, "md/level") {
        return Some(format!("md {level}"));
    }
    let uuid = read(dir, "dm/uuid")?;
    let kind = match uuid.split('-').next().unwrap_or_default() {
        "mpath" => "multipath",
        "LVM" => "logical volume",
        "CRYPT" => "encryption",
        _ => "device mapper",
    };
    Some(kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn link(root: &Path, at: &str, to: &str) {
        let at = root.join(at);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(root.join(to), at).unwrap();
    }

    #[test]
    fn a_logical_volume_over_multipath_is_followed_down_to_its_disks() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        put(root, "sys/devices/virtual/block/dm-1/dm/uuid", "LVM-abc");
        put(root, "sys/devices/virtual/block/dm-0/dm/uuid", "mpath-360");
        for disk in ["sda", "sdb"] {
            put(root, &format!("sys/devices/pci/{disk}/device/model"), "ST4000NM0023 \n");
            put(root, &format!("sys/devices/pci/{disk}/device/queue_depth"), "32\n");
            put(root, &format!("sys/devices/pci/{disk}/queue/scheduler"), "none [mq-deadline] kyber\n");
            put(root, &format!("sys/devices/pci/{disk}/queue/write_cache"), "write through\n");
            put(root, &format!("sys/devices/pci/{disk}/{disk}1/partition"), "1\n");
        }
        put(root, "sys/bus/pci/drivers/mpt3sas/module/version", "43.100.00.00\n");
        put(root, "sys/bus/scsi/drivers/sd/bind", "");
        link(root, "sys/devices/pci/driver", "sys/bus/pci/drivers/mpt3sas");
        link(root, "sys/devices/pci/sdb/driver", "sys/bus/scsi/drivers/sd");
        link(root, "sys/devices/virtual/block/dm-1/slaves/dm-0", "sys/devices/virtual/block/dm-0");
        link(root, "sys/devices/virtual/block/dm-0/slaves/sda1", "sys/devices/pci/sda/sda1");
        link(root, "sys/devices/virtual/block/dm-0/slaves/sdb", "sys/devices/pci/sdb");
        link(root, "sys/dev/block/253:1", "sys/devices/virtual/block/dm-1");
        let mount = Mount {
            device: "253:1".into(),
            point: "/".into(),
            file_system: "xfs".into(),
            source: "/dev/mapper/a".into(),
            options: "rw".into(),
        };
        for name in ["sda", "sdb", "dm-0", "dm-1"] {
            let dir = if name.starts_with('d') { "virtual/block" } else { "pci" };
            link(root, &format!("sys/class/block/{name}"), &format!("sys/devices/{dir}/{name}"));
        }
        let known = Names::below(root, std::iter::once(&mount));
        for text in [
            "I/O error, dev sda, sector 1",
            "EXT4-fs error (device sda1): x",
            "Aborting journal on device sda1-8.",
            "dm-0: lost async page write",
            "XFS (dm-1): log I/O error -5",
            "ata1.00: failed command: READ FPDMA QUEUED",
            "sd 2:0:0:0: rejecting I/O to offline device",
        ] {
            assert!(!known.means_another(text), "{text}");
        }
        assert!(known.means_another("I/O error, dev nvme7n1, sector 1"));
        assert!(known.means_another("nvme nvme7: I/O 12 QID 3 timeout, aborting"));
        assert!(known.means_another("md/raid1:md0: Disk failure on sdc1, disabling device."));
        assert_eq!(controller("nvme12n1"), Some("nvme12"));
        let devices = below(root, &mount);
        let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["dm-1", "dm-0", "sda", "sdb"], "a partition counts as its disk");
        assert_eq!(devices[1].description, ["multipath over sda1, sdb"]);
        assert!(devices[2].is_leaf && !devices[0].is_leaf);
        let text = devices[2].description.join(", ");
        let after = "queue depth 32, scheduler mq-deadline, write cache write through";
        assert_eq!(text, format!("ST4000NM0023, driver mpt3sas 43.100.00.00, {after}"));
        assert_eq!(devices[3].description[1], "driver sd on mpt3sas 43.100.00.00");
    }
}
