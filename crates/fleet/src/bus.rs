//! The bus: core NATS with TLS and one key pair per host. Agents only connect out; they listen on no port.
//!
//! Limits: a message is at most 1 MiB (the server's default).

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};
use tokio::sync::watch;

use crate::credentials::Credentials;
use crate::subjects::inbox;

/// Time after which a question without an answer is asked again.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Reason why the bus cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The server cannot be reached, or refused the connection.
    #[error("cannot connect to the bus at {server}: {cause}")]
    Connect {
        /// Address of the server.
        server: String,
        /// Description of the failure.
        cause: String,
    },
    /// No answer came in time.
    #[error("no answer on the bus: {0}")]
    NoAnswer(String),
    /// A certificate file of the connection cannot be used.
    #[error("cannot keep the certificate for the connection: {0}")]
    Certificate(#[from] std::io::Error),
}

/// Connection to the bus (NATS). It reconnects by itself.
#[derive(Debug)]
pub struct Bus {
    client: Client,
    connected: watch::Receiver<bool>,
    /// Certificate file, which is read at each connection.
    _certificate: File,
}

impl Bus {
    /// Connects to the bus. Fails if it cannot be reached within a few seconds or refuses the credentials.
    pub async fn connect(credentials: &Credentials) -> Result<Bus, BusError> {
        let (certificate, path) = without_name(&credentials.ca_pem)?;
        let (state, connected) = watch::channel(true);
        // After three of these without a word the connection counts as gone. A controller must know so before
        // it takes its hosts for lost.
        let ping_s = if credentials.are_controllers() { 2 } else { 5 };
        let options = ConnectOptions::with_nkey(credentials.seed.clone())
            .name(format!("proofload {}", credentials.name))
            .add_root_certificates(path)
            .require_tls(true)
            .custom_inbox_prefix(inbox(&credentials.name))
            .connection_timeout(Duration::from_secs(5))
            .ping_interval(Duration::from_secs(ping_s))
            .request_timeout(Some(ANSWER_LIMIT))
            .event_callback(move |event| {
                match event {
                    Event::Connected => drop(state.send(true)),
                    Event::Disconnected => drop(state.send(false)),
                    _ => {}
                }
                async {}
            });
        let refused = |cause: String| BusError::Connect { server: credentials.server.clone(), cause };
        let client =
            options.connect(&credentials.server).await.map_err(|error| refused(error.to_string()))?;
        Ok(Bus { client, connected, _certificate: certificate })
    }

    /// Whether the bus is connected at the moment.
    pub fn is_connected(&self) -> bool {
        *self.connected.borrow()
    }

    /// Version of the NATS server.
    pub fn server_version(&self) -> String {
        self.client.server_info().version
    }

    /// Sends a question and waits for its answer.
    pub async fn ask(&self, subject: String, payload: Vec<u8>) -> Result<Vec<u8>, BusError> {
        let answer = self.client.request(subject, payload.into()).await;
        answer.map(|message| message.payload.to_vec()).map_err(|error| BusError::NoAnswer(error.to_string()))
    }

    /// Subscribes to the questions of all hosts.
    pub async fn questions(&self) -> Result<async_nats::Subscriber, BusError> {
        self.hear("proofload.*.*".to_owned()).await
    }

    /// Subscribes to a subject.
    pub async fn hear(&self, subject: String) -> Result<async_nats::Subscriber, BusError> {
        let heard = self.client.subscribe(subject).await;
        let heard = heard.map_err(|error| BusError::NoAnswer(error.to_string()))?;
        self.client.flush().await.map_err(|error| BusError::NoAnswer(error.to_string()))?;
        Ok(heard)
    }

    /// Publishes a message to which no answer is expected.
    pub async fn say(&self, subject: impl async_nats::subject::ToSubject, payload: Vec<u8>) {
        // While there is no connection it is lost: what is late is worth nothing.
        if self.is_connected() {
            let _ = self.client.publish(subject, payload.into()).await;
        }
    }

    /// Publishes the last message of this program, and waits until the server has it, if there is a server.
    pub async fn say_at_last(&self, subject: impl async_nats::subject::ToSubject, payload: Vec<u8>) {
        self.say(subject, payload).await;
        let _ = tokio::time::timeout(ANSWER_LIMIT, self.client.flush()).await;
    }
}

/// Writes a file that has no name, so that no cleaner of temporary folders can remove it, and returns a path to read
/// it by.
fn without_name(text: &str) -> std::io::Result<(File, PathBuf)> {
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok((file, path.into()))
}
