//! Pages as PDF, printed by a browser that is installed.
//!
//! The browser gets a profile of its own, which is removed, and a file of ours that has no script and asks for
//! nothing from elsewhere. The style sheet of the page decides where pages break.
//!
//! Limits: Chromium or a browser made from it; other programs are not tried.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Names of Chromium-based browsers, most likely first.
const BROWSERS: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge"];
/// Longest time to wait for the browser; a report of 100 databases takes seconds.
const LONGEST: Duration = Duration::from_secs(120);

/// Why a page was not printed to PDF.
#[derive(Debug, thiserror::Error)]
pub enum PdfError {
    /// None of the browsers is in the search path.
    #[error("no browser is installed that prints")]
    NoBrowser,
    /// The browser cannot be started, did not end, or failed.
    #[error(transparent)]
    Browser(#[from] std::io::Error),
    /// The browser ended without an error and wrote no PDF.
    #[error("the browser wrote no PDF")]
    NoPdf,
}

impl PdfError {
    /// The remedy, as it is printed.
    pub fn help(&self) -> String {
        format!("install one of {}, or print the page by hand", BROWSERS.join(", "))
    }
}

/// Prints `page` to the file `pdf` with an installed Chromium.
///
/// # Errors
/// There is no such file afterwards.
pub fn print(page: &Path, pdf: &Path) -> Result<(), PdfError> {
    let browser = browser().ok_or(PdfError::NoBrowser)?;
    let page = page.canonicalize()?;
    let profile = std::env::temp_dir().join(format!("proofload-pdf-{}", std::process::id()));
    let _ = std::fs::remove_file(pdf);
    let mut command = Command::new(browser);
    command
        .args([
            "--headless",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--no-pdf-header-footer",
            "--generate-pdf-document-outline",
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
    outcome?;
    if std::fs::read(pdf).is_ok_and(|bytes| bytes.starts_with(b"%PDF-")) {
        Ok(())
    } else {
        Err(PdfError::NoPdf)
    }
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
