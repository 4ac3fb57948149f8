//! File systems: which one a folder is on, what it is, how much is free.
//!
//! Limits: Linux; the mounts that this process sees.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Why a folder cannot be used for databases, logs or backups.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The file system keeps its files in memory; `--allow-memory` was not given.
    #[error("{} is on {what}, which is memory, not storage", path.display())]
    Memory {
        /// The folder.
        path: PathBuf,
        /// What the memory is: a file system (tmpfs), or a device (a RAM disk).
        what: String,
    },
    /// The file system has too little space.
    #[error(
        "{} needs {} of free space, and {} are free",
        path.display(),
        crate::report::text::bytes(*needed_bytes as f64),
        crate::report::text::bytes(*free_bytes as f64)
    )]
    NoSpace {
        /// The first of the folders that share the file system.
        path: PathBuf,
        /// Bytes that all of them need, the reserve of 2 % included.
        needed_bytes: u64,
        /// Free bytes.
        free_bytes: u64,
    },
    /// The operating system gave an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl MountError {
    /// The remedy, as it is printed.
    pub fn help(&self) -> &'static str {
        match self {
            MountError::Memory { .. } => "name a folder on the disk under test, or say --allow-memory",
            MountError::NoSpace { .. } => {
                "make room, or make databases ([sizing]) or checkpoint depth ([engine]) smaller"
            }
            MountError::Io { .. } => "check the permissions",
        }
    }
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Device number, `major:minor`, which leads to `/sys/dev/block`.
    pub device: String,
    /// Folder where it is mounted.
    pub point: PathBuf,
    /// Type of the file system as the kernel calls it: `xfs`, `nfs4`.
    pub file_system: String,
    /// What is mounted, for example `/dev/sda1`.
    pub source: String,
    /// Options of the mount and of the file system.
    pub options: String,
}

/// How a type of file system affects a storage test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// Files are on a local block device and are overwritten in place.
    Plain,
    /// Files are in memory: a test proves nothing about disks.
    Memory,
    /// Each write goes to a new place, so that databases become fragmented (btrfs, ZFS).
    CopyOnWrite,
    /// A layer over other file systems, as in containers: its disks are not visible here.
    Overlay,
    /// Files are on another machine, or served by a process (NFS, SMB, FUSE): the network is part of the test.
    Network,
}

impl Mount {
    /// How this file system affects a storage test.
    pub fn nature(&self) -> Nature {
        match self.file_system.as_str() {
            "tmpfs" | "ramfs" | "devtmpfs" => Nature::Memory,
            "btrfs" | "zfs" | "bcachefs" | "nilfs2" => Nature::CopyOnWrite,
            "overlay" | "aufs" | "unionfs" => Nature::Overlay,
            "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "9p" | "afs" | "glusterfs" | "lustre"
            | "virtiofs" => Nature::Network,
            name if name.starts_with("fuse") => Nature::Network,
            _ => Nature::Plain,
        }
    }
}

/// The mounts that this process sees, from `/proc/self/mountinfo`; none where the kernel does not have it.
pub fn of_this_process() -> Vec<Mount> {
    parse(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

/// Reads the form of `/proc/self/mountinfo`. Lines of another form are left out.
pub fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let device = left.next()?.to_owned();
    let point = PathBuf::from(unescape(left.nth(1)?));
    let mount_options = left.next()?;
    let mut right = right.split(' ');
    let file_system = right.next()?.to_owned();
    let source = unescape(right.next()?);
    let mut options: Vec<&str> = mount_options.split(',').collect();
    for option in right.next().unwrap_or_default().split(',') {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount { device, point, file_system, source, options: options.join(",") })
}

/// Undoes the octal escapes of blanks in mount tables: `\040`.
pub fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out + rest
}

/// The mount that a folder is on, or will be on once it is made.
pub fn of<'a>(mounts: &'a [Mount], dir: &Path) -> Option<&'a Mount> {
    let there = existing(dir)?;
    // The last of equals: a later mount hides an earlier one.
    mounts
        .iter()
        .filter(|mount| there.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

/// The nearest folder that exists, `dir` or above it, with symbolic links resolved.
fn existing(dir: &Path) -> Option<PathBuf> {
    let dir = std::path::absolute(dir).ok()?;
    dir.ancestors().find_map(|dir| dir.canonicalize().ok())
}

/// Bytes that are free for ordinary users on the file system of a folder, which may not exist yet.
fn free_bytes(dir: &Path) -> std::io::Result<u64> {
    let there = existing(dir).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))?;
    let stat = rustix::fs::statvfs(there)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Share of the needed space that must stay free on top: file systems slow down when they are full.
const RESERVE: f64 = 0.02;

/// Checks that each file system has the space that is still to be written to its folders (folder, bytes), and the
/// reserve.
pub fn check_space(mounts: &[Mount], needs: &[(PathBuf, u64)]) -> Result<(), MountError> {
    let mut by_file_system: BTreeMap<&str, (&PathBuf, u64)> = BTreeMap::new();
    for (dir, bytes) in needs {
        let device = of(mounts, dir).map_or("", |mount| mount.device.as_str());
        by_file_system.entry(device).or_insert((dir, 0)).1 += bytes;
    }
    for (dir, bytes) in by_file_system.into_values() {
        let free_bytes = free_bytes(dir).map_err(|source| MountError::Io { path: dir.clone(), source })?;
        let needed_bytes = bytes.saturating_add((bytes as f64 * RESERVE) as u64);
        if bytes > 0 && needed_bytes > free_bytes {
            return Err(MountError::NoSpace { path: dir.clone(), needed_bytes, free_bytes });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "\
21 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
30 21 0:26 / /dev/shm rw,nosuid,nodev shared:4 - tmpfs tmpfs rw,inode64
44 21 0:45 /@data /srv/my\\040data rw,relatime shared:5 - btrfs /dev/sdb rw,compress=zstd:3
45 21 0:46 / /mnt/nas rw - nfs4 nas:/export rw,vers=4.2
";

    #[test]
    fn mounts_are_found_by_the_longest_path_even_with_blanks() {
        let mounts = parse(MOUNTINFO);
        assert_eq!(mounts.len(), 4);
        assert_eq!(mounts[2].point, Path::new("/srv/my data"));
        assert_eq!(mounts[2].options, "rw,relatime,compress=zstd:3");
        assert_eq!(of(&mounts, Path::new("/dev/shm/not/there/yet")).unwrap().file_system, "tmpfs");
        assert_eq!(of(&mounts, Path::new("/etc")).unwrap().source, "/dev/nvme0n1p2");
        let natures: Vec<Nature> = mounts.iter().map(Mount::nature).collect();
        assert_eq!(natures, [Nature::Plain, Nature::Memory, Nature::CopyOnWrite, Nature::Network]);
    }

    #[test]
    fn a_campaign_that_does_not_fit_all_together_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let mounts = parse(&std::fs::read_to_string("/proc/self/mountinfo").unwrap());
        let free = free_bytes(place.path()).unwrap();
        let two = |bytes| [(place.path().join("a"), bytes), (place.path().join("b/c"), bytes)];
        assert!(check_space(&mounts, &two(4096)).is_ok());
        let refused = check_space(&mounts, &two(free / 4 * 3));
        assert!(
            matches!(refused, Err(MountError::NoSpace { .. })),
            "each fits alone, both do not: {refused:?}"
        );
    }
}
