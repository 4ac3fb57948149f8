//! HTTP/1.1 on an address: connections on one thread, answers on a pool of threads.
//!
//! Invariants
//! 1. A request reaches the site whole, or it is refused: a head that is slow, a body that is slow or large.
//! 2. When the server is asked to end, answers that are under way come to their end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{self, select};
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::answer::{Answer, Asked, Events, Reply, Site};

/// Most requests that are answered at a time; each open page with live figures holds one.
const REQUESTS_MAX: usize = 64;
/// Most open connections; more have to wait.
const CONNECTIONS_MAX: usize = 256;
/// Largest body of a request, bytes.
const BODY_MAX: usize = 1 << 20;
/// Longest time that a browser may take to send the head of a request, and its body.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Pause after a connection could not be accepted, before the next one is.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);
/// Longest time that open connections have to finish when the server stops.
const ENDING_MAX: Duration = Duration::from_secs(3);

/// Body of an answer: complete, or a stream.
type Body = Either<Full<Bytes>, Channel<Bytes>>;

/// Why the server cannot listen at its address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {cause}")]
pub struct ListenError {
    address: SocketAddr,
    cause: io::Error,
}

/// A web server that has its address and does not answer yet.
pub struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    ended: watch::Sender<bool>,
}

impl Server {
    /// Listens at the address; connections wait until [`Server::serve`].
    ///
    /// # Errors
    /// The address is taken, or not one of this machine.
    pub fn new(listen: SocketAddr) -> Result<Server, ListenError> {
        let opened = std::net::TcpListener::bind(listen).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Server { listener, address, ended: watch::Sender::new(false) })
        });
        opened.map_err(|cause| ListenError { address: listen, cause })
    }

    /// The address it listens at, with the port that the system chose if 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A function that stops [`Server::serve`]. It may be called on any thread.
    pub fn ender(&self) -> impl Fn() + Send + Sync + 'static {
        let ended = self.ended.clone();
        move || {
            ended.send_replace(true);
        }
    }

    /// Answers requests until [`Server::ender`] is called; then answers under way are finished.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub fn serve(self, site: impl Site) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.accept(Arc::new(site)))?;
        // A site that is still at work does not hold the end up.
        runtime.shutdown_background();
        Ok(())
    }

    async fn accept(self, site: Arc<dyn Site>) -> io::Result<()> {
        let listener = TcpListener::from_std(self.listener)?;
        let mut ended = self.ended.subscribe();
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let service = Service { site, busy: Arc::new(Semaphore::new(REQUESTS_MAX)), ended: ended.clone() };
        let graceful = GracefulShutdown::new();
        loop {
            let (permit, stream) = match next(&listener, &connections, &mut ended).await {
                None => break,
                Some((permit, Ok(stream))) => (permit, stream),
                Some((_, Err(_))) => {
                    sleep(REFUSED_PAUSE).await;
                    continue;
                }
            };
            let service = service.clone();
            let answers = service_fn(move |request| service.clone().answer(request));
            let mut http = http1::Builder::new();
            http.title_case_headers(true).timer(TokioTimer::new()).header_read_timeout(SILENCE_MAX);
            let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), answers));
            tokio::spawn(async move {
                // A browser that has gone away is no error.
                let _ = connection.await;
                drop(permit);
            });
        }
        let _ = timeout(ENDING_MAX, graceful.shutdown()).await;
        Ok(())
    }
}

/// Accepts the next connection when fewer than the limit are open; `None` when the server is stopped.
async fn next(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
    ended: &mut watch::Receiver<bool>,
) -> Option<(OwnedSemaphorePermit, io::Result<TcpStream>)> {
    let taken = async {
        let permit = connections.clone().acquire_owned().await.expect("it is never closed");
        (permit, listener.accept().await.map(|(stream, _)| stream))
    };
    match select(pin!(ended.wait_for(|ended| *ended)), pin!(taken)).await {
        future::Either::Left(_) => None,
        future::Either::Right((taken, _)) => Some(taken),
    }
}

/// What the connections share of the server: pages, limits, and whether it is stopped.
#[derive(Clone)]
struct Service {
    site: Arc<dyn Site>,
    busy: Arc<Semaphore>,
    ended: watch::Receiver<bool>,
}

impl Service {
    async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let Ok(permit) = self.busy.try_acquire_owned() else {
            return Ok(whole(Answer::error(503, "too many pages are open")));
        };
        let asked = match whole_request(request).await {
            Ok(asked) => asked,
            Err(refusal) => return Ok(whole(refusal)),
        };
        let is_head = asked.method == Method::HEAD;
        // Answers read files, and some take long: on the pool of threads.
        let site = self.site;
        let answered = spawn_blocking(move || (site.answer(&asked), permit)).await;
        let Ok((reply, permit)) = answered else {
            return Ok(whole(Answer::error(500, "the server has failed at this page")));
        };
        let go_on = match reply {
            Reply::Whole(answer) => return Ok(whole(answer)),
            Reply::Events(go_on) => go_on,
        };
        let (sender, body) = Channel::new(1);
        let mut events = Events { sender, ended: self.ended, runtime: Handle::current() };
        if !is_head {
            spawn_blocking(move || {
                // A browser that has gone away is no error.
                let _ = go_on(&mut events);
                drop(permit);
            });
        }
        Ok(with_headers(200, "text/event-stream", None, Either::Right(body)))
    }
}

/// Reads a request with all of its body, or gives the answer that refuses it.
async fn whole_request(request: Request<Incoming>) -> Result<Asked, Answer> {
    let (head, body) = request.into_parts();
    let target = head.uri.path_and_query().map_or_else(String::new, |target| target.as_str().to_owned());
    let body = match timeout(SILENCE_MAX, Limited::new(body, BODY_MAX).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return Err(Answer::error(413, "the request is larger than 1 MiB"));
        }
        Ok(Err(_)) => return Err(Answer::error(400, "the request has no readable body")),
        Err(_) => return Err(Answer::error(408, "the request took too long")),
    };
    Ok(Asked { method: head.method, target, headers: head.headers, body })
}

fn whole(answer: Answer) -> Response<Body> {
    let Answer { status, kind, policy, body } = answer;
    with_headers(status, kind, Some(policy), Either::Left(Full::new(body.into())))
}

/// An answer with the security headers that all answers have. Streams of events load nothing, so they have no
/// Content-Security-Policy.
fn with_headers(status: u16, kind: &'static str, policy: Option<&'static str>, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).expect("our own statuses are ones");
    let mut set = |name: HeaderName, value| {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    };
    set(header::CONTENT_TYPE, kind);
    if let Some(policy) = policy {
        set(header::CONTENT_SECURITY_POLICY, policy);
    }
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::CACHE_CONTROL, "no-store");
    response
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpStream;

    use super::*;

    /// Test pages: answer with what was asked; `/events` counts until the server is stopped, `/panic` fails.
    struct Echo;

    impl Site for Echo {
        fn answer(&self, asked: &Asked) -> Reply {
            match asked.target.as_str() {
                "/events" => Reply::Events(Box::new(|events| {
                    for number in 0.. {
                        events.send(Some(&number.to_string()))?;
                        if number > 0 && !events.goes_on(Duration::from_secs(600)) {
                            break;
                        }
                    }
                    events.end()
                })),
                "/panic" => panic!("a page fails"),
                target => {
                    let text = format!("{} {target} {}", asked.method, asked.body.len());
                    Answer::new("text/plain", text).into()
                }
            }
        }
    }

    /// Runs `test` with the address of a server, and stops the server after it.
    fn with_server(test: impl FnOnce(SocketAddr, &dyn Fn())) {
        let server = Server::new("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let (address, end) = (server.address(), server.ender());
        let serving = std::thread::spawn(move || server.serve(Echo));
        test(address, &end);
        end();
        serving.join().expect("no panic").expect("it served");
    }

    fn asked(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        // A refusal may come before all is sent.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn requests_are_answered_with_the_headers_that_all_pages_have() {
        with_server(|address, _| {
            let answer = asked(address, "GET /a?b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            assert!(
                answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nGET /a?b 0"),
                "{answer}"
            );
            for header in [
                "Content-Security-Policy: default-src 'none'; script-src 'self'",
                "X-Content-Type-Options: nosniff",
                "Referrer-Policy: no-referrer",
                "Cache-Control: no-store",
            ] {
                assert!(answer.contains(header), "{header}: {answer}");
            }
            let answer = asked(address, "HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n"), "{answer}");
            let answer = asked(address, "GET /panic HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
        });
    }

    #[test]
    fn a_body_above_the_limit_is_refused_and_one_at_the_limit_arrives_whole() {
        with_server(|address, _| {
            for (length, expected) in
                [(BODY_MAX, format!("POST /a {BODY_MAX}")), (BODY_MAX + 1, "413".into())]
            {
                let head = format!(
                    "POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
                );
                let answer = asked(address, &(head + &"x".repeat(length)));
                assert!(answer.contains(&expected), "{length}: {answer}");
            }
            let answer = asked(address, "no request at all\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        });
    }

    #[test]
    fn events_arrive_when_they_are_sent_and_end_with_the_server() {
        with_server(|address, end| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.write_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n").expect("it listens");
            let mut lines = BufReader::new(stream).lines().map(|line| line.expect("readable"));
            assert!(lines.any(|line| line == "data: 0") && lines.any(|line| line == "data: 1"));
            end();
            assert!(lines.any(|line| line == "event: end"));
        });
    }
}
