//! Pages that rot on the disk of the active copy come from another copy.

use engine::{MaintenanceConfig, StopSignal};

use super::*;

/// Index of the first page that is damaged. The pages before it (header, shadow, first pages) are needed to open a
/// database.
const FIRST_PLACE: u64 = 5;
/// Cache size at which users have to read pages from the file.
pub(super) const SMALL_CACHE_PAGES: u64 = 64;
/// Cache size at which a check of the whole structure fits into the cache.
pub(super) const LARGE_CACHE_PAGES: u64 = 8_000;

impl Cluster {
    /// Flips bits in the chosen pages of the copy on `host`, except pages that were never written. Returns the number
    /// of pages.
    pub(super) fn rot(&self, host: HostId, is_chosen: impl Fn(u64) -> bool) -> u64 {
        let (path, world) = (&self.config.databases[0].path, &self.worlds[&host]);
        let page_bytes = PAGE_BYTES as u64;
        let written: Vec<u64> = self.sim.run_until(async {
            let file = world.open(path, OpenMode::Read).await.unwrap();
            let mut written = Vec::new();
            for place in FIRST_PLACE..file.size().await.unwrap() / page_bytes {
                let bufs = smallvec![PageBuf::empty(PAGE_BYTES)];
                let (read, bufs) = file.read_at(place * page_bytes, bufs).await;
                read.unwrap();
                if bufs[0].as_slice().iter().any(|byte| *byte != 0) {
                    written.push(place);
                }
            }
            written
        });
        let chosen = written.into_iter().filter(|place| is_chosen(*place));
        let rotten = chosen.filter(|place| {
            [100, 3000].iter().all(|at| self.sim.rot(&name(host), path, place * page_bytes + at, 3))
        });
        rotten.count() as u64
    }

    /// Restarts all hosts with caches of this many pages.
    pub(super) fn restart_with_caches(&mut self, pages: u64) {
        self.config.cache_bytes_per_database = pages * PAGE_BYTES as u64;
        for host in self.hosts.clone() {
            self.crash(host);
            self.restart(host);
        }
    }

    /// Reads all rows on the active copy.
    pub(super) fn read_all(&self, host: HostId) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
        let instance = self.nodes[&host].replica.instance().ok_or("it is not mounted")?;
        let read = self.sim.run_until(async { scan(&instance.begin(), 1, tree_number(0)).await });
        read.map_err(|error| error.to_string())
    }

    fn happened(&self, event: &str) -> u64 {
        self.events.get(event).copied().unwrap_or(0)
    }
}

/// Cluster of three copies whose rows do not fit into the caches, without load.
fn full_cluster(seed: u64) -> (Cluster, HostId) {
    let mut cluster = Cluster::new(seed, 3, Dial::Lossless);
    cluster.restart_with_caches(SMALL_CACHE_PAGES);
    cluster.run_until_level(20_000).unwrap();
    cluster.run(6_000).unwrap();
    cluster.clients.set(false);
    cluster.run(2_000).unwrap();
    let holder = cluster.run_until_level(20_000).unwrap();
    (cluster, holder)
}

#[test]
fn readers_get_rotten_pages_of_the_active_copy_from_the_only_copy_that_has_them_whole() {
    let (mut cluster, holder) = full_cluster(11);
    let rows = cluster.read_all(holder).unwrap();
    let other = *cluster.hosts.iter().find(|host| **host != holder).unwrap();
    let rotten = cluster.rot(holder, |_| true);
    cluster.rot(other, |_| true);
    assert_eq!(cluster.read_all(holder), Ok(rows), "two of three copies are damaged");
    cluster.run(100).unwrap();
    let repaired = cluster.happened("PageRepaired");
    assert!(repaired > rotten / 2, "{repaired} of {rotten} pages came from another copy");
    assert_eq!(cluster.happened("PagesRefused"), 0);
    cluster.clients.set(true);
    cluster.run(1_000).unwrap();
    assert_eq!(cluster.active(), [holder]);
}

#[test]
fn copy_is_seeded_from_an_active_copy_with_rotten_pages() {
    let (mut cluster, holder) = full_cluster(12);
    let empty = *cluster.hosts.iter().find(|host| **host != holder).unwrap();
    cluster.crash(empty);
    let world = cluster.sim.restart(&name(empty));
    cluster.sim.run_until(async {
        for folder in ["/db", "/log"] {
            for entry in world.list(folder).await.unwrap() {
                world.remove(&format!("{folder}/{}", entry.name)).await.unwrap();
            }
        }
    });
    cluster.worlds.insert(empty, world);
    // A page of a file in use is read again five times before it counts as damaged, which takes seconds.
    let rotten = cluster.rot(holder, |place| place % 50 == 0);
    let seeded = cluster.happened("Seeded");
    cluster.start(empty);
    cluster.run(30_000).unwrap();
    assert_eq!(cluster.happened("Seeded"), seeded + 1);
    let repaired = cluster.happened("PageRepaired");
    assert!(repaired > 0 && repaired <= rotten, "{repaired} of {rotten} pages came from another copy");
    cluster.clients.set(true);
    cluster.run(1_000).unwrap();
    cluster.restart_with_caches(LARGE_CACHE_PAGES);
    cluster.check_all().unwrap();
}

#[test]
fn checksum_pass_of_the_active_copy_reports_rotten_pages() {
    let (mut cluster, holder) = full_cluster(14);
    let rotten = cluster.rot(holder, |place| place % 100 == 0);
    let instance = cluster.nodes[&holder].replica.instance().unwrap();
    let (stop, world) = (StopSignal::new(), cluster.worlds[&holder].clone());
    let stopping = stop.clone();
    let pass = world.spawn(async move {
        instance.maintain(1, &MaintenanceConfig::default(), &stopping).await.unwrap().findings.list.len()
    });
    cluster.run(60_000).unwrap();
    stop.stop();
    let found = cluster.sim.run_until(pass);
    let repaired = cluster.happened("PageRepaired");
    assert!(found > 0 && repaired > 0 && repaired <= rotten, "{repaired} of {rotten} pages; {found} found");
}

#[test]
fn reader_gets_an_error_when_no_copy_has_the_page_and_users_go_on() {
    let (mut cluster, holder) = full_cluster(13);
    for host in cluster.hosts.clone() {
        cluster.rot(host, |place| place == FIRST_PLACE + 20);
    }
    let error = cluster.read_all(holder).unwrap_err();
    assert!(error.contains("no other copy has given it"), "{error}");
    let before = cluster.acknowledged.borrow().len();
    cluster.clients.set(true);
    cluster.run(2_000).unwrap();
    assert!(cluster.acknowledged.borrow().len() > before + 50, "what needs other pages goes on");
    assert_eq!(cluster.active(), [holder]);
}
