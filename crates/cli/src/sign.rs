//! Keys that sign evidence.

use std::path::PathBuf;

use evidence::{KeyError, SigningKey};

use crate::failure::Failure;

/// Whether and with which key a run is signed.
#[derive(clap::Args)]
pub struct SignArguments {
    /// Sign the seals of run.db with the key in this file; `proofload lint --new-key` makes one, `lint --verify` checks it.
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
}

impl SignArguments {
    /// The key, read before anything is started.
    pub fn key(&self) -> Result<Option<SigningKey>, Failure> {
        self.sign.as_deref().map(SigningKey::read).transpose().map_err(no_key)
    }
}

/// Why a key cannot be used.
pub fn no_key(error: KeyError) -> Failure {
    let help = match &error {
        KeyError::NoPublicKey(_) => "`proofload lint --new-key FILE` prints it when it makes the key",
        KeyError::NoKey(_) | KeyError::Io { .. } => "`proofload lint --new-key FILE` makes a new key file",
        KeyError::NoRandom => "the key needs getrandom(2) of the kernel",
    };
    Failure::wrong_input("cannot use the key").because(error).help(help)
}
