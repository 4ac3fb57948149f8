//! The history checker: what was acknowledged, who was active when, and what the database must therefore hold.

use std::collections::BTreeMap;

use replication::{DatabaseSpec, Dial, Epoch, HostId, Lineage, Loss, Position};

use crate::model::{PAGES, Page, Record};

#[derive(Debug, Clone, Copy)]
struct Acknowledged {
    position: Position,
    epoch: Epoch,
}

/// Ground truth about one database, against which the copies are checked.
pub struct History {
    spec: std::rc::Rc<DatabaseSpec>,
    /// Records that the active copy of each epoch held and wrote, from the beginning of the database.
    epochs: BTreeMap<Epoch, Vec<(Position, Record)>>,
    losses: BTreeMap<Epoch, Option<Loss>>,
    acknowledged: BTreeMap<u32, Acknowledged>,
    pub acknowledged_count: u64,
    pub lost_commits: u64,
    pub lost_generations: u32,
}

impl History {
    pub fn new(spec: std::rc::Rc<DatabaseSpec>) -> Self {
        History {
            spec,
            epochs: BTreeMap::from([(Epoch(0), Vec::new())]),
            losses: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            acknowledged_count: 0,
            lost_commits: 0,
            lost_generations: 0,
        }
    }

    pub fn activated(&mut self, epoch: Epoch, loss: Option<Loss>) {
        self.losses.insert(epoch, loss);
    }

    /// Notes that a copy becomes active with this content.
    pub fn mounted(
        &mut self,
        host: HostId,
        epoch: Epoch,
        at: Position,
        lineage: &Lineage,
        pages: &[Page],
    ) -> Result<(), String> {
        let before =
            lineage.epochs().iter().rev().find(|&&(old, _)| old < epoch).map_or(Epoch(0), |&(old, _)| old);
        let past = self.epochs.get(&before).ok_or_else(|| format!("nobody was active in {before:?}"))?;
        let held: Vec<(Position, Record)> = past.iter().copied().filter(|&(end, _)| end <= at).collect();
        let expected = content(&held);
        if expected != pages {
            return Err(format!("{host:?} mounts {epoch:?} at {at} with other content than its lineage has"));
        }
        self.epochs.insert(epoch, held);
        self.judge_loss(epoch, at)
    }

    fn judge_loss(&mut self, epoch: Epoch, at: Position) -> Result<(), String> {
        let held: std::collections::BTreeSet<u32> =
            self.epochs[&epoch].iter().map(|(_, record)| record.id).collect();
        let lost: Vec<(u32, Acknowledged)> = self
            .acknowledged
            .iter()
            .filter(|(id, commit)| !held.contains(id) && commit.epoch < epoch)
            .map(|(&id, &commit)| (id, commit))
            .collect();
        let Some((id, last)) = lost.iter().max_by_key(|(_, commit)| commit.position).copied() else {
            return Ok(());
        };
        let loss = self.losses.get(&epoch).copied().flatten();
        // A record that ends at the start of a generation lies in the one before.
        let last_generation = last.position.generation - u32::from(last.position.offset == 0);
        let generations = last_generation + 1 - at.generation;
        let what = format!(
            "{epoch:?} begins at {at} without {} acknowledged commits, the last of them {id} at {} of {:?}",
            lost.len(),
            last.position,
            last.epoch
        );
        if self.spec.dial == Dial::Lossless {
            return Err(what);
        }
        let Some(loss) = loss else { return Err(format!("{what}; no loss was reported")) };
        if generations > loss.bound_generations || loss.bound_generations > self.spec.loss_bound_generations()
        {
            return Err(format!("{what}: {generations} generations; reported {loss:?}"));
        }
        self.lost_commits += lost.len() as u64;
        self.lost_generations = self.lost_generations.max(generations);
        for (id, _) in lost {
            self.acknowledged.remove(&id);
        }
        Ok(())
    }

    pub fn appended(&mut self, epoch: Epoch, end: Position, record: Record) {
        self.epochs.get_mut(&epoch).expect("mounted before").push((end, record));
    }

    pub fn acknowledged(&mut self, id: u32, epoch: Epoch, position: Position) {
        self.acknowledged.insert(id, Acknowledged { position, epoch });
        self.acknowledged_count += 1;
    }

    /// Contents that every copy must have in the end. Checks that they hold every acknowledged commit that was not
    /// reported as lost.
    pub fn final_content(&self, epoch: Epoch, end: Position) -> Result<Vec<Page>, String> {
        let log: Vec<(Position, Record)> =
            self.epochs[&epoch].iter().copied().filter(|&(at, _)| at <= end).collect();
        let held: std::collections::BTreeSet<u32> = log.iter().map(|(_, record)| record.id).collect();
        if let Some((id, commit)) = self.acknowledged.iter().find(|(id, _)| !held.contains(id)) {
            return Err(format!(
                "acknowledged commit {id} ({commit:?}) is not in the final history of {epoch:?}"
            ));
        }
        Ok(content(&log))
    }
}

fn content(log: &[(Position, Record)]) -> Vec<Page> {
    let mut pages = vec![Page::EMPTY; PAGES as usize];
    for &(end, record) in log {
        pages[record.page as usize].apply(record, end);
    }
    pages
}
