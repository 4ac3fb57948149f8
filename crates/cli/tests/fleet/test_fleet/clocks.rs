//! Clocks of hosts that drift, and calendars that are set, on one machine: programs start with a library
//! (`clock.c`) that answers for the system when they ask what time it is.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The clocks of the controller (number 0) and of hosts (from 1).
pub struct Clocks {
    folder: PathBuf,
    library: PathBuf,
}

/// Whether programs can be given clocks of their own here; says what is skipped if not.
pub fn can_move_clocks() -> bool {
    testkit::has_tool("cc", &["--version"], "sudo apt-get install -y gcc libc6-dev")
}

impl Clocks {
    /// Clocks of which `fast_ppm` says how fast they run, the controller's first. Their files are in `folder`.
    pub fn new(folder: &Path, fast_ppm: &[i64]) -> Clocks {
        static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
        let library = LIBRARY.get_or_init(build).clone();
        let clocks = Clocks { folder: folder.to_owned(), library };
        let since_ns = monotonic_ns();
        for (host, fast_ppm) in fast_ppm.iter().enumerate() {
            let setting = [since_ns, *fast_ppm, 0].map(i64::to_ne_bytes).concat();
            std::fs::write(clocks.file(host), setting).expect("writable");
        }
        clocks
    }

    fn file(&self, host: usize) -> PathBuf {
        self.folder.join(format!("clock{host}"))
    }

    /// Variables for the programs of a host.
    pub fn settings(&self, host: usize) -> Vec<String> {
        let (library, file) = (self.library.display(), self.file(host));
        vec![format!("LD_PRELOAD={library}"), format!("PROOFLOAD_CLOCK={}", file.display())]
    }

    /// Sets the calendar of a host this far ahead.
    pub fn set_calendar(&self, host: usize, ahead_ms: i64) {
        let file = File::options().write(true).open(self.file(host)).expect("it exists");
        file.write_all_at(&(ahead_ms * 1_000_000).to_ne_bytes(), 16).expect("writable");
    }
}

fn build() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/test_fleet/clock.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clock-{}.so", std::process::id()));
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(source);
    assert!(compile.status().is_ok_and(|status| status.success()), "{compile:?}");
    library
}

fn monotonic_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
