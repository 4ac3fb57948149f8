//! Keys that sign evidence.

use std::path::PathBuf;

use evidence::SigningKey;

use crate::failure::Failure;

/// Whether and with which key a run is signed.
#[derive(clap::Args)]
pub struct SignArguments {
    /// Sign the seals of run.db with the key in this file; `proofload lint --new-key` makes one, `lint
    /// --verify` checks it.
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
}

impl SignArguments {
    /// The key, read before anything is started.
    pub fn key(&self) -> Result<Option<SigningKey>, Failure> {
        self.sign.iter().for_each(|file| detail!("reads the key in {}", file.display()));
        Ok(self.sign.as_deref().map(SigningKey::read).transpose()?)
    }
}
