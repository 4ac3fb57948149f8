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

/// Content-Security-Policy of the program's own pages: styles, scripts and data from this server only.
const OWN: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'";
/// Content-Security-Policy of a report: it carries its style with it and has no script.
const REPORT: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A set of web pages: answers requests, each on a thread of its own.
pub trait Site: Send + Sync + 'static {
    /// Answers a request.
    fn answer(&self, asked: &Asked) -> Reply;
}

/// An HTTP request with all of its body.
pub struct Asked {
    /// Method: GET, HEAD, POST or another one.
    pub method: Method,
    /// Path and query, as the browser sent them.
    pub target: String,
    /// The HTTP headers.
    pub headers: HeaderMap,
    /// The request's body.
    pub body: Bytes,
}

impl Asked {
    /// The value of a header that may occur once; `None` if it is missing, occurs twice or is not ASCII.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        values.next().is_none().then(|| value.to_str().ok()).flatten()
    }

    /// Whether the method only reads (GET, HEAD).
    pub fn only_reads(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }

    /// Whether the Host header names this machine (`localhost`, a loopback address), at any port. A page of another
    /// site that has its name resolve to this machine is refused so.
    pub fn is_for_this_machine(&self) -> bool {
        self.header("host").is_some_and(is_loopback_name)
    }

    /// The parts of the path, percent-decoded, and the query as it was sent.
    pub fn parts(&self) -> (Vec<String>, &str) {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        (path.trim_start_matches('/').split('/').map(decoded).collect(), query)
    }
}

/// Whether a host name is one of this machine: `localhost` or a loopback address.
fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Percent-decoded part of a path. If the result is not UTF-8, returns a name that no file has.
pub fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// A function that sends server-sent events to a browser until it returns.
pub type SendsEvents = dyn FnOnce(&mut Events) -> io::Result<()> + Send;

/// The answer to an HTTP request: at once or as a stream of events.
pub enum Reply {
    /// An answer that is complete.
    Whole(Answer),
    /// Server-sent events until the function returns.
    Events(Box<SendsEvents>),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply::Whole(answer)
    }
}

/// A complete HTTP answer.
#[derive(Debug, PartialEq)]
pub struct Answer {
    /// HTTP status code.
    pub status: u16,
    /// Content-Type.
    pub kind: &'static str,
    /// Content-Security-Policy.
    pub policy: &'static str,
    /// The answer's body.
    pub body: Vec<u8>,
}

impl Answer {
    /// An answer of this Content-Type, with the Content-Security-Policy of the program's own pages.
    pub fn new(kind: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status: 200, kind, policy: OWN, body: body.into() }
    }

    /// An answer that is one of the program's own pages.
    pub fn page(body: impl Into<Vec<u8>>) -> Answer {
        Answer::new("text/html; charset=utf-8", body)
    }

    /// An answer that is a report: a page with its style in it and without a script.
    pub fn report(body: impl Into<Vec<u8>>) -> Answer {
        Answer { policy: REPORT, ..Answer::page(body) }
    }

    /// An answer that refuses the request, with the reason in a line of text.
    pub fn error(status: u16, text: &str) -> Answer {
        Answer { status, ..Answer::new("text/plain; charset=utf-8", format!("{text}\n")) }
    }
}

/// The stream of server-sent events to one browser.
pub struct Events {
    pub(crate) sender: Sender<Bytes>,
    /// Becomes `true` when the server is stopped.
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

    /// Tells the browser that the stream ends, so that it does not connect again.
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

    /// Waits; returns early with `false` if the server is stopped.
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
