//! Each rule of the protocol, switched off: the checker must notice. A rule that can go unnoticed is not tested.

use replication::{Bug, Dial};

use crate::random::{Counters, DRIFT_PPM, Options, run};

const SEEDS_MAX: u64 = 1_500;

fn first_seed_that_notices(options: &Options) -> Option<(u64, String)> {
    (0..SEEDS_MAX).find_map(|seed| run(seed, options, &Counters::default()).err().map(|error| (seed, error)))
}

fn assert_noticed(bug: Bug) {
    let found = first_seed_that_notices(&Options { bug: Some(bug), ..Options::default() });
    let (seed, error) = found.unwrap_or_else(|| panic!("{bug:?} went unnoticed in {SEEDS_MAX} seeds"));
    eprintln!("{bug:?}: seed {seed}: {error}");
}

macro_rules! noticed {
    ($($name:ident: $bug:ident,)*) => {
        $(#[test] fn $name() { assert_noticed(Bug::$bug); })*

        #[test]
        fn every_planted_bug_has_its_test() {
            assert_eq!([$(Bug::$bug),*].len(), Bug::ALL.len());
        }
    };
}

noticed! {
    lease_not_waited_for: LeaseNotWaitedFor,
    lease_forgotten_by_restart: LeaseForgottenByRestart,
    lease_counted_from_receipt: LeaseCountedFromReceipt,
    acknowledged_before_partner: AcknowledgedBeforePartner,
    partner_not_recorded: PartnerNotRecorded,
    stale_epoch_accepted: StaleEpochAccepted,
    mount_without_proof: MountWithoutProof,
    run_ahead_unlimited: RunAheadUnlimited,
    truncated_too_early: TruncatedTooEarly,
    divergence_unnoticed: DivergenceUnnoticed,
    divergent_pages_kept: DivergentPagesKept,
    seed_misses_logs: SeedMissesLogs,
    consistency_point_ignored: ConsistencyPointIgnored,
}

/// The drift bound is a real limit: clocks that exceed it cause two active copies.
#[test]
fn clocks_beyond_the_bound_give_two_active_copies() {
    let options = Options { clock_error_ppm: 4 * DRIFT_PPM, ..Options::default() };
    let found = (0..SEEDS_MAX).find(|&seed| {
        run(seed, &options, &Counters::default()).is_err_and(|error| error.contains("two active copies"))
    });
    assert!(found.is_some(), "no seed shows it");
}

/// Under the lossless dial even such clocks lose no acknowledged commit, because the fence does not rest on clocks.
#[test]
fn clocks_beyond_the_bound_lose_nothing_under_the_lossless_dial() {
    let options = Options { clock_error_ppm: 4 * DRIFT_PPM, dial: Some(Dial::Lossless), bug: None };
    let counters = Counters::default();
    for seed in 0..200 {
        if let Err(error) = run(seed, &options, &counters) {
            assert!(error.contains("two active copies"), "seed {seed}: {error}");
        }
    }
    let fenced = counters.borrow().get("copy.SteppedDown.Fenced").copied();
    assert!(fenced.is_some(), "no active copy met the fence of the next epoch");
}
