//! Why a controller cannot go on, and what to do.

use std::io;
use std::path::PathBuf;

use crate::bus::BusError;
use crate::server::ServerError;

/// A controller cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The credentials are a host's.
    #[error("these are the credentials of {0}; a controller takes controller.toml")]
    NotTheController(String),
    /// A file of the run.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder belongs to no fleet run, or to one already.
    #[error("{}: {what}", folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// The bus.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Another controller.
    #[error("another controller has taken over this run")]
    Superseded,
    /// The bus went away and did not come back, or the run was asked to end meanwhile.
    #[error("the bus at {server} is gone; {reason}")]
    BusGone {
        /// Its address.
        server: String,
        /// Why the controller waits for it no longer.
        reason: String,
    },
    /// The operating system gives no random numbers.
    #[error("no random numbers")]
    Random,
}

impl ControllerError {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            ControllerError::NotTheController(_) => "name the folder that `proofload fleet init` made",
            ControllerError::Folder { .. } => "name the folder of a run that `proofload fleet run` began",
            ControllerError::File { source, .. } if source.kind() == io::ErrorKind::InvalidData => {
                "resume the run with the proofload that began it"
            }
            ControllerError::File { .. } => "check the permissions and the space on that disk",
            ControllerError::Bus(_) => {
                "start nats-server with the configuration in the folder of credentials, or say --nats-server"
            }
            ControllerError::BusGone { .. } => {
                "start nats-server with the configuration in the folder of credentials, then take the run up with \
                 `proofload fleet resume` (with --nats-server it starts one itself)"
            }
            ControllerError::Server(_) => "a server may run there already: then leave --nats-server out",
            ControllerError::Random => "the name of a run needs getrandom(2) of the kernel",
            ControllerError::Superseded => "the other one goes on; only one of them is needed",
        }
    }
}
