//! TCP connections.
//!
//! Limits: dropping a pending `receive` may lose the bytes that it was about to return; dropping a pending
//! `send` may leave it half done. After either the connection must be closed. A peer that is silent for
//! [`SILENCE_LIMIT`] while something is sent, or while nothing is, counts as gone.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use compio::BufResult;
use compio::io::{AsyncRead, AsyncWriteExt};
use compio::net::{TcpListener, TcpStream};
use futures_util::lock::Mutex;
use rustix::net::sockopt;

use super::failure::failed;
use crate::{Error, ErrorKind, HostConnection, HostListener, LocalFuture, Result};

/// Time without an answer after which a peer counts as lost.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

/// TCP connection with the name of its peer.
struct RealConnection {
    stream: TcpStream,
    peer: Rc<str>,
    /// Held while a message is sent: one larger than the socket buffer goes out in pieces that must stay together.
    sending: Rc<Mutex<()>>,
}

impl RealConnection {
    fn wrap(stream: TcpStream, peer: Rc<str>) -> io::Result<Rc<dyn HostConnection>> {
        // Messages are answered one by one: waiting to fill a segment would add up to 40 ms to each.
        stream.set_nodelay(true)?;
        notice_silence(&stream)?;
        Ok(Rc::new(RealConnection { stream, peer, sending: Rc::default() }))
    }
}

impl HostConnection for RealConnection {
    fn send(&self, bytes: Vec<u8>) -> LocalFuture<'static, Result<()>> {
        let (stream, peer, sending) = (self.stream.clone(), self.peer.clone(), self.sending.clone());
        Box::pin(async move {
            let _turn = sending.lock().await;
            let BufResult(sent, _) = (&stream).write_all(bytes).await;
            sent.map_err(|cause| broken_connection("send to", &peer, &cause))
        })
    }

    fn receive(&self, limit: usize) -> LocalFuture<'static, Result<Vec<u8>>> {
        let (stream, peer) = (self.stream.clone(), self.peer.clone());
        Box::pin(async move {
            let BufResult(received, bytes) = (&stream).read(Vec::with_capacity(limit)).await;
            received.map_err(|cause| broken_connection("receive from", &peer, &cause))?;
            Ok(bytes)
        })
    }

    fn peer(&self) -> String {
        self.peer.to_string()
    }
}

/// Makes the kernel notice a silent peer within [`SILENCE_LIMIT`]. TCP alone would retry for a quarter of an hour
/// with growing pauses, so that a reconnected cable would be noticed late.
fn notice_silence(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE_LIMIT / 2)?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(1))?;
    Ok(sockopt::set_tcp_user_timeout(stream, SILENCE_LIMIT.as_millis() as u32)?)
}

struct RealListener {
    listener: TcpListener,
    address: Rc<str>,
}

impl HostListener for RealListener {
    fn accept(&self) -> LocalFuture<'static, Result<Rc<dyn HostConnection>>> {
        let (listener, address) = (self.listener.clone(), self.address.clone());
        Box::pin(async move {
            let accept = async {
                let (stream, peer) = listener.accept().await?;
                RealConnection::wrap(stream, peer.to_string().into())
            };
            accept.await.map_err(|cause| broken_connection("accept a connection on", &address, &cause))
        })
    }
}

/// Builds an [`Error`] that tells a silent peer from a failing system. (A disk may time out, too.)
fn broken_connection(operation: &str, address: &str, cause: &io::Error) -> Error {
    let mut error = failed(operation, address, cause);
    match cause.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::NotConnected
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::TimedOut
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable => error.kind = ErrorKind::Disconnected,
        io::ErrorKind::AddrInUse => error.kind = ErrorKind::AlreadyExists,
        _ => {}
    }
    error
}

/// Connects to `address` ("host:port").
pub(super) fn connect(address: &str) -> LocalFuture<'static, Result<Rc<dyn HostConnection>>> {
    let address = Rc::<str>::from(address);
    Box::pin(async move {
        let connect = async { RealConnection::wrap(TcpStream::connect(&*address).await?, address.clone()) };
        connect.await.map_err(|cause| broken_connection("connect to", &address, &cause))
    })
}

/// Listens on `address` ("host:port").
pub(super) fn listen(address: &str) -> LocalFuture<'static, Result<Rc<dyn HostListener>>> {
    let address = Rc::<str>::from(address);
    Box::pin(async move {
        let listener = TcpListener::bind(&*address)
            .await
            .map_err(|cause| broken_connection("listen on", &address, &cause))?;
        let listener: Rc<dyn HostListener> = Rc::new(RealListener { listener, address });
        Ok(listener)
    })
}
