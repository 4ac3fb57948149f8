//! What copies and arbiter say, in bytes, and small records on disk.
//!
//! A frame is its length (4 bytes, little endian) and a message in postcard's encoding. A record is a message
//! with a CRC-32 behind it, in a file that is replaced as a whole.
//!
//! Invariants
//! 1. No bytes make the reader panic or take more memory than [`FRAME_BYTES_MAX`] and what it decodes.
//! 2. A record on disk is the old one or the new one, also after a power cut.

use replication::{DatabaseId, FromArbiter, HostId, PeerMessage, Position, ToArbiter};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use smallvec::smallvec;
use world::{Connection, OpenMode, PageBuf, SECTOR_BYTES, World};

use crate::{Error, Result};

/// Version of the messages between hosts. Hosts of different versions do not talk to each other.
pub const VERSION: u32 = 2;

/// Largest frame, bytes: a message with a piece of log or a stretch of pages, and some room.
pub const FRAME_BYTES_MAX: usize = 8 << 20;

/// Suffix of the temporary name under which a record is written.
pub(crate) const NEW: &str = ".new";

/// Message between hosts, or between a host and the arbiter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// First message of each connection.
    Hello {
        /// Protocol version of the sender, [`VERSION`].
        version: u32,
        /// Host that sends.
        host: HostId,
    },
    /// Message from one copy to another of the same database.
    Peer {
        /// Database of both copies.
        database: DatabaseId,
        /// Message of the copy.
        message: PeerMessage,
    },
    /// Message from a copy to the arbiter.
    ToArbiter(ToArbiter),
    /// Message from the arbiter to a copy.
    FromArbiter {
        /// Database of the copy that gets the message.
        database: DatabaseId,
        /// Message of the arbiter.
        message: FromArbiter,
    },
    /// State of a copy, sent after users have stopped, so that copies can be compared.
    Standing {
        /// Database of the copy.
        database: DatabaseId,
        /// State of the copy.
        standing: Standing,
    },
}

/// State of a copy at the end of a drill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// End of the copy's durable log.
    pub end: Position,
    /// Log position up to which the copy's pages have followed; the end of the log for the active copy.
    pub followed: Position,
    /// Whether the copy is active.
    pub is_active: bool,
    /// Numbers of the pages that the copy took as a whole ([`crate::Replica::taken_pages`]), once its log and replay
    /// have stopped.
    pub taken: Option<Vec<u32>>,
}

/// Reason why a connection must end.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The connection failed.
    #[error(transparent)]
    World(#[from] world::Error),
    /// The peer closed the connection.
    #[error("the other side has closed the connection")]
    Closed,
    /// A frame holds no valid message.
    #[error("a frame of {bytes} bytes is no message")]
    NoMessage {
        /// Length of the frame, bytes.
        bytes: usize,
    },
}

/// Encodes a message as a frame.
pub fn frame(message: &Message) -> Vec<u8> {
    let mut frame = Vec::with_capacity(room_for(message));
    frame.extend_from_slice(&[0; 4]);
    let mut frame = postcard::to_extend(message, frame).expect("memory is all that can fail");
    let bytes = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&bytes.to_le_bytes());
    frame
}

/// Buffer size for encoding a message, bytes: its log or pages, and some room for the rest.
fn room_for(message: &Message) -> usize {
    const REST: usize = 128;
    REST + match message {
        Message::Peer { message: PeerMessage::Ship { piece: Some(piece), .. }, .. } => piece.bytes.len(),
        Message::Peer { message: PeerMessage::Pages { pages, .. }, .. } => {
            pages.iter().map(|page| 16 + page.bytes.len()).sum()
        }
        _ => 0,
    }
}

/// Decodes the message of a frame, without its length.
pub fn parse(body: &[u8]) -> Option<Message> {
    let (message, rest) = postcard::take_from_bytes(body).ok()?;
    rest.is_empty().then_some(message)
}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).expect("memory is all that can fail")
}

/// Splits a stream of bytes into messages.
#[derive(Default)]
pub struct Frames {
    pending: Vec<u8>,
}

impl Frames {
    /// Reads the next message of a connection.
    ///
    /// # Errors
    /// The end of the connection, or something that is no message; nothing more can be read then.
    pub async fn next(&mut self, connection: &Connection) -> Result<Message, WireError> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            let received = connection.receive(256 << 10).await?;
            if received.is_empty() {
                return Err(WireError::Closed);
            }
            self.push(&received);
        }
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Returns the next message if it has arrived completely.
    ///
    /// # Errors
    /// Something that is no message.
    pub fn take(&mut self) -> Result<Option<Message>, WireError> {
        let Some((length, rest)) = self.pending.split_first_chunk() else { return Ok(None) };
        let bytes = u32::from_le_bytes(*length) as usize;
        if bytes > FRAME_BYTES_MAX {
            return Err(WireError::NoMessage { bytes });
        }
        let Some(body) = rest.get(..bytes) else { return Ok(None) };
        let message = parse(body).ok_or(WireError::NoMessage { bytes })?;
        self.pending.drain(..4 + bytes);
        Ok(Some(message))
    }
}

/// Replaces a record on disk, in a way that a crash leaves the old or the new one.
pub(crate) async fn save_record<T: Serialize>(
    world: &World,
    folder: &str,
    name: &str,
    value: &T,
) -> Result<()> {
    let body = encode(value);
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&replication::checksum(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes.resize(bytes.len().next_multiple_of(SECTOR_BYTES), 0);
    let (path, fresh) = (format!("{folder}/{name}"), format!("{folder}/{name}{NEW}"));
    if world.entry(&fresh).await?.is_some() {
        world.remove(&fresh).await?;
    }
    let file = world.open(&fresh, OpenMode::CreateNew).await?;
    file.write_at(0, smallvec![PageBuf::copy_of(&bytes)]).await.0?;
    file.sync().await?;
    world.rename(&fresh, &path).await?;
    world.sync_dir(folder).await?;
    Ok(())
}

/// Reads a record; `None` if there is none.
pub(crate) async fn load_record<T: DeserializeOwned>(
    world: &World,
    folder: &str,
    name: &str,
) -> Result<Option<T>> {
    let path = format!("{folder}/{name}");
    if world.entry(&path).await?.is_none() {
        return Ok(None);
    }
    let file = world.open(&path, OpenMode::Read).await?;
    let bytes = file.size().await? as usize;
    let (read, bufs) = file.read_at(0, smallvec![PageBuf::empty(bytes)]).await;
    read?;
    let damaged = |reason: &str| Error::DamagedRecord { path: path.clone(), reason: reason.to_owned() };
    let bytes = bufs[0].as_slice();
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (Some(length), Some(sum)) = (word(0), word(4)) else { return Err(damaged("it is too short")) };
    let body = bytes.get(8..8 + length as usize).ok_or_else(|| damaged("it is too short"))?;
    if replication::checksum(body) != sum {
        return Err(damaged("its checksum is wrong"));
    }
    postcard::from_bytes(body).map(Some).map_err(|error| damaged(&error.to_string()))
}
