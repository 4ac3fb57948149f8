//! Faults drawn from seeds.

use super::*;

/// Counts of faults over all seeds.
#[derive(Debug, Default)]
struct Faulted {
    crashes: u64,
    splits: u64,
    arbiter_restarts: u64,
    both: u64,
    standstills: u64,
    minutes: u64,
    rotten_pages: u64,
}

/// Runs a cluster under random faults. At most one host is down at a time; the arbiter may be down too.
fn run_seed(seed: u64, faulted: &mut Faulted, events: &mut BTreeMap<String, u64>) -> Result<(), String> {
    let mut random = Random::new(seed);
    let copies = 2 + random.below(3) as u16;
    let mut cluster = Cluster::new(seed, copies, Dial::Lossless);
    if seed % 2 == 1 {
        cluster.restart_with_caches(repair::SMALL_CACHE_PAGES);
    }
    cluster.run_until_level(20_000)?;
    for _ in 0..5 {
        cluster.run(200 + random.below(1_500) as u32)?;
        let host = HostId(random.below(copies.into()) as u16);
        let away_ms = 100 + random.below(4_000) as u32;
        // Of two copies the other one may have to replace the page with the active one's, too.
        match random.below(if copies > 2 { 7 } else { 5 }) {
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
            2 => stand_still(&mut cluster, &mut random, (host, away_ms), faulted)?,
            5 | 6 => rot(&mut cluster, away_ms, faulted)?,
            _ => {
                faulted.crashes += 1;
                cluster.crash(host);
                cluster.run(away_ms)?;
                cluster.restart(host);
            }
        }
    }
    if seed % 2 == 1 {
        cluster.restart_with_caches(repair::LARGE_CACHE_PAGES);
    }
    cluster.check_all()?;
    for (event, count) in cluster.events {
        *events.entry(event).or_default() += count;
    }
    Ok(())
}

/// Stops a process or suspends a host, sometimes for a minute.
fn stand_still(
    cluster: &mut Cluster,
    random: &mut Random,
    (host, away_ms): (HostId, u32),
    faulted: &mut Faulted,
) -> Result<(), String> {
    faulted.standstills += 1;
    let stand_still = [Simulation::stop, Simulation::suspend][random.below(2) as usize];
    let still_ms = if random.below(10) == 0 { 60_000 } else { away_ms };
    faulted.minutes += u64::from(still_ms == 60_000);
    stand_still(&cluster.sim, &name(host));
    cluster.run(away_ms)?;
    cluster.clients.set(false);
    cluster.run(still_ms - away_ms)?;
    cluster.clients.set(true);
    cluster.sim.resume(&name(host));
    Ok(())
}

/// Flips bits in pages of the active copy, then reads all rows.
fn rot(cluster: &mut Cluster, away_ms: u32, faulted: &mut Faulted) -> Result<(), String> {
    // Each page rots on one host only: what all have lost, none can give.
    let is_own = |host: HostId| move |place: u64| place % 16 == u64::from(host.0);
    let rotten = cluster.active().into_iter().map(|host| cluster.rot(host, is_own(host)));
    faulted.rotten_pages += rotten.sum::<u64>();
    cluster.run(away_ms)?;
    for holder in cluster.active() {
        // It may lose its lease meanwhile.
        let _ = cluster.read_all(holder);
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
    assert!(!is_complete || faulted.minutes > 0, "no process or host stood still for 60 s");
    for event in [
        "Mounted",
        "Seeded",
        "SteppedDown",
        "Diverged",
        "LogsDropped",
        "PartnerChosen",
        "BlockMode",
        "PageRepaired",
    ] {
        assert!(
            !is_complete || events.get(event).is_some_and(|count| *count > 0),
            "{event} never came: {events:?}"
        );
    }
}
