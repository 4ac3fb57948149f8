//! What a site is asked, and what it answers.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use http_body_util::channel::Sender;
use hyper::body::Bytes;
use hyper::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// What our own pages may load.
const OWN: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'";
/// What a report may load: it carries its style with it and has no script.
const REPORT: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A site answers requests; each one on a thread of its own.
pub trait Site: Send + Sync + 'static {
    /// The answer to a request.
    fn answer(&self, asked: &Asked) -> Reply;
}

/// A request with all of its body.
pub struct Asked {
    /// GET, HEAD, POST or another one.
    pub method: Method,
    /// The address behind the host, as it was sent.
    pub target: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Asked {
    /// The value of a header that may stand once; none if it is missing, stands twice or is not ASCII.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        values.next().is_none().then(|| value.to_str().ok()).flatten()
    }

    /// Whether the request only asks for something.
    pub fn only_reads(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }

    /// Whether the Host header names this machine itself, at any port.
    pub fn is_for_this_machine(&self) -> bool {
        self.header("host").is_some_and(is_loopback_name)
    }

    /// The parts of the path with their percent signs resolved, and the query as it was sent.
    pub fn parts(&self) -> (Vec<String>, &str) {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        (path.trim_start_matches('/').split('/').map(decoded).collect(), query)
    }
}

/// Whether a Host header names this machine itself.
fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A part of a path with its percent signs resolved; what is no UTF-8 then names nothing.
pub fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// A function that sends events until it returns.
pub type SendsEvents = dyn FnOnce(&mut Events) -> io::Result<()> + Send;

/// The answer to a request.
pub enum Reply {
    /// A whole answer.
    Whole(Answer),
    /// Server-sent events, until the function returns.
    Events(Box<SendsEvents>),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply::Whole(answer)
    }
}

/// A whole answer.
#[derive(Debug, PartialEq)]
pub struct Answer {
    /// Status of HTTP.
    pub status: u16,
    /// Content-Type.
    pub kind: &'static str,
    /// Content-Security-Policy.
    pub policy: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// An answer of this Content-Type, with the policy of our own pages.
    pub fn new(kind: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status: 200, kind, policy: OWN, body: body.into() }
    }

    /// A page of ours.
    pub fn page(body: impl Into<Vec<u8>>) -> Answer {
        Answer::new("text/html; charset=utf-8", body)
    }

    /// A page that carries its style with it and has no script.
    pub fn report(body: impl Into<Vec<u8>>) -> Answer {
        Answer { policy: REPORT, ..Answer::page(body) }
    }

    /// A refusal in a line of text.
    pub fn error(status: u16, text: &str) -> Answer {
        Answer { status, ..Answer::new("text/plain; charset=utf-8", format!("{text}\n")) }
    }
}

/// Server-sent events that go to one browser.
pub struct Events {
    pub(crate) sender: Sender<Bytes>,
    /// Becomes true when the server ends.
    pub(crate) ended: watch::Receiver<bool>,
    pub(crate) runtime: Handle,
}

impl Events {
    /// Sends an event; without data a comment, which finds out whether the browser still listens.
    ///
    /// # Errors
    /// The browser has gone away.
    pub fn send(&mut self, data: Option<&str>) -> io::Result<()> {
        self.write(match data {
            Some(data) => format!("data: {data}\n\n"),
            None => ": nothing new\n\n".to_owned(),
        })
    }

    /// Tells the browser that no event follows.
    ///
    /// # Errors
    /// The browser has gone away.
    pub fn end(&mut self) -> io::Result<()> {
        self.write("event: end\ndata: {}\n\n".to_owned())
    }

    fn write(&mut self, text: String) -> io::Result<()> {
        let sent = self.runtime.block_on(self.sender.send_data(text.into()));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    /// Waits; `false` if the server ends meanwhile.
    pub fn goes_on(&mut self, wait: Duration) -> bool {
        let ended = self.ended.wait_for(|ended| *ended);
        self.runtime.block_on(async { tokio::time::timeout(wait, ended).await.is_err() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for own in ["localhost", "LOCALHOST:8600", "127.0.0.1:80", "127.9.9.9", "[::1]:8600", "[::1]"] {
            assert!(is_loopback_name(own), "{own}");
        }
        for other in ["example.org", "localhost.example.org", "10.0.0.1:8600", "", "127.0.0.1.example.org"] {
            assert!(!is_loopback_name(other), "{other}");
        }
    }

    #[test]
    fn percent_signs_are_resolved_once() {
        assert_eq!(decoded("a%20b%2Fc"), "a b/c");
        assert_eq!(decoded("%252e"), "%2e");
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%zz%C3%A4"), "%zzä");
    }
}
