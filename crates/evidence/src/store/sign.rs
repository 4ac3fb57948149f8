//! Ed25519 signatures of seals.
//!
//! A key file holds the 32 bytes of the secret as 64 hexadecimal digits. What is signed is the digest of a seal
//! as text.

use std::fmt::Write as _;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

const KEY_BYTES: usize = 32;

/// A private Ed25519 key that signs the seals and the attestation of a run.
#[derive(Debug)]
pub struct SigningKey(Ed25519KeyPair);

/// Why a key could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The operating system gave an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not a private key.
    #[error("{} is no signing key: it must hold 64 hexadecimal digits", .0.display())]
    NoKey(PathBuf),
    /// The text is not a public key of 64 hexadecimal digits.
    #[error("`{0}` is no public key: it must be 64 hexadecimal digits")]
    NoPublicKey(String),
    /// The operating system gives no random numbers.
    #[error("the system gives no random numbers")]
    NoRandom,
}

impl KeyError {
    /// The remedy, as it is printed.
    pub fn help(&self) -> &'static str {
        match self {
            KeyError::NoPublicKey(_) => "`proofload lint --new-key FILE` prints it when it makes the key",
            KeyError::NoKey(_) | KeyError::Io { .. } => {
                "`proofload lint --new-key FILE` makes a new key file"
            }
            KeyError::NoRandom => "the key needs getrandom(2) of the kernel",
        }
    }
}

impl SigningKey {
    /// Makes a new key and writes it to a new file that only its owner can read.
    pub fn create(path: &Path) -> Result<SigningKey, KeyError> {
        let io = |source| KeyError::Io { path: path.to_owned(), source };
        let mut secret = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut secret).map_err(|_| KeyError::NoRandom)?;
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path).map_err(io)?;
        file.write_all(format!("{}\n", hex(&secret)).as_bytes()).map_err(io)?;
        file.sync_all().map_err(io)?;
        SigningKey::read(path)
    }

    /// Reads a key from its file.
    pub fn read(path: &Path) -> Result<SigningKey, KeyError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| KeyError::Io { path: path.to_owned(), source })?;
        bytes::<KEY_BYTES>(text.trim())
            .and_then(|secret| Ed25519KeyPair::from_seed_unchecked(&secret).ok())
            .map(SigningKey)
            .ok_or_else(|| KeyError::NoKey(path.to_owned()))
    }

    /// The public key, as 64 hexadecimal digits.
    pub fn public(&self) -> String {
        hex(self.0.public_key().as_ref())
    }

    pub(super) fn sign(&self, digest: &str) -> String {
        hex(&self.sign_bytes(digest.as_bytes()))
    }

    /// Signs bytes.
    pub(crate) fn sign_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        self.0.sign(bytes).as_ref().to_vec()
    }
}

/// Reads a public key of 64 hexadecimal digits; refuses what is none.
pub fn public_key(text: &str) -> Result<String, KeyError> {
    let key = text.trim().to_ascii_lowercase();
    match bytes::<KEY_BYTES>(&key) {
        Some(_) => Ok(key),
        None => Err(KeyError::NoPublicKey(text.to_owned())),
    }
}

pub(super) fn is_signed(digest: &str, signer: &str, signature: &str) -> bool {
    bytes::<64>(signature).is_some_and(|signature| is_signed_bytes(digest.as_bytes(), signer, &signature))
}

/// Checks a signature: whether the holder of the public key `signer`, 64 hexadecimal digits, signed these bytes.
pub(crate) fn is_signed_bytes(message: &[u8], signer: &str, signature: &[u8]) -> bool {
    let key = bytes::<KEY_BYTES>(signer);
    key.is_some_and(|key| UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes from their hexadecimal digits: the reverse of [`hex`].
fn bytes<const N: usize>(hex: &str) -> Option<[u8; N]> {
    if hex.len() != 2 * N || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(bytes)
}
