//! All short sequences of operations, with a crash at every I/O of the last one, and every state that unsynced changes can leave,
//! up to a bound.
//!
//! `PROOFLOAD_STEPS=3` goes through all sequences of up to three operations (`make soak`); without it all sequences of two are
//! tried at some of their I/Os.
#![allow(clippy::print_stdout, reason = "says how many states were tried")]

use crate::common::operations::Operation;
use crate::common::stage::{Ground, Grounds, Stage};
use world::sim::{CrashPoint, Death, Faults, Outcome, PowerCut, Simulation, Survival};

const OPERATIONS: [Operation; 12] = [
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

/// States tried at one I/O where more are possible.
const STATES_MAX: usize = 16;
/// Without `PROOFLOAD_STEPS` the host ends at one I/O in this many.
const STRIDE: u64 = 7;

type Sequence = Vec<Operation>;

#[derive(Default)]
struct Totals {
    sequences: u64,
    states: u64,
    torn: u64,
    most_undecided: usize,
}

/// Where a sequence is cut off.
#[derive(Debug, Clone)]
struct Cut {
    /// Counted over the whole sequence.
    nth: u64,
    point: CrashPoint,
    ends: Death,
    chosen: Vec<Survival>,
}

impl Cut {
    fn faults(&self) -> Faults {
        Faults {
            crash_at_nth: Some((self.nth, self.point)),
            crash_ends: self.ends,
            power_cut: PowerCut { chosen: Some(self.chosen.clone()), ..PowerCut::keep_all() },
            ..Faults::default()
        }
    }
}

async fn perform(stage: &mut Stage, sequence: &[Operation]) -> Result<(), String> {
    for operation in sequence {
        operation.perform(stage).await.map_err(|error| format!("{operation:?}: {error}"))?;
        // The next copy is made under the same name.
        if *operation == Operation::Copy {
            stage.world.remove("/db/copy.edb").await.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Runs the sequence to its cut; returns how many changes the power cut has decided about.
fn run_to(grounds: &Grounds, sequence: &[Operation], cut: &Cut) -> Result<usize, String> {
    let (sim, mut stage) = grounds.stage(Ground::Open);
    sim.set_faults(cut.faults());
    let outcome = sim.run_until_crash_or(perform(&mut stage, sequence));
    match outcome {
        Outcome::Crashed { .. } => {}
        other => return Err(format!("it was not cut off: {other:?}")),
    }
    let undecided = sim.decisions();
    sim.set_faults(Faults { power_cut: PowerCut::lose_all(), ..Faults::default() });
    stage.restart(&sim);
    sim.run_until(stage.judge_crashed(Ground::Open))?;
    if cut.ends == Death::Process {
        judge_durable(&sim, &mut stage)?;
    }
    Ok(undecided)
}

/// What the process found is there behind a power cut, too.
fn judge_durable(sim: &Simulation, stage: &mut Stage) -> Result<(), String> {
    sim.run_until(stage.judge_locks())?;
    sim.crash("h");
    stage.restart(sim);
    sim.run_until(stage.judge_crashed(Ground::Open)).map_err(|error| format!("power cut behind it: {error}"))
}

/// The states that undecided changes can leave: all, or those with one change or all but one, then torn writes.
fn states(undecided: usize) -> Vec<Vec<Survival>> {
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
fn operations_of(grounds: &Grounds, sequence: &[Operation]) -> u64 {
    let (sim, mut stage) = grounds.stage(Ground::Open);
    sim.set_faults(Faults::default());
    sim.run_until(perform(&mut stage, sequence)).unwrap_or_else(|error| panic!("{sequence:?}: {error}"));
    sim.operations().total()
}

fn cut_everywhere(
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

fn sequences(steps: u32) -> impl Iterator<Item = Sequence> {
    let count = OPERATIONS.len();
    let of_length = move |length: u32| {
        (0..count.pow(length)).map(move |number| {
            (0..length).map(|step| OPERATIONS[number / count.pow(step) % count]).collect::<Sequence>()
        })
    };
    (1..=steps).flat_map(of_length)
}

/// Two tests, so that two cores work.
fn cut_sequences(half: usize) {
    let steps = std::env::var("PROOFLOAD_STEPS").ok().and_then(|steps| steps.parse().ok());
    let (grounds, mut totals, mut failed) = (Grounds::make(), Totals::default(), Vec::new());
    for (number, sequence) in sequences(steps.unwrap_or(2)).enumerate().skip(half).step_by(2) {
        failed.extend(cut_everywhere(&grounds, &sequence, number as u64, steps.is_some(), &mut totals));
    }
    let Totals { sequences, states, torn, most_undecided } = totals;
    println!(
        "{sequences} sequences, {states} states, {torn} with torn writes, at most {most_undecided} undecided changes"
    );
    assert!(failed.is_empty(), "{} states were harmed\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn every_short_sequence_survives_a_crash_at_its_ios_in_every_state_first_half() {
    cut_sequences(0);
}

#[test]
fn every_short_sequence_survives_a_crash_at_its_ios_in_every_state_second_half() {
    cut_sequences(1);
}
