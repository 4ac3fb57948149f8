//! Sequences of operations that are cut off at an I/O, and the states that unsynced changes can leave.

use world::sim::{CrashPoint, Death, Faults, Outcome, PowerCut, Simulation, Survival};

use super::operations::Operation;
use super::stage::{COPY, Ground, Grounds, Stage};

pub const OPERATIONS: [Operation; 12] = [
    Operation::Replace,
    Operation::CommitLazy,
    Operation::Delete,
    Operation::Split,
    Operation::Merge,
    Operation::Extend,
    Operation::LongValue,
    Operation::LeaveOpen,
    Operation::RollBack,
    Operation::Roll,
    Operation::Checkpoint,
    Operation::Copy,
];

/// Largest number of states that are tried at one I/O.
pub const STATES_MAX: usize = 16;
/// Without `PROOFLOAD_STEPS` the host ends at one of this many I/Os.
pub const STRIDE: u64 = 7;

pub type Sequence = Vec<Operation>;

#[derive(Default)]
pub struct Totals {
    pub sequences: u64,
    pub states: u64,
    pub torn: u64,
    pub most_undecided: usize,
}

/// Place at which a sequence of operations is cut off, and what survives there.
#[derive(Debug, Clone)]
pub struct Cut {
    /// Number of the I/O, counted over the whole sequence.
    nth: u64,
    point: CrashPoint,
    ends: Death,
    chosen: Vec<Survival>,
}

impl Cut {
    pub fn faults(&self) -> Faults {
        Faults {
            crash_at_nth: Some((self.nth, self.point)),
            crash_ends: self.ends,
            power_cut: PowerCut { chosen: Some(self.chosen.clone()), ..PowerCut::keep_all() },
            ..Faults::default()
        }
    }
}

pub async fn perform(stage: &mut Stage, sequence: &[Operation]) -> Result<(), String> {
    for operation in sequence {
        operation.perform(stage).await.map_err(|error| format!("{operation:?}: {error}"))?;
        // The next copy is made under the same name.
        if *operation == Operation::Copy {
            stage.world.remove(COPY).await.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Runs the sequence to its cut. Returns the number of changes whose survival the power cut decides.
pub fn run_to(grounds: &Grounds, sequence: &[Operation], cut: &Cut) -> Result<usize, String> {
    let ground = ground_of(sequence);
    let (sim, mut stage, undecided) = cut_off(grounds, sequence, cut)?;
    sim.run_until(stage.judge_crashed(ground))?;
    if cut.ends == Death::Process {
        judge_durable(&sim, &mut stage, ground)?;
    }
    Ok(undecided)
}

fn ground_of(sequence: &[Operation]) -> Ground {
    sequence[0].ground()
}

/// Runs the sequence to its cut. If only the process ends there, a later power cut takes all writes without a sync.
fn cut_off(
    grounds: &Grounds,
    sequence: &[Operation],
    cut: &Cut,
) -> Result<(Simulation, Stage, usize), String> {
    let (sim, mut stage) = grounds.stage(ground_of(sequence));
    sim.set_faults(cut.faults());
    let outcome = sim.run_until_crash_or(perform(&mut stage, sequence));
    match outcome {
        Outcome::Crashed { .. } => {}
        other => return Err(format!("it was not cut off: {other:?}")),
    }
    let undecided = sim.decisions();
    sim.set_faults(Faults { power_cut: PowerCut::lose_all(), ..Faults::default() });
    stage.restart(&sim);
    Ok((sim, stage, undecided))
}

/// Later power cut after the end of a process. It takes all writes without a sync, or tears each of them in pieces
/// smaller than the fields of a header.
fn later_power_cut(tears: bool) -> PowerCut {
    match tears {
        false => PowerCut::lose_all(),
        true => PowerCut { lost_write: 0.0, torn_write: 1.0, sector_bytes: 64, ..PowerCut::lose_all() },
    }
}

/// Ends the process at `cut`, then cuts the power before I/O number `nth` of the next recovery. Returns whether the
/// recovery has such an I/O.
pub fn cut_recovery(grounds: &Grounds, sequence: &[Operation], cut: &Cut, nth: u64) -> Result<bool, String> {
    let ground = ground_of(sequence);
    let (sim, mut stage, _) = cut_off(grounds, sequence, cut)?;
    let later = Faults { power_cut: later_power_cut(nth.is_multiple_of(2)), ..Faults::default() };
    sim.set_faults(Faults { crash_at_nth: Some((nth, CrashPoint::Before)), ..later.clone() });
    match sim.run_until_crash_or(stage.judge_crashed(ground)) {
        Outcome::Crashed { .. } => {}
        Outcome::Done(done) => return done.map(|()| false),
        Outcome::Stuck { .. } => return Err("the recovery never ends".to_owned()),
    }
    sim.set_faults(later);
    stage.restart(&sim);
    sim.run_until(stage.judge_crashed(ground))
        .map_err(|error| format!("power cut at {nth} behind it: {error}"))?;
    Ok(true)
}

/// Checks that what the process found also survives a power cut.
pub fn judge_durable(sim: &Simulation, stage: &mut Stage, ground: Ground) -> Result<(), String> {
    sim.run_until(stage.judge_locks())?;
    sim.crash("h");
    stage.restart(sim);
    sim.run_until(stage.judge_crashed(ground)).map_err(|error| format!("power cut behind it: {error}"))
}

/// States that undecided changes can leave: all combinations if they are few; otherwise one change only, all but one,
/// and torn writes.
pub fn states(undecided: usize) -> Vec<Vec<Survival>> {
    use Survival::{FirstHalf, Kept, Lost, SecondHalf};
    let mut states: Vec<Vec<Survival>> = Vec::new();
    if undecided < 4 {
        let kept = |mask: usize, n| if mask >> n & 1 == 0 { Kept } else { Lost };
        states.extend((1..1 << undecided).map(|mask| (0..undecided).map(|n| kept(mask, n)).collect()));
    } else {
        states.push(vec![Lost; undecided]);
        for n in (0..undecided).rev() {
            for (all, one) in [(Kept, Lost), (Lost, Kept)] {
                let mut state = vec![all; undecided];
                state[n] = one;
                states.push(state);
            }
        }
    }
    for n in (0..undecided).rev() {
        for half in [FirstHalf, SecondHalf] {
            let mut state = vec![Kept; undecided];
            state[n] = half;
            states.push(state);
        }
    }
    states
}

/// I/Os of a whole sequence.
pub fn operations_of(grounds: &Grounds, sequence: &[Operation]) -> u64 {
    let Some(first) = sequence.first() else { return 0 };
    let (sim, mut stage) = grounds.stage(first.ground());
    sim.set_faults(Faults::default());
    sim.run_until(perform(&mut stage, sequence)).unwrap_or_else(|error| panic!("{sequence:?}: {error}"));
    sim.operations().total()
}

/// Cuts the sequence off at each I/O of its last operation, in each state; unless `is_full`, at one I/O in
/// [`STRIDE`].
pub fn cut_everywhere(
    grounds: &Grounds,
    sequence: &Sequence,
    number: u64,
    is_full: bool,
    totals: &mut Totals,
) -> Vec<String> {
    let before = operations_of(grounds, &sequence[..sequence.len() - 1]);
    let all = operations_of(grounds, sequence);
    let mut failed = Vec::new();
    let mut attempt = |cut: Cut, totals: &mut Totals| {
        totals.states += 1;
        totals.torn += u64::from(cut.chosen.iter().any(|s| !matches!(s, Survival::Lost | Survival::Kept)));
        run_to(grounds, sequence, &cut).unwrap_or_else(|error| {
            failed.push(format!("{sequence:?}, {cut:?}: {error}"));
            0
        })
    };
    for nth in before + 1..=all {
        if !is_full && !(nth + number).is_multiple_of(STRIDE) {
            continue;
        }
        for point in [CrashPoint::Before, CrashPoint::After] {
            attempt(Cut { nth, point, ends: Death::Process, chosen: Vec::new() }, totals);
            let cut = Cut { nth, point, ends: Death::Power, chosen: Vec::new() };
            let undecided = attempt(cut.clone(), totals);
            totals.most_undecided = totals.most_undecided.max(undecided);
            for chosen in states(undecided).into_iter().take(STATES_MAX) {
                attempt(Cut { chosen, ..cut.clone() }, totals);
            }
        }
    }
    totals.sequences += 1;
    failed
}

/// Ends the process at each I/O of the operation, and cuts the power at each I/O of the next recovery; unless
/// `is_full`, at one in [`STRIDE`] of each. Returns the failures.
pub fn cut_each_recovery(
    grounds: &Grounds,
    operation: Operation,
    is_full: bool,
    totals: &mut Totals,
) -> Vec<String> {
    let (sequence, step) = ([operation], if is_full { 1 } else { STRIDE });
    let mut failed = Vec::new();
    for nth in (1..=operations_of(grounds, &sequence)).step_by(step as usize) {
        let cut = Cut { nth, point: CrashPoint::After, ends: Death::Process, chosen: Vec::new() };
        // Each recovery is cut off at other I/Os than the one before.
        let first = 1 + if is_full { 0 } else { nth / STRIDE % STRIDE };
        for later in (first..).step_by(step as usize) {
            totals.states += 1;
            match cut_recovery(grounds, &sequence, &cut, later) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => failed.push(format!("{operation:?}, {cut:?}: {error}")),
            }
        }
    }
    totals.sequences += 1;
    failed
}

pub fn sequences(steps: u32) -> impl Iterator<Item = Sequence> {
    let count = OPERATIONS.len();
    let of_length = move |length: u32| {
        (0..count.pow(length)).map(move |number| {
            (0..length).map(|step| OPERATIONS[number / count.pow(step) % count]).collect::<Sequence>()
        })
    };
    (1..=steps).flat_map(of_length)
}
