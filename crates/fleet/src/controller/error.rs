//! Why a controller cannot go on, and what to do.

use std::io;
use std::path::PathBuf;

use crate::bus::BusError;
use crate::server::ServerError;

/// Reason why a controller cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The credentials are those of a host.
    #[error("these are the credentials of {0}; a controller takes controller.toml")]
    NotTheController(String),
    /// A file of the run cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The folder contains no fleet run, or already contains one.
    #[error("{}: {what}", folder.display())]
    Folder {
        /// Path of the folder.
        folder: PathBuf,
        /// Description of what is wrong.
        what: &'static str,
    },
    /// The bus cannot be used.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The NATS server cannot be started.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Another controller has taken over the run.
    #[error("another controller has taken over this run")]
    Superseded,
    /// The bus was lost and did not come back, or the user asked for the end meanwhile.
    #[error("the bus at {server} is gone; {reason}")]
    BusGone {
        /// Address of the server.
        server: String,
        /// Reason why the controller stopped waiting.
        reason: String,
    },
    /// The operating system gives no random numbers.
    #[error("no random numbers")]
    Random,
}

impl ControllerError {
    /// Remedy for the reason.
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
