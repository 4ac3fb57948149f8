//! Faults drawn from seeds.

use super::*;

/// What went wrong over all seeds.
#[derive(Debug, Default)]
struct Faulted {
    crashes: u64,
    splits: u64,
    arbiter_restarts: u64,
    both: u64,
}

/// A cluster under random faults; at most one host is away at a time, and the arbiter may be, too.
fn run_seed(seed: u64, faulted: &mut Faulted, events: &mut BTreeMap<String, u64>) -> Result<(), String> {
    let mut random = Random::new(seed);
    let copies = 2 + random.below(3) as u16;
    let mut cluster = Cluster::new(seed, copies, Dial::Lossless);
    cluster.run_until_level(20_000)?;
    for _ in 0..5 {
        cluster.run(200 + random.below(1_500) as u32)?;
        let host = HostId(random.below(copies.into()) as u16);
        let away_ms = 100 + random.below(4_000) as u32;
        match random.below(4) {
            0 => {
                faulted.splits += 1;
                let others = cluster.hosts.iter().chain([&ARBITER]).filter(|&&other| other != host);
                let others: Vec<HostId> = others.copied().filter(|_| random.below(4) > 0).collect();
                for &other in &others {
                    cluster.sim.partition(&name(host), &name(other));
                }
                cluster.run(away_ms)?;
                for &other in &others {
                    cluster.sim.heal(&name(host), &name(other));
                }
            }
            1 => {
                faulted.arbiter_restarts += 1;
                cluster.sim.crash("ctl");
                cluster.arbiter = None;
                let also = random.below(2) == 0;
                if also {
                    faulted.both += 1;
                    cluster.crash(host);
                }
                let world = cluster.sim.restart("ctl");
                cluster.worlds.insert(ARBITER, world);
                cluster.run(away_ms)?;
                cluster.start_arbiter();
                if also {
                    cluster.run(away_ms)?;
                    cluster.restart(host);
                }
            }
            _ => {
                faulted.crashes += 1;
                cluster.crash(host);
                cluster.run(away_ms)?;
                cluster.restart(host);
            }
        }
    }
    cluster.check_all()?;
    for (event, count) in cluster.events {
        *events.entry(event).or_default() += count;
    }
    Ok(())
}

#[test]
fn nothing_acknowledged_is_lost_and_all_copies_say_the_same() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds = match number("PROOFLOAD_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("PROOFLOAD_SEEDS").unwrap_or(20),
    };
    let is_complete = *seeds.end() >= 20 && *seeds.start() == 1;
    let (mut faulted, mut events) = (Faulted::default(), BTreeMap::new());
    for seed in seeds {
        if let Err(error) = run_seed(seed, &mut faulted, &mut events) {
            panic!(
                "seed {seed}: {error}\nrepeat: PROOFLOAD_SEED={seed} cargo test -p replica --test it cluster::random"
            );
        }
    }
    println!("{faulted:?}; {events:?}");
    for event in ["Mounted", "Seeded", "SteppedDown", "Diverged", "LogsDropped", "PartnerChosen", "BlockMode"]
    {
        assert!(
            !is_complete || events.get(event).is_some_and(|count| *count > 0),
            "{event} never came: {events:?}"
        );
    }
}
