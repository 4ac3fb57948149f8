//! Why a campaign could not go on.

use results::RecordError;
use workload::template::TemplateError;
use world::ErrorKind;

/// Why a campaign could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CampaignError {
    /// The engine could not do it.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// A copy or the arbiter could not go on.
    #[error(transparent)]
    Replica(#[from] replica::Error),
    /// A file operation failed.
    #[error(transparent)]
    World(#[from] world::Error),
    /// A row holds other bytes than were written.
    #[error("{0}")]
    WrongData(String),
    /// A database cannot be made, or its file is not one of ours.
    #[error("{path}: {source}")]
    Template {
        /// The file.
        path: String,
        /// Why.
        source: TemplateError,
    },
    /// The results cannot be kept.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A test needs an instance that is not open.
    #[error("instance {instance} is not open")]
    NotOpen {
        /// Its name.
        instance: String,
    },
    /// An instance is to be closed while something still uses it.
    #[error("instance {instance} is still in use")]
    Busy {
        /// Its name.
        instance: String,
    },
    /// The databases that a test needs do not exist.
    #[error("{path} does not exist; run the test `init` first")]
    NoDatabase {
        /// The file.
        path: String,
    },
    /// A database exists that was made for something else.
    #[error("{path} was made for another size or solution; remove it with `proofload clean` and run again")]
    OtherDatabase {
        /// The file.
        path: String,
    },
    /// Neither header of a database can be read.
    #[error(
        "{path} cannot be used again: no header and no shadow that this program can read ({damage}); remove it with \
         `proofload clean` and run again"
    )]
    NoHeader {
        /// The file.
        path: String,
        /// What is wrong with the header.
        damage: edb::header::HeaderDamage,
    },
    /// The backup that a restore needs does not exist, or was cut off.
    #[error("there is no complete backup at {path}; run the test `backup_to_disk` first")]
    NoBackup {
        /// The file.
        path: String,
    },
    /// The load is to be what tuning finds, and no tuning came before.
    #[error("[load] names no load, so the test `tune` has to come first and find one")]
    NotTuned,
    /// A drill is none of one host's tests.
    #[error("a drill needs every host of the solution at once; it is no test of one host")]
    NeedsAllHosts,
    /// A host could not do its part of a drill.
    #[error("{0}")]
    Drill(String),
    /// A volume would soon be full, so the load was ended in order.
    #[error(
        "{dir} has {} MiB left, and the load may need {} MiB before it has ended: it was ended before the volume is full; \
         make the volume larger, or the databases ([sizing]) or the test smaller",
        free_bytes >> 20,
        needed_bytes >> 20
    )]
    NearlyFull {
        /// Folder of the volume.
        dir: String,
        /// Free.
        free_bytes: u64,
        /// What must be free for an end in order.
        needed_bytes: u64,
    },
    /// Someone asked for the end.
    #[error("interrupted")]
    Interrupted,
}

impl CampaignError {
    /// Whether the storage or the engine failed under test, as opposed to a wish that could not be granted: that is a
    /// failed verdict, not only a campaign that could not run. A full volume is not: it may be fast all the same.
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

    /// The rule that a finding breaks: its stable name, and what must not be.
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

    /// Whether the engine did not do what was asked, as when it was told to stop.
    pub fn is_refusal(&self) -> bool {
        matches!(self, CampaignError::Engine(engine::Error::Refused(_)))
    }
}
