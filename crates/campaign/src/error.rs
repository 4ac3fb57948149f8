//! Why a campaign could not go on.

use results::RecordError;
use workload::template::TemplateError;
use world::ErrorKind;

/// Reason why a campaign could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CampaignError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// A copy or the arbiter failed.
    #[error(transparent)]
    Replica(#[from] replica::Error),
    /// A file operation failed.
    #[error(transparent)]
    World(#[from] world::Error),
    /// The row's bytes differ from the bytes that the session wrote.
    #[error("{0}")]
    WrongData(String),
    /// A database cannot be created, or its file was not made by Proofload.
    #[error("{path}: {source}")]
    Template {
        /// Path of the file.
        path: String,
        /// Error of the template.
        source: TemplateError,
    },
    /// The evidence cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A test needs an instance that is not open.
    #[error("instance {instance} is not open")]
    NotOpen {
        /// Name of the instance.
        instance: String,
    },
    /// An instance is to be closed while it is still in use.
    #[error("instance {instance} is still in use")]
    Busy {
        /// Name of the instance.
        instance: String,
    },
    /// The databases that a test needs do not exist.
    #[error("{path} does not exist; run the test `init` first")]
    NoDatabase {
        /// Path of the file.
        path: String,
    },
    /// A database exists that was created for another size or solution.
    #[error("{path} was made for another size or solution; remove it with `proofload clean` and run again")]
    OtherDatabase {
        /// Path of the file.
        path: String,
    },
    /// Neither header nor shadow of a database can be read.
    #[error(
        "{path} cannot be used again: no header and no shadow that this program can read ({damage}); remove it with \
         `proofload clean` and run again"
    )]
    NoHeader {
        /// Path of the file.
        path: String,
        /// Damage of the header.
        damage: edb::header::HeaderDamage,
    },
    /// The backup that a restore needs does not exist, or was cut off.
    #[error("there is no complete backup at {path}; run the test `backup_to_disk` first")]
    NoBackup {
        /// Path of the file.
        path: String,
    },
    /// The load is to be found by `tune`, and that test did not run before.
    #[error("[load] names no load, so the test `tune` has to come first and find one")]
    NotTuned,
    /// A drill needs all hosts and cannot be a test of one.
    #[error("a drill needs every host of the solution at once; it is no test of one host")]
    NeedsAllHosts,
    /// A host could not do its part of a drill.
    #[error("{0}")]
    Drill(String),
    /// A volume is nearly full, so the load was ended in order.
    #[error(
        "{dir} has {} MiB left, and the load may need {} MiB before it has ended: it was ended before the volume is full; \
         make the volume larger, or the databases ([sizing]) or the test smaller",
        free_bytes >> 20,
        needed_bytes >> 20
    )]
    NearlyFull {
        /// Folder of the volume.
        dir: String,
        /// Free bytes.
        free_bytes: u64,
        /// Bytes that must be free for an end in order.
        needed_bytes: u64,
    },
    /// The user asked for the end.
    #[error("interrupted")]
    Interrupted,
}

impl CampaignError {
    /// Whether storage or engine failed under test, so that the error is also a failed verdict. A full volume does not
    /// count, because it says nothing about speed.
    pub fn is_finding(&self) -> bool {
        match self {
            _ if self.is_lack_of_room() => false,
            CampaignError::World(error) => !matches!(error.kind, ErrorKind::ClockJumped { .. }),
            CampaignError::Engine(_) | CampaignError::WrongData(_) => true,
            _ => false,
        }
    }

    /// Whether a volume has no room left.
    pub fn is_lack_of_room(&self) -> bool {
        match self {
            CampaignError::World(error) | CampaignError::Engine(engine::Error::World(error)) => {
                error.kind == ErrorKind::NoSpace
            }
            CampaignError::Engine(engine::Error::LogVolumeFull { .. }) | CampaignError::NearlyFull { .. } => {
                true
            }
            _ => false,
        }
    }

    /// Rule that a finding breaks: its stable name, and what must not happen.
    pub fn rule(&self) -> (&'static str, &'static str) {
        match self {
            CampaignError::Engine(engine::Error::LogCutOff { .. }) => {
                ("log_as_left", "log that ends before where the last run left it")
            }
            CampaignError::Engine(engine::Error::NotAsLeft { .. }) => {
                ("database_as_left", "database that is not the one that its log stream closed")
            }
            _ => ("no_errors", "error of the storage or the engine"),
        }
    }

    /// Whether the engine only refused, as after it was told to stop.
    pub fn is_refusal(&self) -> bool {
        matches!(self, CampaignError::Engine(engine::Error::Refused(_)))
    }
}
