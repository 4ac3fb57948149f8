//! Pages as PDF, printed by a browser that is installed: `--pdf`, behind the cargo feature of that name.
//!
//! The browser gets a profile of its own, which is removed, and a file of ours that has no script and asks for
//! nothing from elsewhere. The style sheet of the page decides where pages break.
//!
//! Limits: Chromium or a browser made from it; other programs are not tried.
#![allow(clippy::disallowed_methods, reason = "the command starts another program and waits for it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Names that the browser goes by, most likely first.
const BROWSERS: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge"];
/// A report of 100 databases takes seconds.
const LONGEST: Duration = Duration::from_secs(120);

/// Prints `page` beside itself, with the ending `.pdf`.
pub fn print(page: &Path) -> Result<(), Failure> {
    let pdf = page.with_extension("pdf");
    let failed = |cause: &dyn std::fmt::Display| {
        Failure::could_not_run(format!("cannot write {}", pdf.display())).because(cause)
    };
    let browser = browser().ok_or_else(|| {
        failed(&"no browser is installed that prints")
            .help(format!("install one of {}, or print the page by hand", BROWSERS.join(", ")))
    })?;
    let page = page.canonicalize().map_err(|error| failed(&error))?;
    let profile = std::env::temp_dir().join(format!("proofload-pdf-{}", std::process::id()));
    let _ = std::fs::remove_file(&pdf);
    let mut command = Command::new(browser);
    command
        .args([
            "--headless",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--no-pdf-header-footer",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--print-to-pdf={}", pdf.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if rustix::process::geteuid().is_root() {
        // Chromium refuses to sandbox as root.
        command.arg("--no-sandbox");
    }
    let outcome = run(command.arg(evidence::file_url(&page)));
    let _ = std::fs::remove_dir_all(&profile);
    outcome.map_err(|error| failed(&error))?;
    if !std::fs::read(&pdf).is_ok_and(|bytes| bytes.starts_with(b"%PDF-")) {
        return Err(failed(&"the browser wrote no PDF").help("print the page by hand"));
    }
    say!("wrote {}", pdf.display());
    Ok(())
}

fn run(command: &mut Command) -> std::io::Result<()> {
    let mut child = command.spawn()?;
    let started = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(std::io::Error::other(format!("the browser ended with {status}"))),
            None if started.elapsed() > LONGEST => {
                child.kill()?;
                child.wait()?;
                return Err(std::io::Error::other("the browser did not end"));
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The first browser in the search path.
fn browser() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let places = BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}
