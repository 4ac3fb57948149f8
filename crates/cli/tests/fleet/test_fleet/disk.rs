//! A disk for the hosts of a fleet that is as fast as memory: an ext4 file system in a file in memory. What these tests
//! judge is the protocol, so they must not depend on how fast the disk of this machine is.
//!
//! Limits: it needs root, `mkfs.ext4` and memory to spare. Where one is missing, the folder lies on the disk of this
//! machine. A test that is killed leaves the file system mounted.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Room of the file system; the file in memory takes what is written.
const BYTES: u64 = 6 << 30;
const MEMORY: &str = "/dev/shm";

/// A folder on such a disk.
pub struct Disk {
    folder: TempDir,
    /// Keeps the file while the disk is mounted.
    image: Option<TempDir>,
}

impl Disk {
    pub fn new() -> Disk {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("writable");
        let image = has_room().then(|| mounted_on(folder.path())).flatten();
        Disk { folder, image: image }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Stays when the test ends.
    pub fn keep(&mut self) {
        self.folder.disable_cleanup(true);
        if let Some(image) = self.image.take() {
            let _ = image.keep();
        }
    }
}

/// The memory of the file system must not be what the hosts lack.
fn has_room() -> bool {
    let Ok(known) = std::fs::read_to_string("/proc/meminfo") else { return false };
    let line = known.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.is_some_and(|kib| kib * 1024 >= 2 * BYTES)
}

/// A new file system on `folder`; `None` if none can be made here.
fn mounted_on(folder: &Path) -> Option<TempDir> {
    let image = tempfile::tempdir_in(MEMORY).ok()?;
    let file = image.path().join("disk");
    std::fs::File::create(&file).ok()?.set_len(BYTES).ok()?;
    let options = ["-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1"];
    let made = quiet(Command::new("mkfs.ext4").args(options).arg(&file));
    (made && quiet(Command::new("mount").args(["-o", "loop"]).args([&file, folder]))).then_some(image)
}

fn quiet(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.image.is_some() {
            // Processes of the test that still end do not hold it up.
            quiet(Command::new("umount").arg("--lazy").arg(self.folder.path()));
        }
    }
}
