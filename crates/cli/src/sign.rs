//! Keys that sign evidence.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use evidence::attestation::{self, ATTESTATION};
use evidence::{Report, SigningKey};

use crate::failure::Failure;

/// Whether and with which key a run is signed.
#[derive(clap::Args)]
pub struct SignArguments {
    /// Sign the seals of run.db with the key in this file, and write attestation.json; `proofload lint --new-key`
    /// makes a key, `lint --verify` checks the seals.
    #[arg(long, value_name = "KEY")]
    pub sign: Option<PathBuf>,
}

impl SignArguments {
    /// The key, read before anything is started.
    pub fn key(&self) -> Result<Option<SigningKey>, Failure> {
        if let Some(file) = &self.sign
            && std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o044 != 0)
        {
            let file = file.display();
            say!("warning: other users can read the key in {file} and sign with it: chmod 600 {file}");
        }
        self.read()
    }

    fn read(&self) -> Result<Option<SigningKey>, Failure> {
        Ok(self.sign.as_deref().map(SigningKey::read).transpose()?)
    }

    /// Signs the run whose reports are in `folder` with an attestation, if a key was given.
    pub fn attest(&self, report: &Report, folder: &Path) -> Result<(), Failure> {
        let Some(key) = self.read()? else { return Ok(()) };
        let failed =
            |error| Failure::could_not_run(format!("no attestation of {}", folder.display())).because(error);
        attestation::write(report, folder, &key).map_err(failed)?;
        say!("wrote {}/{ATTESTATION}", folder.display());
        Ok(())
    }
}
