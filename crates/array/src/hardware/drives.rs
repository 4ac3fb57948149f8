//! Rotating disks and flash drives, and what their data sheets say of them.

use serde::{Deserialize, Serialize};

/// A drive in its slot.
#[derive(Debug, Clone, PartialEq)]
pub struct Drive {
    /// Name of the drive in reports.
    pub name: String,
    /// Model of the drive.
    pub model: DriveModel,
    /// The link or host adapter behind the controller that the drive's data cross, if it can be a limit.
    pub link: Option<usize>,
}

/// Model of a drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DriveModel {
    /// Rotating disk.
    Rotating(RotatingDisk),
    /// Flash drive.
    Flash(FlashDrive),
}

/// A rotating disk. MB = 10^6 bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotatingDisk {
    /// Usable capacity, bytes.
    pub capacity_bytes: u64,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Sustained rate on the outermost tracks, MB/s.
    pub outer_mb_per_s: f64,
    /// Sustained rate on the innermost tracks, MB/s.
    pub inner_mb_per_s: f64,
    /// Seek between two random tracks, on average.
    pub seek_average_ms: f64,
    /// Seek to the next track.
    pub seek_track_ms: f64,
    /// Seek from the first track to the last.
    pub seek_full_ms: f64,
    /// Settling time added to the seek before a write, ms; at most 100.
    pub write_settle_ms: f64,
    /// Time from a command's arrival at an idle disk to the start of its seek, ms.
    pub command_ms: f64,
    /// Rate from the disk's buffer to the controller, MB/s.
    pub interface_mb_per_s: f64,
    /// Commands that the disk holds at most and picks from, the shortest access time first.
    pub queue_depth: u32,
    /// Age after which a command goes next, as a multiple of the time that a full queue takes in turn.
    pub age_bound_queues: f64,
    /// How far an idle disk reads on behind the last read, and how long a run of commands may become while others wait;
    /// 0 = not at all.
    pub look_ahead_bytes: u64,
    /// Number of streams that the buffer keeps apart.
    pub look_ahead_segments: u32,
    /// Size of the volatile write cache, bytes; 0: off.
    pub write_cache_bytes: u64,
    /// 512, or 4096 on 512e and 4Kn drives: smaller or unaligned writes read first.
    pub physical_sector_bytes: u32,
}

/// A flash drive. MB = 10^6 bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashDrive {
    /// Usable capacity, bytes.
    pub capacity_bytes: u64,
    /// Time of a small read, from command to data, µs.
    pub read_us: f64,
    /// Time of a small write, from command to acknowledgement, µs.
    pub write_us: f64,
    /// Share of the reads that take `slow_read_us` instead.
    pub slow_read_share: f64,
    /// A slow read (behind an erase, or with retries).
    pub slow_read_us: f64,
    /// Small (4 KiB) random reads per second with a full queue: gives the number of channels.
    pub read_iops: f64,
    /// Interface rate for reads, MB/s.
    pub read_mb_per_s: f64,
    /// Interface rate for writes, MB/s.
    pub write_mb_per_s: f64,
    /// Small (4 KiB) random writes per second in steady state, with garbage collection.
    pub write_iops: f64,
    /// Bytes that the drive takes at `write_mb_per_s` before garbage collection limits it to `write_iops`.
    pub write_burst_bytes: u64,
}
