//! What a large cache of flash holds when it has been in use for long, by region of the address space.
//!
//! A cache of some TB takes days to fill, a simulation warms up for minutes. So nothing is filled here: reads
//! are counted by region, and each region gets the share that a cache which throws out the least recently used
//! would come to hold of it if the reads went on like that. Such a cache holds a block that is read r times per
//! second with probability 1 - exp(-r T), with the T, the same for all blocks, that just fills it (Che, Tung
//! and Wang, "Hierarchical web caching systems: modeling, design and experimental results", 2002). Which blocks
//! of a region these are, a hash picks.
//!
//! * Shares are worked out anew whenever as many reads have been counted as there are regions. Counts fade by a
//!   sixteenth each time, so that a region read at the mean rate is known by some 16 reads. Before the first
//!   time, every region has the same share.
//! * A read that begins where the last one of its region ended is part of a scan, which caches keep out: not counted.
//! * Data without reads share the room that is left.
//! * Tiers hold the same, but what they hold has to be moved there. What the first counts say has been so for
//!   long and costs nothing; later a region that lacks half of its pieces gets them, one by one, and the region
//!   with the largest surplus gives as many ([`Residency::aim`]). Smaller differences are noise of the counts.
//! * Data of hosts that take no part in the simulation are taken to be like the others: they have their part of
//!   the room.
//!
//! Invariants
//! 1. The shares of all data are on average the share that the cache has room for, unless all that is read fits.
//! 2. A region that is read more often has no smaller share.
//!
//! Left out: the days that a cache lags behind a load that changes, differences within a region, what writes bring in.

/// Share of the counts that is kept each time the shares are computed.
const KEPT: f64 = 15.0 / 16.0;
/// Number of counted reads below which a region counts as not read.
const FORGOTTEN_READS: f64 = 1.0 / 16.0;
/// Number of counts after which tiers are taken as settled.
const FIRST_COUNTS: u32 = 16;
/// Lack of pieces in a region, in units of 2^-32 piece, above which it gets another one: half a piece.
const LACKING: u64 = 1 << 31;
/// Number of bisection steps in finding the characteristic time T of the cache.
const HALVINGS: u32 = 50;
/// Value of x above which exp(-x) counts as 0.
const ALL_HELD: f64 = 40.0;

#[derive(Clone)]
struct Region {
    reads: f64,
    /// End of the region's last read.
    read_to: u64,
    /// Cached pieces, of 2^32.
    cached: u64,
    /// Pieces that should be cached, of 2^32.
    wanted: u64,
}

pub(crate) struct Residency {
    region_bytes: u64,
    /// Share of all data for which the cache has room.
    room_share: f64,
    piece_bytes: u64,
    regions: Vec<Region>,
    counted: usize,
    counts: u32,
    /// Region that is receiving pieces.
    rising: Option<usize>,
}

/// Exchange of pieces: one comes to a tier and another leaves it; first bytes of their regions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Swap {
    pub comes: u64,
    pub leaves: u64,
}

pub(crate) fn of_two_to_32(share: f64) -> u64 {
    (share * (1u64 << 32) as f64) as u64
}

/// Size of a region if `space_bytes` is divided into this many, or fewer if a region would be smaller than a piece,
/// bytes.
pub(crate) fn region_bytes(space_bytes: u64, regions: u32, piece_bytes: u64) -> u64 {
    space_bytes.div_ceil(u64::from(regions)).next_multiple_of(piece_bytes).max(1)
}

impl Residency {
    /// Creates the model for `space_bytes` in this many regions, with room for a share of their data. Pieces of
    /// `piece_bytes` are cached as a whole.
    pub fn new(space_bytes: u64, regions: u32, piece_bytes: u64, room_share: f64) -> Residency {
        let region_bytes = region_bytes(space_bytes, regions, piece_bytes);
        let count = space_bytes.div_ceil(region_bytes).max(1) as usize;
        let cached = of_two_to_32(room_share);
        Residency {
            region_bytes,
            room_share,
            piece_bytes,
            regions: vec![Region { reads: 0.0, read_to: u64::MAX, cached, wanted: cached }; count],
            counted: 0,
            counts: 0,
            rising: None,
        }
    }

    fn region(&self, at: u64) -> usize {
        ((at / self.region_bytes) as usize).min(self.regions.len() - 1)
    }

    /// Whether the piece at a byte, with this hash, is cached.
    pub fn holds(&self, at: u64, hash: u64) -> bool {
        (hash >> 32) < self.regions[self.region(at)].cached
    }

    /// Counts a read that memory did not serve.
    pub fn count_read(&mut self, start: u64, bytes: u64) {
        let index = self.region(start);
        let region = &mut self.regions[index];
        let is_scan = std::mem::replace(&mut region.read_to, start + bytes) == start;
        if !is_scan {
            region.reads += 1.0;
            self.counted += 1;
        }
    }

    /// Whether enough reads were counted for [`Self::settle`].
    pub fn is_due(&self) -> bool {
        self.counted >= self.regions.len()
    }

    /// Computes the shares of a cache, for these bytes of data in the space.
    pub fn settle(&mut self, data_bytes: u64) {
        self.work_out(data_bytes);
        self.regions.iter_mut().for_each(|region| region.cached = region.wanted);
    }

    /// Computes the shares of a tier, for these bytes of data in the space. Differences are to be moved.
    pub fn aim(&mut self, data_bytes: u64) {
        if self.counts < FIRST_COUNTS {
            self.settle(data_bytes);
        } else {
            self.work_out(data_bytes);
        }
    }

    /// Sets the share of the data for which the cache has room. Tiers that do not follow reads hold that share at
    /// once.
    pub fn set_room(&mut self, share: f64) {
        self.room_share = share;
        if self.counts == 0 {
            let cached = of_two_to_32(share);
            self.regions.iter_mut().for_each(|region| (region.cached, region.wanted) = (cached, cached));
        }
    }

    /// Next pieces to exchange, if any.
    pub fn next_swap(&mut self) -> Option<Swap> {
        let short = |region: &Region| region.wanted.saturating_sub(region.cached);
        let piece = self.piece_share();
        self.rising = self
            .rising
            .filter(|index| short(&self.regions[*index]) >= piece)
            .or_else(|| self.regions.iter().position(|region| short(region) > LACKING));
        let comes = self.rising?;
        let spare = |region: &Region| region.cached.saturating_sub(region.wanted);
        let (leaves, most) = self.regions.iter().enumerate().max_by_key(|(_, region)| spare(region))?;
        (spare(most) >= piece).then_some(Swap {
            comes: comes as u64 * self.region_bytes,
            leaves: leaves as u64 * self.region_bytes,
        })
    }

    /// Notes that pieces were exchanged.
    pub fn swapped(&mut self, swap: Swap) {
        let piece = self.piece_share();
        for (at, more) in [(swap.comes, true), (swap.leaves, false)] {
            let index = self.region(at);
            let cached = &mut self.regions[index].cached;
            *cached = if more { *cached + piece } else { cached.saturating_sub(piece) };
        }
    }

    /// Share of a region, of 2^32, that one piece is.
    fn piece_share(&self) -> u64 {
        (u128::from(self.piece_bytes) * (1 << 32) / u128::from(self.region_bytes)) as u64
    }

    /// Number of pieces of a region.
    pub fn pieces(&self) -> u64 {
        self.region_bytes / self.piece_bytes
    }

    fn work_out(&mut self, data_bytes: u64) {
        (self.counted, self.counts) = (0, self.counts + 1);
        let all = data_bytes as f64 / self.region_bytes as f64;
        let room = all * self.room_share;
        let read = self.regions.iter().map(|region| region.reads).filter(|reads| *reads > FORGOTTEN_READS);
        let read: Vec<f64> = read.collect();
        let read_regions = read.len() as f64;
        let (unread_share, time) = if read_regions <= room {
            (((room - read_regions) / (all - read_regions)).min(1.0), f64::INFINITY)
        } else {
            (0.0, fill_time(&read, room))
        };
        for region in &mut self.regions {
            region.wanted = of_two_to_32(if region.reads > FORGOTTEN_READS {
                1.0 - exp_minus(region.reads * time)
            } else {
                unread_share
            });
            region.reads *= KEPT;
        }
    }
}

/// Time T after which a cache with room for this many regions is full, in the units of these counts.
fn fill_time(reads: &[f64], room: f64) -> f64 {
    let held = |time: f64| reads.iter().map(|reads| 1.0 - exp_minus(reads * time)).sum::<f64>();
    let (mut short, mut long) = (0.0, ALL_HELD / FORGOTTEN_READS);
    for _ in 0..HALVINGS {
        let middle = (short + long) / 2.0;
        if held(middle) < room { short = middle } else { long = middle }
    }
    short
}

/// Computes exp(-x) for x >= 0 with + - * / only: (1 - y/2) / (1 + y/2) for y = x/64, six times squared. Error below
/// 10^-4.
pub(crate) fn exp_minus(x: f64) -> f64 {
    if x >= ALL_HELD {
        return 0.0;
    }
    let half = x / 128.0;
    let mut power = (1.0 - half) / (1.0 + half);
    for _ in 0..6 {
        power *= power;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lru::Lru;
    use crate::mix;

    const REGIONS: u64 = 64;
    const BLOCKS: u64 = 64;
    const BLOCK_BYTES: u64 = 4096;

    /// Share of hits in the last quarter of reads, of which this many in ten go to the first eighth of the regions.
    fn hits(hot_of_ten: u64, cached_share: f64) -> (f64, f64) {
        let blocks = REGIONS * BLOCKS;
        let mut lru = Lru::new((blocks as f64 * cached_share) as u64);
        let mut residency = Residency::new(blocks * BLOCK_BYTES, REGIONS as u32, BLOCK_BYTES, cached_share);
        let (count, mut exact, mut modelled) = (400_000, 0, 0);
        for n in 0..count {
            let dice = mix(n);
            let span = if dice % 10 < hot_of_ten { blocks / 8 } else { blocks };
            let block = (dice >> 20) % span;
            let (in_lru, in_model) =
                (lru.touch(block), residency.holds(block * BLOCK_BYTES, mix(block ^ 77)));
            lru.insert(block);
            residency.count_read(block * BLOCK_BYTES, BLOCK_BYTES);
            if residency.is_due() {
                residency.settle(blocks * BLOCK_BYTES);
            }
            if n > count * 3 / 4 {
                (exact, modelled) = (exact + u64::from(in_lru), modelled + u64::from(in_model));
            }
        }
        let of = |hits: u64| hits as f64 / (count / 4) as f64;
        (of(exact), of(modelled))
    }

    #[test]
    fn hits_are_those_of_an_exact_cache_that_is_warm() {
        for (hot_of_ten, cached_share) in [(0, 0.5), (5, 0.25), (7, 0.5), (9, 0.05), (9, 0.125), (9, 0.8)] {
            let (exact, modelled) = hits(hot_of_ten, cached_share);
            assert!((exact - modelled).abs() < 0.03, "{hot_of_ten} {cached_share}: {exact} {modelled}");
        }
    }

    fn share(residency: &Residency, region: u64) -> f64 {
        residency.regions[region as usize].cached as f64 / (1u64 << 32) as f64
    }

    #[test]
    fn what_nobody_reads_shares_the_room_that_is_left() {
        let mut residency = Residency::new(100 << 20, 100, 4096, 0.3);
        assert_eq!((share(&residency, 0) * 1e3).round(), 300.0, "even, before anything is known");
        for n in 0..100 {
            residency.count_read((n % 10) << 20, 4096);
        }
        assert!(residency.is_due());
        residency.settle(100 << 20);
        assert!(share(&residency, 3) > 0.999);
        let left = share(&residency, 50);
        assert!((left - 20.0 / 90.0).abs() < 1e-6, "{left}");
        // A tenth of the data is there, the others' are elsewhere: the room is for all.
        residency.settle(10 << 20);
        let mean = (0..10).map(|region| share(&residency, region)).sum::<f64>() / 10.0;
        assert!((mean - 0.3).abs() < 1e-3, "{mean}");
    }

    #[test]
    fn what_is_no_longer_read_goes() {
        let mut residency = Residency::new(100 << 20, 100, 4096, 0.1);
        for (first, rounds) in [(0, 50), (50, 100)] {
            for n in 0..rounds * 100 {
                residency.count_read((first + n % 10) << 20, 4096);
                if residency.is_due() {
                    residency.settle(100 << 20);
                }
            }
        }
        assert!(share(&residency, 3) < 0.1 && share(&residency, 53) > 0.9);
    }

    #[test]
    fn a_scan_does_not_count() {
        let mut residency = Residency::new(100 << 20, 100, 4096, 0.3);
        for page in 0..(100 << 20) / 65536 {
            residency.count_read(page * 65536, 65536);
        }
        assert_eq!(residency.counted, 100, "one for each region: the first read of the scan in it");
    }

    #[test]
    fn the_exponential_is_one() {
        for tenths in 0..390 {
            let x = f64::from(tenths) / 10.0;
            assert!((exp_minus(x) - (-x).exp()).abs() < 1e-4, "{x}");
        }
    }
}
