//! The database header (file page 0) and its shadow (file page 1).
//!
//! Invariants
//! 1. `parse` accepts only a page whose checksum, magic number, format version, file type and page size are right.
//! 2. In the clean state the generation fields are 0 and the bytes from 668 on are 0 (readers check that).
//! 3. Fields that this crate has no name for are kept as they were read.
//!
//! Limits: format 1568.20 is written; any update level is read.

use thiserror::Error;

use crate::bytes::{get_u32, get_u64, put_u32, put_u64};
use crate::checksum::{self, MAGIC};
use crate::identity::{LogPosition, LogTime, Signature};
use crate::page::{MAX_PAGE_BYTES, is_page_size};

const FORMAT_VERSION: u32 = 0x620;
const FORMAT_UPDATE: u32 = 20;
/// Dbtime of a new database.
pub const FIRST_DBTIME: u64 = 64;

mod at {
    pub const MAGIC: usize = 4;
    pub const VERSION: usize = 8;
    pub const ATTRIBUTES: usize = 12;
    pub const DBTIME: usize = 16;
    pub const SIGNATURE: usize = 24;
    pub const STATE: usize = 52;
    pub const CONSISTENT: usize = 56;
    pub const ATTACH_TIME: usize = 72;
    pub const ATTACH: usize = 80;
    pub const DETACH_TIME: usize = 88;
    pub const DETACH: usize = 96;
    pub const DBID: usize = 104;
    pub const LOG_SIGNATURE: usize = 108;
    /// Offset of the position of the full backup from which this copy of the file comes.
    pub const BACKUP: usize = 184;
    pub const LAST_OBJID: usize = 212;
    pub const OS_VERSION: usize = 216;
    pub const UPDATE: usize = 232;
    pub const PAGE_BYTES: usize = 236;
    /// Offset of a field that the format reserves. In a database left for recovery: the end of its log.
    pub const LEFT: usize = 252;
    pub const FIRST_REQUIRED: usize = 296;
    pub const LAST_REQUIRED: usize = 300;
    pub const CREATED_VERSION: usize = 340;
    pub const CREATED_UPDATE: usize = 344;
    pub const REQUIRED_TIME: usize = 348;
    pub const LAST_COMMITTED: usize = 416;
    pub const SORT_VERSION: usize = 508;
    pub const SCANNED: usize = 532;
    pub const RECOVERING: usize = 536;
    pub const FILE_TYPE: usize = 667;
    pub const ZERO_WHEN_CLEAN: usize = 668;
}

/// Fields that no later header write changes, so header and shadow must agree in them independent of their ages.
const LASTING: [(&str, std::ops::Range<usize>); 7] = [
    ("magic number", at::MAGIC..at::VERSION),
    ("format version", at::VERSION..at::ATTRIBUTES),
    ("kind of database", at::ATTRIBUTES..at::DBTIME),
    ("signature of the database", at::SIGNATURE..at::STATE),
    ("page size", at::PAGE_BYTES..at::PAGE_BYTES + 4),
    ("format version at its creation", at::CREATED_VERSION..at::REQUIRED_TIME),
    ("file type", at::FILE_TYPE..at::FILE_TYPE + 4),
];

/// File type of databases; logs and checkpoints have theirs at the same offset.
const FILE_TYPE_DATABASE: u32 = 1;
/// Number of bytes that the checksum of a log header or checkpoint covers.
const SECTOR_BYTES: usize = 4096;

/// Kind of an ESE file that is not a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OtherFile {
    /// Temporary database of a process.
    #[error("a temporary database of ESE: it ends with its process and has no checksums")]
    TemporaryDatabase,
    /// A transaction log.
    #[error("a log of ESE, no database")]
    Log,
    /// A checkpoint.
    #[error("a checkpoint of ESE, no database")]
    Checkpoint,
    /// Flush map.
    #[error("a flush map of ESE, no database")]
    FlushMap,
}

impl OtherFile {
    /// Kind of the file that begins with `start`; `None` if it is none of these.
    pub fn of(start: &[u8]) -> Option<OtherFile> {
        let sector = start.get(..SECTOR_BYTES)?;
        let file_type = get_u32(sector, at::FILE_TYPE);
        if get_u32(sector, at::MAGIC) == MAGIC {
            let has_no_checksum = get_u32(sector, 0) == 0;
            let is_new = get_u32(sector, at::STATE) == DatabaseState::JustCreated as u32;
            return (file_type == 5 || is_new && has_no_checksum).then_some(OtherFile::TemporaryDatabase);
        }
        match file_type {
            _ if !checksum::header_is_intact(sector) => None,
            3 => Some(OtherFile::Log),
            4 => Some(OtherFile::Checkpoint),
            7 => Some(OtherFile::FlushMap),
            _ => None,
        }
    }
}

/// Damage of the shadow of a good header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShadowDamage {
    /// The checksum of the shadow is wrong.
    #[error("damaged; the header is good")]
    Damaged,
    /// The shadow is intact, but belongs neither to this header nor to the one before it.
    #[error("contradicts the header: {0}")]
    Contradicts(&'static str),
}

/// State of a database: whether it needs its logs, and what else is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DatabaseState {
    /// The database is being created.
    JustCreated = 1,
    /// The database is in use, or was not shut down cleanly: it needs its logs.
    Dirty = 2,
    /// The database was shut down cleanly and is complete without logs.
    Clean = 3,
    /// The database is being converted.
    Converting = 4,
    /// The database was detached by force (obsolete).
    ForceDetached = 5,
    /// The database is being reseeded incrementally.
    Reseeding = 6,
    /// The database is dirty, and pages were patched.
    DirtyPatched = 7,
    /// The database is being reverted to a snapshot.
    Reverting = 8,
}

impl DatabaseState {
    fn from_u32(value: u32) -> Option<DatabaseState> {
        use DatabaseState::*;
        [JustCreated, Dirty, Clean, Converting, ForceDetached, Reseeding, DirtyPatched, Reverting]
            .into_iter()
            .find(|state| *state as u32 == value)
    }
}

/// Reason why a page is not a usable database header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderDamage {
    /// The file is shorter than the header page.
    #[error("too short for a database header")]
    Short,
    /// The file is not a database.
    #[error("no database header: the magic number is {found:#010x}")]
    Magic {
        /// Magic number in the file.
        found: u32,
    },
    /// The database has a format that this program does not know.
    #[error(
        "the database has format version {version:#x} (update {update}); \
         this program reads version {FORMAT_VERSION:#x}, any update"
    )]
    Format {
        /// Format version in the header.
        version: u32,
        /// Update of the format.
        update: u32,
    },
    /// The file is another kind of ESE file.
    #[error("file type {found} is no database")]
    FileType {
        /// File type in the header.
        found: u32,
    },
    /// The page size is not one that this program knows.
    #[error("page size {found} is not supported")]
    PageSize {
        /// Page size in the header.
        found: u32,
    },
    /// The checksum of the header is wrong.
    #[error("the checksum is {stored:#010x}, the bytes give {computed:#010x}")]
    Checksum {
        /// Checksum in the header.
        stored: u32,
        /// Checksum of the bytes.
        computed: u32,
    },
    /// The state of the database is not one that this program knows.
    #[error("unknown database state {found}")]
    State {
        /// State in the header.
        found: u32,
    },
}

/// Header copy that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderCopy {
    /// File page 0.
    Header,
    /// File page 1, because the header is damaged.
    Shadow {
        /// Damage of the header.
        header: HeaderDamage,
    },
}

/// Database header page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseHeader {
    bytes: Vec<u8>,
}

macro_rules! header_field {
    ($(#[$doc:meta])* $get:ident, $set:ident, $type:ty, $at:ident, $read:ident, $write:ident) => {
        $(#[$doc])*
        pub fn $get(&self) -> $type {
            $read(&self.bytes, at::$at)
        }

        /// Sets the field of the same name.
        pub fn $set(&mut self, value: $type) {
            $write(&mut self.bytes, at::$at, value);
        }
    };
}

impl DatabaseHeader {
    /// Header of a new, clean database that belongs to no log.
    ///
    /// # Panics
    /// If `page_bytes` is no page size.
    pub fn new(page_bytes: usize, signature: Signature, created: LogTime) -> Self {
        assert!(is_page_size(page_bytes), "{page_bytes} is no page size");
        let mut header = DatabaseHeader { bytes: vec![0; page_bytes] };
        let fields = [
            (at::MAGIC, MAGIC),
            (at::VERSION, FORMAT_VERSION),
            (at::STATE, DatabaseState::Clean as u32),
            (at::DBID, 1),
            (at::OS_VERSION, 6),
            (at::OS_VERSION + 4, 2),
            (at::OS_VERSION + 8, 9200),
            (at::UPDATE, FORMAT_UPDATE),
            (at::PAGE_BYTES, page_bytes as u32),
            (at::CREATED_VERSION, FORMAT_VERSION),
            (at::CREATED_UPDATE, FORMAT_UPDATE),
            (at::FILE_TYPE, FILE_TYPE_DATABASE),
        ];
        fields.into_iter().for_each(|(at, value)| put_u32(&mut header.bytes, at, value));
        put_u64(&mut header.bytes, at::SORT_VERSION, u64::MAX);
        header.set_dbtime(FIRST_DBTIME);
        header.put(at::SIGNATURE, &signature.to_bytes());
        for at in [at::CONSISTENT + LogPosition::BYTES, at::ATTACH_TIME, at::DETACH_TIME] {
            header.put(at, &created.to_bytes());
        }
        header
    }

    /// Reads one copy. `bytes` starts with the header page and may go on.
    ///
    /// # Errors
    /// If this is no intact database header.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderDamage> {
        if bytes.len() < 4096 {
            return Err(HeaderDamage::Short);
        }
        let magic = get_u32(bytes, at::MAGIC);
        if magic != MAGIC {
            return Err(HeaderDamage::Magic { found: magic });
        }
        let page_bytes = match get_u32(bytes, at::PAGE_BYTES) {
            // Databases from before page sizes could be chosen.
            0 => 4096,
            found if is_page_size(found as usize) => found as usize,
            found => return Err(HeaderDamage::PageSize { found }),
        };
        let page = bytes.get(..page_bytes).ok_or(HeaderDamage::Short)?;
        let (stored, computed) = (get_u32(page, 0), checksum::header_sum(page));
        if stored != computed {
            return Err(HeaderDamage::Checksum { stored, computed });
        }
        let version = get_u32(page, at::VERSION);
        if version != FORMAT_VERSION {
            return Err(HeaderDamage::Format { version, update: get_u32(page, at::UPDATE) });
        }
        // Files of early updates have no file type; the attributes say that they are no streaming file.
        let file_type = get_u32(page, at::FILE_TYPE);
        if file_type > FILE_TYPE_DATABASE || get_u32(page, at::ATTRIBUTES) != 0 {
            return Err(HeaderDamage::FileType { found: file_type });
        }
        let state = get_u32(page, at::STATE);
        DatabaseState::from_u32(state).ok_or(HeaderDamage::State { found: state })?;
        Ok(DatabaseHeader { bytes: page.to_vec() })
    }

    /// Reads the header or, if it is damaged, the shadow. `start` is the beginning of the file, at least
    /// `2 * MAX_PAGE_BYTES` of it unless the file is shorter.
    ///
    /// # Errors
    /// With what is wrong with the header, if the shadow is damaged too.
    pub fn read(start: &[u8]) -> Result<(Self, HeaderCopy), HeaderDamage> {
        let header = match Self::parse(start) {
            Ok(header) => return Ok((header, HeaderCopy::Header)),
            // An intact header of another format is no damage that the shadow could mend.
            Err(format @ HeaderDamage::Format { .. }) => return Err(format),
            Err(damage) => damage,
        };
        // A damaged header cannot say where the shadow is; a shadow proves its place by its page size.
        let sizes = [4096, 8192, 16384, MAX_PAGE_BYTES];
        let shadow = sizes.into_iter().find_map(|size| {
            let shadow = Self::parse(start.get(size..)?).ok()?;
            (shadow.page_bytes() == size).then_some(shadow)
        });
        shadow.map(|shadow| (shadow, HeaderCopy::Shadow { header })).ok_or(header)
    }

    /// Checks the shadow, `shadow` being its page. A power cut may leave the shadow of the header before this one,
    /// which is no damage: the fields that a later writing never changes agree, and it is not the younger one.
    ///
    /// # Errors
    /// If it is no such shadow.
    pub fn check_shadow(&self, shadow: &[u8]) -> Result<(), ShadowDamage> {
        if shadow == self.bytes {
            return Ok(());
        }
        let parsed = Self::parse(shadow);
        if parsed.is_err() && !checksum::header_is_intact(shadow) {
            return Err(ShadowDamage::Damaged);
        }
        let differs =
            |bytes: &std::ops::Range<usize>| shadow.get(bytes.clone()) != self.bytes.get(bytes.clone());
        if let Some((field, _)) = LASTING.iter().find(|(_, bytes)| differs(bytes)) {
            return Err(ShadowDamage::Contradicts(field));
        }
        let shadow = parsed.map_err(|_| ShadowDamage::Contradicts("state"))?;
        if shadow.dbtime() > self.dbtime() {
            return Err(ShadowDamage::Contradicts("its modification counter is the higher one"));
        }
        // The header before that of a closed database is that of a database in use.
        if shadow.state() == DatabaseState::Clean && self.state() == DatabaseState::Clean {
            return Err(ShadowDamage::Contradicts("both say that the database was closed, and they differ"));
        }
        Ok(())
    }

    /// Header page with its checksum, to be written twice: as header, then as shadow.
    pub fn stamped(&mut self) -> &[u8] {
        checksum::stamp_header(&mut self.bytes);
        &self.bytes
    }

    /// Page size of the database.
    pub fn page_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Format version and update, 1568 and 20 in files written here.
    pub fn format(&self) -> (u32, u32) {
        (get_u32(&self.bytes, at::VERSION), get_u32(&self.bytes, at::UPDATE))
    }

    /// State of the database.
    pub fn state(&self) -> DatabaseState {
        // `parse` and `new` let no other value in.
        DatabaseState::from_u32(get_u32(&self.bytes, at::STATE)).unwrap_or(DatabaseState::Dirty)
    }

    header_field!(
        /// Highest dbtime in use; in a clean database above that of every page.
        dbtime, set_dbtime, u64, DBTIME, get_u64, put_u64
    );
    header_field!(
        /// Number of the database within its instance.
        dbid, set_dbid, u32, DBID, get_u32, put_u32
    );
    header_field!(
        /// Highest object id in use.
        last_objid, set_last_objid, u32, LAST_OBJID, get_u32, put_u32
    );
    header_field!(
        /// Log generation that is being replayed, 0 outside recovery.
        recovering_generation, set_recovering_generation, u32, RECOVERING, get_u32, put_u32
    );
    header_field!(
        /// Last page that the current pass of background maintenance has read; 0 before its first.
        scanned_to, set_scanned_to, u32, SCANNED, get_u32, put_u32
    );

    /// Signature of the database.
    pub fn signature(&self) -> Signature {
        Signature::get(&self.bytes, at::SIGNATURE)
    }

    /// Signature of the log stream that the database belongs to; zero if none.
    pub fn log_signature(&self) -> Signature {
        Signature::get(&self.bytes, at::LOG_SIGNATURE)
    }

    /// Log position at which the database was last attached.
    pub fn attach_position(&self) -> LogPosition {
        LogPosition::get(&self.bytes, at::ATTACH)
    }

    /// Whether an instance has ever attached the database.
    pub fn was_used(&self) -> bool {
        self.attach_position() != LogPosition::default()
    }

    /// Log position at which the database was last shut down cleanly.
    pub fn detach_position(&self) -> LogPosition {
        LogPosition::get(&self.bytes, at::DETACH)
    }

    /// Log position at which redo begins if this file is a backup copy; zero otherwise.
    pub fn backup_position(&self) -> LogPosition {
        LogPosition::get(&self.bytes, at::BACKUP)
    }

    /// Sets [`Self::backup_position`].
    pub fn set_backup_position(&mut self, position: LogPosition) {
        self.put(at::BACKUP, &position.to_bytes());
    }

    /// End of the log of a database that was left for recovery in order; zero otherwise.
    pub fn left_position(&self) -> LogPosition {
        LogPosition::get(&self.bytes, at::LEFT)
    }

    /// Sets [`Self::left_position`].
    pub fn set_left_position(&mut self, position: LogPosition) {
        self.put(at::LEFT, &position.to_bytes());
    }

    /// First and last log generation that a dirty database needs, and the last that may have been committed.
    pub fn generations(&self) -> (u32, u32, u32) {
        let field = |at| get_u32(&self.bytes, at);
        (field(at::FIRST_REQUIRED), field(at::LAST_REQUIRED), field(at::LAST_COMMITTED))
    }

    /// Sets [`Self::generations`].
    pub fn set_generations(&mut self, first_required: u32, last_required: u32, last_committed: u32) {
        put_u32(&mut self.bytes, at::FIRST_REQUIRED, first_required);
        put_u32(&mut self.bytes, at::LAST_REQUIRED, last_required);
        put_u32(&mut self.bytes, at::LAST_COMMITTED, last_committed);
    }

    /// Attaches the database at `position` of the log stream `log`: it becomes dirty and needs its logs from there on.
    pub fn attach(&mut self, dbid: u32, log: Signature, position: LogPosition, time: LogTime) {
        put_u32(&mut self.bytes, at::STATE, DatabaseState::Dirty as u32);
        self.set_dbid(dbid);
        self.put(at::LOG_SIGNATURE, &log.to_bytes());
        self.put(at::ATTACH, &position.to_bytes());
        self.put(at::ATTACH_TIME, &time.to_bytes());
        let generation = position.generation();
        self.set_generations(generation, generation, generation);
    }

    /// Detaches the database: every change up to `position` is in the file, which no longer needs its logs.
    pub fn detach(&mut self, position: LogPosition, time: LogTime) {
        put_u32(&mut self.bytes, at::STATE, DatabaseState::Clean as u32);
        for at in [at::CONSISTENT, at::DETACH] {
            self.put(at, &position.to_bytes());
        }
        for at in [at::CONSISTENT + LogPosition::BYTES, at::DETACH_TIME] {
            self.put(at, &time.to_bytes());
        }
        self.set_generations(0, 0, 0);
        self.set_recovering_generation(0);
        self.set_backup_position(LogPosition::default());
        self.set_left_position(LogPosition::default());
        self.put(at::REQUIRED_TIME, &LogTime::default().to_bytes());
        // The three high bytes of the file type lie here too; they are 0 in every type.
        self.bytes[at::ZERO_WHEN_CLEAN..].fill(0);
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests;
