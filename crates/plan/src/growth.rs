//! Building blocks: the same solution several times in one array, until a limit of the array is reached.

use schemars::JsonSchema;
use serde::Serialize;
use solution::Behind;

use crate::inputs::Inputs;
use crate::sizing::Sizing;
use crate::storage::Storage;

/// Step of the growth path: a number of building blocks together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Block {
    /// Number of blocks.
    pub blocks: u32,
    /// Mailboxes of these blocks.
    pub mailboxes: f64,
    /// Hosts of these blocks.
    pub hosts: u32,
    /// Disks of the described volumes and pools.
    pub disks: u32,
    /// Raw capacity in TB (10^12 bytes).
    pub raw_tb: f64,
    /// Database I/O per second of all copies.
    pub database_iops: f64,
    /// Limit of the array that these blocks exceed; `None` if they fit.
    pub limit: Option<String>,
}

/// Growth path, up to and including the first step that does not fit.
pub fn growth(inputs: &Inputs<'_>, sizing: &Sizing, storage: &Storage) -> Vec<Block> {
    let solution = inputs.solution;
    let Some(wish) = &solution.building_block else { return Vec::new() };
    let (mut disks, mut raw_gb) = (0u32, 0.0);
    for used in &storage.volumes {
        if let Behind::Disks { disk, .. } = solution.volumes[used.entry].behind {
            disks += used.disks_in_all;
            raw_gb += f64::from(used.disks_in_all) * solution.disks[disk].capacity_gb;
        }
    }
    for (used, pool) in storage.pools.iter().zip(&solution.pools) {
        disks += used.disks_in_all;
        raw_gb += f64::from(used.disks_in_all) * solution.disks[pool.disk].capacity_gb;
    }
    let hosts = inputs.servers.len() as u32 * inputs.solution.dag.count;
    let iops = sizing.row("database_iops").and_then(|row| row.per_environment).unwrap_or(0.0);
    let mut path = Vec::new();
    for blocks in 1..=wish.blocks {
        let n = f64::from(blocks);
        let (all_disks, all_hosts, raw_tb) = (disks * blocks, hosts * blocks, n * raw_gb / 1000.0);
        let over = |what: &str, need: f64, most: Option<f64>| {
            most.filter(|&most| need > most).map(|most| format!("{need} {what}, the array takes {most}"))
        };
        let limit = over("disks", f64::from(all_disks), wish.max_disks.map(f64::from))
            .or_else(|| over("hosts", f64::from(all_hosts), wish.max_hosts.map(f64::from)))
            .or_else(|| over("TB", raw_tb, wish.max_capacity_tb));
        let ends = limit.is_some();
        let mailboxes = n * inputs.figures.mailboxes;
        let database_iops = n * iops;
        path.push(Block {
            blocks,
            mailboxes,
            hosts: all_hosts,
            disks: all_disks,
            raw_tb,
            database_iops,
            limit,
        });
        if ends {
            break;
        }
    }
    path
}
