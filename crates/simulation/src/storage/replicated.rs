//! Replicated stores as [`array::Hardware`]: the disks of a pool dealt to its nodes, and what the store does
//! with cold data.

use array::{Compression, Deduplication, ErasureCoding, Link, ReplicatedStore, StoreNode};
use solution::{Raid, ReplicatedStore as Spec};

use super::{Builder, Outcome};

/// Largest number of extents in a strip.
const STRIP_EXTENTS: u32 = 4;

impl Builder<'_> {
    pub(super) fn replicated_store(&mut self, place: &str, pool: usize, spec: &Spec) -> Outcome<usize> {
        let (described, at) = (&self.solution.pools[pool], format!("pool[{pool}]"));
        let (name, count) = (format!("{place} {}", described.name), spec.nodes);
        let mut nodes = Vec::new();
        for node in 1..=count {
            let node_name = format!("{name} node {node}");
            let disks = self.add_drives(
                &self.solution.disks[described.disk],
                described.disks / count,
                &node_name,
                &at,
            )?;
            let flash = match described.fast {
                Some(fast) => self.add_drives(
                    &self.solution.disks[fast.disk],
                    fast.disks / count,
                    &format!("{node_name} flash"),
                    &at,
                )?,
                None => Vec::new(),
            };
            self.hardware.links.push(Link { name: format!("{node_name} network"), ..self.link.clone() });
            nodes.push(StoreNode { flash, disks, link: self.hardware.links.len() - 1 });
        }
        let store = self.assumptions.replicated_store(&spec.model);
        let mut store = store.map_err(|error| self.bad("array.store", error))?;
        match described.raid {
            Raid::Replica2 => store.replicas = 2,
            Raid::Replica3 => store.replicas = 3,
            // What the kind of store does as it comes.
            _ => {}
        }
        let resident_bytes = self.resident_bytes(place);
        let tiers_by_reads = spec.tiers_by_reads.unwrap_or(store.tiers_by_reads);
        let compression = spec.compression.map(|wished| Compression {
            stored_per_written: wished.stored_per_written,
            delay_s: wished.delay_min * 60.0,
        });
        let deduplication = spec.deduplication.map(|wished| Deduplication {
            equal_share: wished.equal_share,
            copies: wished.copies,
            delay_s: wished.delay_min * 60.0,
        });
        let erasure_coding = self.erasure_coding(spec, store.replicas)?;
        let cold = ReplicatedStore { compression, erasure_coding, deduplication, ..store };
        let store = ReplicatedStore { name, nodes, resident_bytes, tiers_by_reads, ..cold };
        self.hardware.replicated_stores.push(store);
        Ok(self.hardware.replicated_stores.len() - 1)
    }

    /// Layout of erasure coding. A strip leaves out as many nodes as may be lost, so that lost parts can be rebuilt on
    /// one of them.
    fn erasure_coding(&self, spec: &Spec, replicas: u32) -> Outcome<Option<ErasureCoding>> {
        let Some(wished) = spec.erasure_coding else { return Ok(None) };
        let parities = replicas.saturating_sub(1);
        let data = spec.nodes.saturating_sub(2 * parities).min(STRIP_EXTENTS);
        if parities == 0 || data < 2 {
            let message = format!("{replicas} copies on {} nodes leave none for strips", spec.nodes);
            let help = format!("{} nodes at least", 2 + 2 * parities);
            return Err(self.solution.error("array.store.erasure_coding", message, Some(help)));
        }
        Ok(Some(ErasureCoding { data, delay_s: wished.delay_days * 86_400.0 }))
    }
}
