//! What hosts share with each other: a machine, a file system, an export, a disk. Each host says what it stands on.
//!
//! Invariant: hosts share a part only if each of them names it.
//!
//! Limits: virtual machines of one physical machine look like machines of their own. Two exports may lie on one disk.
//! The layers of a container do not show the file system below them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use results::{Environment, Severity};

use super::mounts::{Mount, Nature};
use super::{Findings, NOT_READABLE, devices, read};
use crate::sha256_hex;

/// Name of the environment row with the boot id: two hosts with the same one are the same running machine.
const BOOT_ID: &str = "Boot id";
const MACHINE_ID: &str = "Machine id";
/// Name of the environment rows with the identity of a volume's storage: file system, network export, disks.
const IDENTITY: &str = "Identity";
/// Prefix of an identity that is a file system: equal device numbers on one machine.
const FILE_SYSTEM: &str = "file system on device ";
const EXPORT: &str = "export ";
const DISK: &str = "disk ";
/// Area of the environment rows that say what hosts of a run share.
pub const SHARED: &str = "Shared by hosts";
/// Most hosts that a sentence names; more are counted.
const NAMED_MAX: usize = 4;

/// A machine, file system, export or disk that several hosts of a run share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// The hosts that share it.
    pub hosts: BTreeSet<String>,
    /// Their volumes on it, each with its host; empty if the machine is shared.
    pub volumes: BTreeSet<(String, String)>,
    /// The shared file system, export or disk; `None` if the machine is shared.
    what: Option<String>,
}

impl Shared {
    /// The finding as a sentence without its full stop: which hosts share what.
    pub fn text(&self) -> String {
        let mut names: Vec<&str> = self.hosts.iter().map(String::as_str).collect();
        let more =
            (names.len() > NAMED_MAX).then(|| format!("{} more hosts", names.split_off(NAMED_MAX - 1).len()));
        names.extend(more.as_deref());
        let (last, others) = names.split_last().expect("hosts share it");
        let what =
            self.what.as_ref().map_or("run on one machine".to_owned(), |what| format!("share the {what}"));
        format!("{} and {last} {what}", others.join(", "))
    }

    /// The environment row of the finding. Sharing that the solution file does not declare is a warning.
    pub fn row(&self, is_declared: bool) -> Environment {
        let (name, note) = match &self.what {
            None => ("Machine", "their load generators compete for its processors"),
            Some(_) => ("Storage", "their loads meet there, and the solution file does not say so"),
        };
        let (severity, note) = if is_declared { (Severity::Info, "") } else { (Severity::Warning, note) };
        let host = self.hosts.first().cloned().unwrap_or_default();
        let (area, name, note) = (SHARED.to_owned(), name.to_owned(), note.to_owned());
        Environment { host, area, name, value: self.text(), severity, note }
    }
}

/// Adds the rows that identify this machine: boot id and machine id. The machine id is confidential, so only a digest
/// of it is kept.
pub(super) fn machine_rows(found: &mut Findings<'_>, root: &Path) {
    let boot_id = read(root, "proc/sys/kernel/random/boot_id");
    let machine_id = read(root, "etc/machine-id").map(|id| sha256_hex(format!("proofload {id}").as_bytes()));
    for (name, id) in [(BOOT_ID, boot_id), (MACHINE_ID, machine_id.map(|digest| digest[..16].to_owned()))] {
        found.row("System", name, id.as_deref().unwrap_or(NOT_READABLE));
    }
}

/// Adds the rows that identify the file system, the export and the disks of a volume.
pub(super) fn volume_rows(
    found: &mut Findings<'_>,
    root: &Path,
    area: &str,
    mount: &Mount,
    disks: &BTreeSet<String>,
) {
    let file_system = match export(mount) {
        Some(export) => format!("{EXPORT}{export}"),
        None => format!("{FILE_SYSTEM}{}", mount.device),
    };
    found.row(area, IDENTITY, &file_system);
    for disk in disks {
        found.row(
            area,
            IDENTITY,
            &format!("{DISK}{}", devices::world_wide_name(root, disk).as_ref().unwrap_or(disk)),
        );
    }
}

/// The export of a network file system (`server:/path`), if its name means the same on every host; none of a server at
/// `localhost`.
fn export(mount: &Mount) -> Option<&str> {
    let has_server = ["nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "afs"];
    let server = mount.source.trim_start_matches('/');
    let is_own = ["localhost", "127.", "::1", "[::1]"].iter().any(|own| server.starts_with(own));
    (mount.nature() == Nature::Network && has_server.contains(&&*mount.file_system) && !is_own)
        .then_some(&mount.source)
}

/// The rows of a host that identify it and its storage.
pub fn identity(rows: &[Environment]) -> Vec<Environment> {
    let names = [BOOT_ID, MACHINE_ID, IDENTITY];
    rows.iter().filter(|row| names.contains(&&*row.name)).cloned().collect()
}

/// An identity and the machine on which it is unique; no machine if it is unique everywhere.
type Identity<'a> = (Option<&'a str>, &'a str);

/// The machines, file systems, exports and disks that the hosts of these rows share.
pub fn shared(rows: &[Environment]) -> Vec<Shared> {
    let is_known = |row: &&Environment| row.area == "System" && row.value != NOT_READABLE;
    let named = |name: &str| -> BTreeMap<&str, &str> {
        let of_name = rows.iter().filter(is_known).filter(|row| row.name == name);
        of_name.map(|row| (row.host.as_str(), row.value.as_str())).collect()
    };
    // Cloned machines may have one machine id, so it counts only where the boot id is not known.
    let mut machines = named(MACHINE_ID);
    machines.extend(named(BOOT_ID));
    let mut users: BTreeMap<Identity<'_>, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for (host, machine) in &machines {
        users.entry((Some(machine), "")).or_default().insert((host, ""));
    }
    for row in rows.iter().filter(|row| row.name == IDENTITY) {
        let Some(volume) = row.area.strip_prefix("Volume ") else { continue };
        let is_of_all =
            row.value.starts_with(EXPORT) || devices::is_world_wide(row.value.trim_start_matches(DISK));
        let machine = machines.get(row.host.as_str()).copied();
        if is_of_all || machine.is_some() {
            let of = machine.filter(|_| !is_of_all);
            users.entry((of, &row.value)).or_default().insert((&row.host, volume));
        }
    }
    let parts = users.into_iter().map(|((_, what), users)| (what, users));
    let mut parts: Vec<_> = parts.filter(|(_, users)| hosts_of(users).len() > 1).collect();
    parts.sort();
    let file_systems: Vec<_> =
        parts.iter().filter(|(what, _)| !what.starts_with(DISK)).map(|part| part.1.clone()).collect();
    // The disks below a file system that is shared anyhow are no news.
    parts.retain(|(what, users)| {
        !what.starts_with(DISK) || !file_systems.iter().any(|above| users.is_subset(above))
    });
    parts.into_iter().map(|(what, users)| part(what, &users)).collect()
}

fn hosts_of(users: &BTreeSet<(&str, &str)>) -> BTreeSet<String> {
    users.iter().map(|(host, _)| (*host).to_owned()).collect()
}

fn part(what: &str, users: &BTreeSet<(&str, &str)>) -> Shared {
    let what = (!what.is_empty()).then(|| what.to_owned());
    let volumes = users.iter().filter(|_| what.is_some());
    let volumes = volumes.map(|(host, volume)| ((*host).to_owned(), (*volume).to_owned())).collect();
    Shared { hosts: hosts_of(users), volumes, what }
}

/// Hardware that hosts share although the solution file does not declare it.
pub fn undeclared(rows: &[Environment]) -> Vec<Shared> {
    let is_declared = |shared: &Shared| {
        let text = shared.text();
        rows.iter().any(|row| row.area == SHARED && row.severity == Severity::Info && row.value == text)
    };
    shared(rows).into_iter().filter(|shared| !is_declared(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(device: &str, file_system: &str, source: &str) -> Mount {
        let (file_system, options) = (file_system.into(), String::new());
        Mount { device: device.into(), point: "/srv".into(), file_system, source: source.into(), options }
    }

    /// Environment rows of a test host: boot id, and one volume on this mount and these disks.
    fn host(name: &str, boot_id: &str, mount: &Mount, disks: &[(&str, &str)]) -> Vec<Environment> {
        let place = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = place.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        if !boot_id.is_empty() {
            put("proc/sys/kernel/random/boot_id", boot_id);
        }
        put("etc/machine-id", "cloned\n");
        for (disk, wwid) in disks.iter().filter(|(_, wwid)| !wwid.is_empty()) {
            put(&format!("sys/class/block/{disk}/device/wwid"), wwid);
        }
        let mut found = Findings { host: name, rows: Vec::new() };
        machine_rows(&mut found, place.path());
        let disks = disks.iter().map(|(disk, _)| (*disk).to_owned()).collect();
        volume_rows(&mut found, place.path(), "Volume V", mount, &disks);
        found.rows
    }

    fn texts(rows: &[Environment]) -> Vec<String> {
        shared(rows).iter().map(Shared::text).collect()
    }

    #[test]
    fn hosts_on_one_machine_and_one_file_system_share_both_and_each_is_said_once() {
        let here = mount("259:2", "ext4", "/dev/vda2");
        let of = |name: &str| host(name, "boot-1", &here, &[("vda", "")]);
        let three: Vec<Environment> = ["h1", "h2", "h3"].into_iter().flat_map(of).collect();
        let expected =
            ["h1, h2 and h3 run on one machine", "h1, h2 and h3 share the file system on device 259:2"];
        assert_eq!(texts(&three), expected);
        assert_eq!(shared(&three)[1].volumes.len(), 3);
        let many: Vec<Environment> = (1..=20).flat_map(|n| of(&format!("h{n:02}"))).collect();
        assert_eq!(texts(&many)[0], "h01, h02, h03 and 17 more hosts run on one machine");
    }

    #[test]
    fn hosts_of_their_own_share_nothing_even_if_names_of_their_parts_are_equal() {
        let here = mount("259:2", "ext4", "/dev/vda2");
        let own = mount("0:46", "nfs4", "localhost:/srv");
        for mount in [here, own] {
            let rows =
                [host("h1", "boot-1", &mount, &[("vda", "")]), host("h2", "boot-2", &mount, &[("vda", "")])];
            assert_eq!(texts(&rows.concat()), [""; 0], "cloned machines have one machine id");
        }
    }

    #[test]
    fn machines_share_exports_and_disks_that_have_one_name_everywhere() {
        let nas = |device: &str| mount(device, "nfs4", "nas:/export");
        let rows = [host("h1", "boot-1", &nas("0:46"), &[]), host("h2", "boot-2", &nas("0:51"), &[])];
        assert_eq!(texts(&rows.concat()), ["h1 and h2 share the export nas:/export"]);
        let lun = |name: &str, boot: &str| {
            host(name, boot, &mount("8:0", "xfs", "/dev/sda"), &[("sda", "naa.600508b1001c"), ("sdb", "  ")])
        };
        assert_eq!(
            texts(&[lun("h1", "boot-1"), lun("h2", "boot-2")].concat()),
            ["h1 and h2 share the disk naa.600508b1001c"]
        );
    }

    #[test]
    fn two_file_systems_on_one_disk_share_the_disk_and_a_machine_without_boot_id_is_told_by_its_machine_id() {
        let on =
            |name: &str, device: &str| host(name, "", &mount(device, "ext4", "/dev/vda"), &[("vda", "")]);
        let rows = [on("h1", "259:2"), on("h2", "259:3")].concat();
        assert_eq!(texts(&rows), ["h1 and h2 run on one machine", "h1 and h2 share the disk vda"]);
        assert!(
            rows.iter().all(|row| !row.value.contains("cloned")),
            "the machine id itself is confidential"
        );
    }

    #[test]
    fn only_a_row_that_declares_the_same_sharing_takes_its_doubt_away() {
        let here = mount("259:2", "ext4", "/dev/vda2");
        let mut rows = [host("h1", "boot-1", &here, &[]), host("h2", "boot-1", &here, &[])].concat();
        let [machine, file_system] = &shared(&rows)[..] else { panic!("{rows:?}") };
        let (machine, file_system) = (machine.clone(), file_system.clone());
        assert_eq!(undeclared(&rows), [machine.clone(), file_system.clone()]);
        rows.push(file_system.row(true));
        rows.push(machine.row(false));
        assert_eq!(undeclared(&rows), [machine]);
    }
}
