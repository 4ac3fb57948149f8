//! Who may speak on the bus: files made once per fleet, one for the controller and one for each host.
//!
//! `make` draws a certificate authority, the server's certificate and a key pair (NKEY, Ed25519) for each; the
//! server knows public keys only. Each host also gets a certificate of its own, for the connections between
//! copies ([`crate::copy_port`]); the authority's key is not kept, so no host joins a fleet later. Private parts
//! are in files that their owner alone can read, never on a command line. Nothing is ever overwritten.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use evidence::{FILE_VERSION, FileVersion, UnknownVersion, first_version};
use nkeys::KeyPair;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair as TlsKey, KeyUsagePurpose,
};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::subjects::{inbox, token};

/// Name of the controller on the bus: empty, because no host can have that name.
const CONTROLLER: &str = "";

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Time for which the host certificates of a set of credentials are valid.
const HOST_VALID: Duration = DAY.saturating_mul(5 * 365);

/// Credentials of a host or a controller for the bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// Version of the credentials file.
    #[serde(default = "first_version")]
    pub version: u32,
    /// Name of the host; empty for the controller.
    pub name: String,
    /// Address of the bus: `tls://address:port`.
    pub server: String,
    /// Private key (NKEY seed).
    pub seed: String,
    /// Certificate of the authority that signs the server's and the hosts' certificates.
    pub ca_pem: String,
    /// Certificate for connections between copies; `None` for the controller.
    pub copy_port: Option<HostCertificate>,
}

/// Certificate by which a host proves its name to other hosts of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCertificate {
    /// Certificate; its name is [`certified_name`].
    pub certificate_pem: String,
    /// Private key of the certificate.
    pub key_pem: String,
}

/// Name of a host in its certificate. Certificates follow the rules of DNS, which forbid many characters that host
/// names of a solution file may contain.
pub fn certified_name(host: &str) -> String {
    let digest = digest(&SHA256, host.as_bytes());
    let hex = digest.as_ref()[..16].iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    format!("{hex}.host.proofload.internal")
}

/// Reason why credentials cannot be read or made.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The credentials have a version that this program does not read.
    #[error("{}: {version}", path.display())]
    Version {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file.
        version: UnknownVersion,
    },
    /// The file does not contain credentials.
    #[error("{} holds no credentials of a fleet: {why}", path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        why: String,
    },
    /// A host has no name, or two have the same.
    #[error("host names must be different and not empty: {0:?}")]
    Names(Vec<String>),
    /// The address of the server is not valid.
    #[error("`{0}` is not an address: give HOST:PORT")]
    Address(String),
    /// A key or certificate could not be generated.
    #[error("keys cannot be made: {0}")]
    Keys(String),
}

impl CredentialsError {
    /// Remedy for the reason.
    pub fn help(&self) -> &'static str {
        match self {
            CredentialsError::File { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
                "credentials are never overwritten: name a folder that does not exist"
            }
            CredentialsError::File { .. } => "`proofload fleet init` makes credentials",
            CredentialsError::Version { .. } => {
                "install the proofload that made them, or make new credentials for all hosts with `proofload fleet init`"
            }
            CredentialsError::Foreign { .. } => "name a file that `proofload fleet init` made",
            CredentialsError::Names(_) => "write --hosts a,b,c, each host once",
            CredentialsError::Address(_) => "for example --address 192.0.2.10:4222",
            CredentialsError::Keys(_) => "try again",
        }
    }
}

impl Credentials {
    /// Reads a file that [`make`] wrote.
    pub fn read(path: &Path) -> Result<Credentials, CredentialsError> {
        let text = fs::read_to_string(path)
            .map_err(|source| CredentialsError::File { path: path.to_owned(), source })?;
        let foreign = |error: toml::de::Error| CredentialsError::Foreign {
            path: path.to_owned(),
            why: error.message().to_owned(),
        };
        let version: FileVersion = toml::from_str(&text).map_err(foreign)?;
        version.check().map_err(|version| CredentialsError::Version { path: path.to_owned(), version })?;
        toml::from_str(&text).map_err(foreign)
    }

    /// Whether the credentials are the controller's.
    pub fn are_controllers(&self) -> bool {
        self.name == CONTROLLER
    }
}

/// Makes the credentials of a fleet below `folder`, which must not exist: `controller.toml`, `agents/<host>.toml`, and
/// `nats-server.conf` with the certificate files that it names, for a server at `address` (HOST:PORT).
pub fn make(folder: &Path, hosts: &[String], address: &str) -> Result<(), CredentialsError> {
    let mut sorted = hosts.to_vec();
    sorted.sort();
    sorted.dedup();
    if sorted.len() != hosts.len() || hosts.iter().any(String::is_empty) {
        return Err(CredentialsError::Names(hosts.to_vec()));
    }
    let (server_name, port) = address
        .rsplit_once(':')
        .filter(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok())
        .ok_or_else(|| CredentialsError::Address(address.to_owned()))?;
    let keys = |error: rcgen::Error| CredentialsError::Keys(error.to_string());
    let tls = Tls::draw(server_name.trim_matches(['[', ']'])).map_err(keys)?;

    new_folder(folder)?;
    new_folder(&folder.join("agents"))?;
    let mut users = String::new();
    for name in std::iter::once(CONTROLLER).chain(hosts.iter().map(String::as_str)) {
        let key = KeyPair::new_user();
        let seed = key.seed().map_err(|error| CredentialsError::Keys(error.to_string()))?;
        let credentials = Credentials {
            version: FILE_VERSION,
            name: name.to_owned(),
            server: format!("tls://{address}"),
            seed,
            ca_pem: tls.authority.pem(),
            copy_port: match name {
                CONTROLLER => None,
                host => Some(tls.host(host).map_err(keys)?),
            },
        };
        let text = toml::to_string(&credentials).expect("nothing but strings");
        let path = match name {
            CONTROLLER => folder.join("controller.toml"),
            host => folder.join("agents").join(format!("{}.toml", token(host))),
        };
        new_file(&path, &text)?;
        users += &user(name, &key.public_key());
    }
    new_file(&folder.join("ca.pem"), &tls.authority.pem())?;
    new_file(&folder.join("server.pem"), &tls.server_pem)?;
    new_file(&folder.join("server-key.pem"), &tls.server_key_pem)?;
    // A name may stand for another address on the controller than on the hosts, so only an address is taken at
    // its word.
    let bare = server_name.trim_matches(['[', ']']);
    let listen = if bare.parse::<std::net::IpAddr>().is_ok() { server_name } else { "0.0.0.0" };
    let config = format!(
        "# The bus of a proofload fleet. Paths are relative to the folder in which nats-server is started.\n\
         listen: \"{listen}:{port}\"\n\
         tls {{ cert_file: \"server.pem\", key_file: \"server-key.pem\", timeout: 5 }}\n\
         authorization {{\n  users: [\n{users}  ]\n}}\n"
    );
    new_file(&folder.join("nats-server.conf"), &config)
}

/// Permissions of one user on the NATS server: a host publishes under its own name and receives its own answers,
/// nothing else.
fn user(name: &str, public_key: &str) -> String {
    let (publish, subscribe) = match name {
        CONTROLLER => ("proofload_inbox.>".to_owned(), "proofload.*.*\", \"proofload_inbox.>".to_owned()),
        host => (format!("proofload.{}.*", token(host)), format!("{}.>", inbox(host))),
    };
    format!(
        "    {{ nkey: {public_key}, permissions: {{ publish: [\"{publish}\"], subscribe: [\"{subscribe}\"] }} }}\n"
    )
}

struct Tls {
    authority: CertifiedIssuer<'static, TlsKey>,
    server_pem: String,
    server_key_pem: String,
}

impl Tls {
    fn draw(server_name: &str) -> Result<Tls, rcgen::Error> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        authority.distinguished_name.push(DnType::CommonName, "proofload fleet");
        let authority = CertifiedIssuer::self_signed(authority, TlsKey::generate()?)?;
        let names = [server_name, "localhost", "127.0.0.1"].map(str::to_owned);
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name.push(DnType::CommonName, "proofload bus");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = TlsKey::generate()?;
        let certificate = server.signed_by(&key, &authority)?;
        Ok(Tls { authority, server_pem: certificate.pem(), server_key_pem: key.serialize_pem() })
    }

    fn host(&self, name: &str) -> Result<HostCertificate, rcgen::Error> {
        let mut host = CertificateParams::new([certified_name(name)])?;
        host.distinguished_name.push(DnType::CommonName, name);
        // Hosts both call and are called.
        host.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let now = SystemTime::now();
        // A host's calendar may be behind.
        (host.not_before, host.not_after) = ((now - DAY).into(), (now + HOST_VALID).into());
        let key = TlsKey::generate()?;
        let certificate = host.signed_by(&key, &self.authority)?;
        Ok(HostCertificate { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

fn new_folder(path: &Path) -> Result<(), CredentialsError> {
    fs::DirBuilder::new()
        .mode(0o700)
        .create(path)
        .map_err(|source| CredentialsError::File { path: path.to_owned(), source })
}

fn new_file(path: &Path, text: &str) -> Result<(), CredentialsError> {
    let failed = |source| CredentialsError::File { path: path.to_owned(), source };
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_an_unknown_version_are_refused_by_name_and_those_without_version_are_read() {
        let root = tempfile::tempdir().unwrap();
        make(&root.path().join("fleet"), &["h1".to_owned()], "127.0.0.1:4222").unwrap();
        let path = root.path().join("fleet/agents/h1.toml");
        let made = fs::read_to_string(&path).unwrap();
        assert!(made.starts_with("version = 1\n"), "{made}");
        fs::write(&path, made.replacen("version = 1", "version = 2\nnew = 1", 1)).unwrap();
        let error = Credentials::read(&path).unwrap_err();
        let text = format!("{}: it has version 2; this program reads version 1", path.display());
        assert_eq!(error.to_string(), text);
        assert!(error.help().contains("proofload fleet init"), "{}", error.help());
        fs::write(&path, made.replacen("version = 1\n", "", 1)).unwrap();
        assert_eq!(Credentials::read(&path).unwrap().name, "h1");
    }
}
