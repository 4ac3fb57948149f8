//! Whether the files of a folder are in memory: on a memory file system, or on devices and layers that stand on one.
//!
//! Limits: what lies below a network file system, below a layer whose folder this process cannot see, or inside
//! the host of a virtual machine is not known.

use std::path::{Path, PathBuf};

use super::mounts::{self, Mount, MountError, Nature, unescape};
use super::{devices, read};

/// Whether the files of a folder are kept in memory, so that a run on it proves nothing about disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InMemory {
    /// Neither the file system nor a device below it is memory, as far as the host shows.
    No,
    /// The files are in memory of this kind (tmpfs, a RAM disk).
    Yes(String),
    /// The host does not show whether the files are in memory; with the reason.
    Unknown(String),
}

/// Most layers that are followed down: a loop device on a file of a loop device, and so on.
const LAYERS_MAX: usize = 8;

/// Looks for memory below a folder: its file system, and every device and backing file under that.
pub fn in_memory(root: &Path, mounts: &[Mount], dir: &Path) -> InMemory {
    below(root, mounts, dir, LAYERS_MAX)
}

/// Refuses folders whose files would be in memory. `--allow-memory` skips this check.
pub fn check_memory(mounts: &[Mount], dirs: &[PathBuf]) -> Result<(), MountError> {
    for dir in dirs {
        if let InMemory::Yes(what) = in_memory(Path::new("/"), mounts, dir) {
            return Err(MountError::Memory { path: dir.clone(), what });
        }
    }
    Ok(())
}

fn below(root: &Path, mounts: &[Mount], dir: &Path, layers: usize) -> InMemory {
    let Some(mount) = mounts::of(mounts, dir) else {
        return InMemory::Unknown(format!("no mount holds {}", dir.display()));
    };
    let on = format!("{} on {}", mount.file_system, mount.point.display());
    match mount.nature() {
        Nature::Memory => return InMemory::Yes(on),
        Nature::Network => return InMemory::Unknown(format!("{on} is not local")),
        Nature::Overlay => {
            let upper = mount.options.split(',').find_map(|option| option.strip_prefix("upperdir="));
            return match upper.map(|upper| PathBuf::from(unescape(upper))).filter(|upper| upper.is_dir()) {
                Some(upper) if layers > 0 => below(root, mounts, &upper, layers - 1),
                _ => InMemory::Unknown(format!("the folder that {on} writes to cannot be seen")),
            };
        }
        Nature::Plain | Nature::CopyOnWrite => {}
    }
    let mut unknown = None;
    for device in devices::below(root, mount) {
        match device_in_memory(root, mounts, &device.name, layers) {
            InMemory::No => {}
            InMemory::Yes(what) => return InMemory::Yes(what),
            InMemory::Unknown(why) => unknown = Some(why),
        }
    }
    unknown.map_or(InMemory::No, InMemory::Unknown)
}

fn device_in_memory(root: &Path, mounts: &[Mount], name: &str, layers: usize) -> InMemory {
    if name.starts_with("ram") || name.starts_with("zram") {
        return InMemory::Yes(format!("device {name}"));
    }
    if !name.starts_with("loop") {
        return InMemory::No;
    }
    match read(root, &format!("sys/class/block/{name}/loop/backing_file")) {
        // The kernel marks a file that was removed behind its name; nothing says where it lies.
        Some(file) if layers > 0 && Path::new(&file).exists() => {
            match below(root, mounts, Path::new(&file), layers - 1) {
                InMemory::Yes(what) => InMemory::Yes(format!("{name}, a file on {what}")),
                other => other,
            }
        }
        _ => InMemory::Unknown(format!("the file of {name} cannot be seen")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A host with these block devices below `/sys`, each with the file that backs it if it is a loop device.
    fn host(devices: &[(&str, &str, Option<&Path>)]) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        for (number, name, backing) in devices {
            let dir = root.join("sys/devices/virtual/block").join(name);
            put(&dir.join("size"), "8");
            if let Some(file) = backing {
                put(&dir.join("loop/backing_file"), &file.display().to_string());
            }
            for at in [format!("sys/dev/block/{number}"), format!("sys/class/block/{name}")] {
                std::fs::create_dir_all(root.join(&at).parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(&dir, root.join(at)).unwrap();
            }
        }
        place
    }

    fn mount(device: &str, point: &Path, file_system: &str, options: &str) -> Mount {
        Mount {
            device: device.into(),
            point: point.canonicalize().unwrap(),
            file_system: file_system.into(),
            source: "none".into(),
            options: options.into(),
        }
    }

    #[test]
    fn memory_is_found_below_layers_and_loop_devices() {
        let files = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let dir = files.path().join(name);
            std::fs::create_dir_all(&dir).unwrap();
            dir
        };
        let names =
            ["disk", "tmpfs", "ramfs", "looped", "looped-disk", "gone", "ram", "over", "over-disk", "nas"];
        let [disk, tmpfs, ramfs, looped, looped_disk, gone, ram, over, over_disk, nas] = names.map(folder);
        put(&tmpfs.join("image"), "");
        put(&disk.join("image"), "");
        let (in_tmpfs, on_disk) = (tmpfs.join("image"), disk.join("image"));
        let removed = tmpfs.join("image (deleted)");
        let host = host(&[
            ("8:1", "sda", None),
            ("7:1", "loop1", Some(&in_tmpfs)),
            ("7:2", "loop2", Some(&on_disk)),
            ("7:3", "loop3", Some(&removed)),
            ("1:0", "ram0", None),
        ]);
        let upper = |dir: &Path| format!("rw,lowerdir=/,upperdir={},workdir=/w", dir.display());
        let mounts = [
            mount("8:1", &disk, "ext4", "rw"),
            mount("0:30", &tmpfs, "tmpfs", "rw"),
            mount("0:31", &ramfs, "ramfs", "rw"),
            mount("7:1", &looped, "ext4", "rw"),
            mount("7:2", &looped_disk, "xfs", "rw"),
            mount("7:3", &gone, "ext4", "rw"),
            mount("1:0", &ram, "ext4", "rw"),
            mount("0:32", &over, "overlay", &upper(&tmpfs)),
            mount("0:33", &over_disk, "overlay", &upper(&disk)),
            mount("0:34", &nas, "nfs4", "rw"),
        ];
        let of = |dir: &Path| in_memory(host.path(), &mounts, dir);
        let yes = |dir: &Path| matches!(of(dir), InMemory::Yes(_));
        let unknown = |dir: &Path| matches!(of(dir), InMemory::Unknown(_));
        assert_eq!((of(&disk), of(&looped_disk), of(&over_disk)), (InMemory::No, InMemory::No, InMemory::No));
        for dir in [&tmpfs, &ramfs, &looped, &ram, &over] {
            assert!(yes(dir), "{}: {:?}", dir.display(), of(dir));
        }
        assert!(unknown(&nas) && unknown(&gone), "{:?} {:?}", of(&nas), of(&gone));
        let hidden = [mount("0:35", &over, "overlay", "rw,upperdir=/not/here/at/all")];
        assert!(matches!(in_memory(host.path(), &hidden, &over), InMemory::Unknown(_)));
    }

    fn mount_at(point: &str, file_system: &str) -> Mount {
        let text = format!("21 1 259:2 / {point} rw - {file_system} source rw\n");
        mounts::parse(&text).remove(0)
    }

    #[test]
    fn memory_file_systems_are_refused() {
        let mounts = [mount_at("/", "ext4"), mount_at("/dev/shm", "tmpfs")];
        let refused = check_memory(&mounts, &["/etc".into(), "/dev/shm/x".into()]);
        assert!(matches!(refused, Err(MountError::Memory { path, .. }) if path == Path::new("/dev/shm/x")));
        assert!(check_memory(&mounts, &["/etc".into()]).is_ok());
    }
}
