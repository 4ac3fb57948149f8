//! Pages in headless Chromium, as a person sees and uses them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{has_python, has_tool};

/// Whether Chromium runs. If it does not, prints what is skipped.
///
/// # Panics
/// As [`has_tool`].
pub fn has_browser() -> bool {
    has_python() && has_tool("chromium", &["--version"], "sudo apt-get install -y chromium")
}

/// Whether axe, the checker for accessibility, is installed. If it is not, prints what is skipped.
///
/// # Panics
/// As [`has_tool`].
pub fn has_axe() -> bool {
    let install = "python3 -m pip install --no-deps axe-playwright-python";
    has_tool("python3", &["-c", "import axe_playwright_python"], install)
}

/// Script condition that the page shows a text.
pub fn shows(text: &str) -> String {
    format!("document.body.innerText.includes({text:?})")
}

/// A look at a page.
#[derive(Default)]
pub struct Visit<'a> {
    /// Address of the page.
    pub url: &'a str,
    /// Width of the window in pixels.
    pub width: u32,
    /// Whether the user prefers dark colours.
    pub dark: bool,
    /// Condition that must hold before the first step.
    pub condition: &'a str,
    /// Scripts that run one after the other, each with the condition that must hold after it.
    pub steps: &'a [(&'a str, &'a str)],
    /// Whether axe checks the page at the end.
    pub axe: bool,
    /// File for a picture of the page.
    pub picture: Option<PathBuf>,
}

impl Visit<'_> {
    /// Visits the page with `browser.py`. Returns its state at the end.
    ///
    /// # Panics
    /// If a condition never holds, or the browser fails.
    pub fn see(&self) -> Value {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/browser.py");
        let mut command = Command::new("python3");
        command.arg(program).args([self.url, &self.width.to_string(), self.condition]);
        command.args(self.steps.iter().flat_map(|(script, condition)| ["--do", script, condition]));
        command.args(self.dark.then_some("--dark")).args(self.axe.then_some("--axe"));
        if let Some(picture) = &self.picture {
            command.arg("--picture").arg(picture);
        }
        let output = command.output().expect("python runs");
        let told = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"))
    }
}
