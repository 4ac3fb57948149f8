//! Drives alone.

use crate::hardware::RotatingDisk;

pub(super) fn nearline_4tb() -> RotatingDisk {
    RotatingDisk {
        capacity_bytes: 4_000_787_030_016,
        rpm: 7_200,
        outer_mb_per_s: 175.0,
        inner_mb_per_s: 83.0,
        seek_average_ms: 8.5,
        seek_track_ms: 0.6,
        seek_full_ms: 16.5,
        write_settle_ms: 1.0,
        command_ms: 0.2,
        interface_mb_per_s: 600.0,
        queue_depth: 4,
        age_bound_queues: 1.5,
        look_ahead_bytes: 1 << 20,
        look_ahead_segments: 16,
        write_cache_bytes: 0,
        physical_sector_bytes: 512,
    }
}
