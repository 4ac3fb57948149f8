//! The port over which hosts that have copies of one database speak to each other: TLS 1.3 on connections of
//! World, between members of one fleet only. It is open while a host has copies in a run; orders never come
//! this way.
//!
//! Both sides show the certificate that [`crate::credentials::make`] drew for their host, and each looks
//! whether the other one's is of this fleet, is valid now, and names a host of this run: the caller the host
//! that it wants, the called one any.
//!
//! Invariants
//! 1. Nothing that came over a connection is believed before the certificate of its other end is.
//! 2. No earlier session is resumed: each connection is proved anew.
//! 3. What goes out is encrypted in the order in which it is sent.
//!
//! Limits: a certificate cannot be revoked; make new credentials for all hosts. The end of a connection is not
//! proved: it can only cost messages, which are said again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::sync::Arc;

use futures_util::lock::Mutex;
use replica::Guard;
use replication::HostId;
use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
};
use world::{Connection, ErrorKind, HostConnection, LocalFuture};

use crate::credentials::{Credentials, certified_name};

/// Number of bytes that are encrypted at a time.
const RECORDS_BYTES: usize = 256 << 10;
/// Largest number of refusals that are reported.
const SAID_MAX: usize = 100;

/// Reason why the copy port cannot be opened with these credentials.
#[derive(Debug, thiserror::Error)]
pub enum CopyPortError {
    /// The credentials have no host certificate: they are old, or the controller's.
    #[error(
        "the credentials of {0} have no certificate for copies: make new ones with `proofload fleet init`"
    )]
    NoCertificate(String),
    /// The certificate or key of a host is not valid.
    #[error(
        "the certificate of {host} cannot be used: {why}; make new credentials with `proofload fleet init`"
    )]
    Unusable {
        /// Name of the host.
        host: String,
        /// Description of the problem.
        why: String,
    },
}

/// Authentication of copy connections: lets only hosts of one run of one fleet connect, each under its own name.
pub struct Members {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    names: BTreeMap<HostId, ServerName<'static>>,
    say: Box<dyn Fn(String)>,
    said: RefCell<BTreeSet<(String, String)>>,
}

impl Members {
    /// Creates the authentication for the hosts of a run, by their numbers. Calls `say` once for each refusal.
    ///
    /// # Errors
    /// Credentials that hold no certificate of a host, or one that cannot be used.
    pub fn new(
        credentials: &Credentials,
        hosts: &BTreeMap<HostId, String>,
        say: impl Fn(String) + 'static,
    ) -> Result<Members, CopyPortError> {
        let host = credentials.name.clone();
        let Some(own) = &credentials.copy_port else { return Err(CopyPortError::NoCertificate(host)) };
        let unusable = |why: &dyn std::fmt::Display| CopyPortError::Unusable {
            host: credentials.name.clone(),
            why: why.to_string(),
        };
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes());
        let authority = certificate(&credentials.ca_pem).map_err(|error| unusable(&error))?;
        let chain = vec![certificate(&own.certificate_pem).map_err(|error| unusable(&error))?];
        let key = PrivateKeyDer::from_pem_slice(own.key_pem.as_bytes()).map_err(|error| unusable(&error))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority).map_err(|error| unusable(&error))?;
        let (roots, provider) = (Arc::new(roots), Arc::new(default_provider()));

        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| unusable(&error))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unusable(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| unusable(&error))?;
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unusable(&error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|error| unusable(&error))?;
        client.resumption = Resumption::disabled();

        let named = |(id, name): (&HostId, &String)| {
            let name = ServerName::try_from(certified_name(name)).map_err(|error| unusable(&error))?;
            Ok((*id, name))
        };
        Ok(Members {
            client: Arc::new(client),
            server: Arc::new(server),
            names: hosts.iter().map(named).collect::<Result<_, _>>()?,
            say: Box::new(say),
            said: RefCell::default(),
        })
    }
}

impl Guard for Members {
    fn made(&self, plain: Connection, host: HostId) -> LocalFuture<'static, Result<Connection, String>> {
        let (config, name) = (self.client.clone(), self.names.get(&host).cloned());
        Box::pin(async move {
            let name = name.ok_or("it is no host of this run")?;
            let tls = ClientConnection::new(config, name).map_err(|error| in_words(&error))?;
            Ok(Connection::new(Rc::new(shake_hands(plain, tls.into()).await?)))
        })
    }

    fn taken(&self, plain: Connection) -> LocalFuture<'static, Result<(Connection, HostId), String>> {
        let (config, names) = (self.server.clone(), self.names.clone());
        Box::pin(async move {
            let tls = ServerConnection::new(config).map_err(|error| in_words(&error))?;
            let secured = shake_hands(plain, tls.into()).await?;
            let is_for = |certificate: &CertificateDer<'_>, name: &ServerName<'_>| {
                let parsed = ParsedCertificate::try_from(certificate);
                parsed.is_ok_and(|parsed| verify_server_name(&parsed, name).is_ok())
            };
            let shown = secured.tls.borrow().peer_certificates().and_then(<[_]>::first).cloned();
            let host = shown
                .and_then(|shown| names.iter().find(|(_, name)| is_for(&shown, name)).map(|(host, _)| *host));
            let host = host.ok_or("it is of this fleet, but no host of this run")?;
            Ok((Connection::new(Rc::new(secured)), host))
        })
    }

    fn refused(&self, peer: &str, why: &str) {
        // Who tries again comes from another port.
        let peer = peer.rsplit_once(':').map_or(peer, |(host, _)| host);
        let mut said = self.said.borrow_mut();
        if said.len() < SAID_MAX && said.insert((peer.to_owned(), why.to_owned())) {
            (self.say)(format!("copy port: refused {peer}: {why}"));
        }
    }
}

fn in_words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(_) => "it does not speak TLS".to_owned(),
        rustls::Error::NoCertificatesPresented => "it shows no certificate".to_owned(),
        rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => "its certificate is not valid now: compare the calendars, or make new credentials".to_owned(),
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "its certificate is of another host".to_owned(),
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "its certificate is not of this fleet".to_owned(),
        rustls::Error::InvalidCertificate(error) => format!("its certificate is not one of a host: {error}"),
        rustls::Error::AlertReceived(alert) => {
            format!("it does not accept this host's certificate ({alert:?})")
        }
        error => error.to_string(),
    }
}

/// TLS connection.
struct Secured {
    plain: Connection,
    tls: Rc<RefCell<rustls::Connection>>,
    /// Decrypted bytes that were not asked for yet.
    clear: Rc<RefCell<Vec<u8>>>,
    sending: Rc<Mutex<()>>,
}

/// Performs the TLS handshake, after which each side knows the other.
async fn shake_hands(plain: Connection, mut tls: rustls::Connection) -> Result<Secured, String> {
    tls.set_buffer_limit(Some(RECORDS_BYTES));
    let mut clear = Vec::new();
    loop {
        let records = take_records(&mut tls);
        if !records.is_empty() {
            plain.send(records).await.map_err(|error| error.to_string())?;
        }
        if !tls.is_handshaking() {
            let (tls, clear) = (Rc::new(RefCell::new(tls)), Rc::new(RefCell::new(clear)));
            return Ok(Secured { plain, tls, clear, sending: Rc::default() });
        }
        let sealed = plain.receive(RECORDS_BYTES).await.map_err(|error| error.to_string())?;
        if sealed.is_empty() {
            return Err("it closed the connection before it had said who it is".to_owned());
        }
        if let Err(error) = open(&mut tls, &sealed, &mut clear) {
            // What is wrong, for the other side. It may be gone.
            let _ = plain.send(take_records(&mut tls)).await;
            return Err(in_words(&error));
        }
    }
}

/// Encrypted records to send.
fn take_records(tls: &mut rustls::Connection) -> Vec<u8> {
    let mut records = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut records).expect("memory takes everything");
    }
    records
}

/// Decrypts received records into `clear`.
fn open(tls: &mut rustls::Connection, mut sealed: &[u8], clear: &mut Vec<u8>) -> Result<(), rustls::Error> {
    let general = |error: io::Error| rustls::Error::General(error.to_string());
    // Nothing is taken any more after the other side has said that it closes.
    while !sealed.is_empty() && tls.read_tls(&mut sealed).map_err(general)? > 0 {
        let readable = tls.process_new_packets()?.plaintext_bytes_to_read();
        let end = clear.len();
        clear.resize(end + readable, 0);
        tls.reader().read_exact(&mut clear[end..]).map_err(general)?;
    }
    Ok(())
}

impl HostConnection for Secured {
    fn send(&self, bytes: Vec<u8>) -> LocalFuture<'static, world::Result<()>> {
        let (plain, tls, sending) = (self.plain.clone(), self.tls.clone(), self.sending.clone());
        Box::pin(async move {
            let _turn = sending.lock().await;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let records = {
                    let mut tls = tls.borrow_mut();
                    let taken =
                        tls.writer().write(rest).map_err(|error| broken("send to", &plain, &error))?;
                    rest = &rest[taken..];
                    take_records(&mut tls)
                };
                plain.send(records).await?;
            }
            Ok(())
        })
    }

    fn receive(&self, limit: usize) -> LocalFuture<'static, world::Result<Vec<u8>>> {
        let (plain, tls, clear) = (self.plain.clone(), self.tls.clone(), self.clear.clone());
        Box::pin(async move {
            while clear.borrow().is_empty() {
                let sealed = plain.receive(limit).await?;
                if sealed.is_empty() {
                    return Ok(Vec::new());
                }
                open(&mut tls.borrow_mut(), &sealed, &mut clear.borrow_mut())
                    .map_err(|error| broken("receive from", &plain, &in_words(&error)))?;
            }
            let mut clear = clear.borrow_mut();
            let rest = if clear.len() > limit { clear.split_off(limit) } else { Vec::new() };
            Ok(std::mem::replace(&mut *clear, rest))
        })
    }

    fn peer(&self) -> String {
        self.plain.peer()
    }
}

fn broken(operation: &str, plain: &Connection, reason: &dyn std::fmt::Display) -> world::Error {
    world::Error {
        kind: ErrorKind::Disconnected,
        operation: operation.to_owned(),
        path: plain.peer(),
        reason: reason.to_string(),
    }
}
