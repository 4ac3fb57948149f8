//! Rows that every made-up run has; a test changes the fields that it is about.

use results::{Run, Test, WorldKind};

/// Row of a run on real storage that has not ended.
pub fn run() -> Run {
    Run {
        id: "run".into(),
        solution: "solution".into(),
        solution_text: String::new(),
        started_unix_ms: 0,
        tool_version: "1".into(),
        world: WorldKind::Real,
        world_detail: "io_uring, direct".into(),
        seed: 1,
        ended_ms: None,
        ending: None,
    }
}

/// Row of a performance test of two sessions that consists of its window, with samples of this length.
pub fn load_test(window_ms: u64, sample_ms: u64) -> Test {
    Test {
        ordinal: 1,
        kind: "performance".into(),
        name: "Performance".into(),
        started_ms: 0,
        ended_ms: Some(window_ms),
        window_start_ms: Some(0),
        window_end_ms: Some(window_ms),
        window_planned_ms: Some(window_ms),
        sample_ms,
        sessions: Some(2),
        target_iops: None,
        target_batches_per_s: None,
        day: None,
        iops_per_mailbox: None,
        copies: 1,
        parameters: Vec::new(),
        limits: Vec::new(),
    }
}
