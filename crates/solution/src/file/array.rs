//! `[array]`: how the storage behind the volumes is built, for simulated time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::count;

/// `[array]`: the parts between hosts and disks. Kinds are names of `assumptions.toml`, which has their data
/// and sources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageArray {
    /// Place of the controllers: in each host, or shared.
    pub scope: Scope,
    /// Kind of controller.
    pub controller: String,
    /// Controllers of the array, or of each host; 1 when not given. Several are partners.
    #[serde(default = "count::<1>")]
    pub controllers: u32,
    /// Cache of one controller for its own volumes in MiB; that of its kind when not given.
    pub cache_mib: Option<u64>,
    /// Stripe element, KiB: bytes on one disk before the next disk follows; 64 when not given.
    pub(crate) stripe_element_kib: Option<u64>,
    /// Kind of link between a host and its storage.
    pub link: String,
    /// Links of one host, to the controllers in turn; 1 when not given.
    #[serde(default = "count::<1>")]
    pub links_per_host: u32,
    /// Kind of store that keeps the data of all pools; RAID groups when not given.
    pub store: Option<Store>,
    /// A flash cache for reads in front of the RAID groups and pools, for all controllers together; none when
    /// not given.
    pub read_cache: Option<ReadCache>,
    /// A copy of all volumes on an array alike at another site; none when not given.
    pub remote_copy: Option<RemoteCopy>,
}

/// `[array.read_cache]`: flash drives of an array, or of each host, that hold what is read often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadCache {
    /// Kind of the flash drives.
    pub disk: String,
    /// Number of flash drives.
    pub disks: u32,
}

/// `[array.remote_copy]`: a synchronous copy at another site. Writes are acknowledged when both arrays have them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoteCopy {
    /// Kilometres of fibre to the other site.
    pub distance_km: f64,
    /// Kind of link between the sites, a name of `assumptions.toml`.
    pub link: String,
    /// Behaviour of writes while the link is lost.
    pub when_link_lost: WhenLinkLost,
}

/// Behaviour of writes while the link to a copy at another site is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenLinkLost {
    /// Writes go on without the copy, which catches up afterwards.
    Suspend,
    /// Writes wait until the link is back.
    Stall,
}

/// Kind of store that keeps the data of pools, other than RAID groups. Kinds are names of `assumptions.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Store {
    /// Every write appended to a log over all disks, reads cached in flash.
    LogStructured {
        /// Kind of store.
        model: String,
        /// Kind of the flash drives that cache reads.
        cache_disk: String,
        /// Flash drives that cache reads, in one pool.
        cache_disks: u32,
    },
    /// Copies of everything on several nodes, each with a share of the pool's disks.
    Replicated(ReplicatedStore),
    /// Rows of double parity over disks picked anew for each piece.
    DynamicPool {
        /// Kind of pool.
        model: String,
        /// Disks' worth of room, spread over the pool, that is kept free for reconstruction.
        spare_disks: u32,
    },
}

/// A store of copies on several nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplicatedStore {
    /// Kind of store.
    pub model: String,
    /// Nodes of one pool; hosts run on them in turn.
    pub nodes: u32,
    /// Extents are moved between flash and disks by how often they are read; as for its kind when not given.
    pub tiers_by_reads: Option<bool>,
    /// Data that were not written for some time are compressed in the background; never when not given.
    pub compression: Option<Compression>,
    /// Data that were not written for some time are kept as strips with parities instead of copies; never when
    /// not given.
    pub erasure_coding: Option<ErasureCoding>,
    /// Equal data that were not written for some time are kept once; never when not given.
    pub deduplication: Option<Deduplication>,
}

/// Compression of data that were not written for some time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compression {
    /// Stored bytes per written byte.
    pub stored_per_written: f64,
    /// Minutes without a write before data are compressed.
    pub delay_min: f64,
}

/// Erasure coding of data that were not written for some time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErasureCoding {
    /// Days without a write before data are erasure coded.
    pub delay_days: f64,
}

/// Equal data that were not written for some time, kept once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deduplication {
    /// Share of the data that exist more than once.
    pub equal_share: f64,
    /// Number of times that each of these data exists.
    pub copies: u32,
    /// Minutes without a write before equal data are merged.
    pub delay_min: f64,
}

/// Place of the controllers of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// RAID adapters in each host.
    Host,
    /// One array that the hosts of an enclosure, or else of a site, share.
    Shared,
}
