//! Every operation of the engine's interface that a caller can let go of, and that can fail.

use std::pin::pin;

use engine::{
    Counters, Durability, Error, MaintenanceConfig, Progress, Result, StopSignal, check_database, check_logs,
    truncate_log,
};
use futures_util::future::{join, select};
use world::Duration;

use super::PAGE_BYTES;
use super::model::Change;
use super::stage::{COPY, Ground, ROWS, STREAM, Stage, change, row};

/// The names once, for the enum and for the list of all of them.
macro_rules! operations {
    ($($name:ident)*) => {
        /// An operation, or a few that belong together.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Operation {
            $($name,)*
        }

        impl Operation {
            pub const ALL: &[Operation] = &[$(Operation::$name,)*];
        }
    };
}

operations! {
    Read Insert Replace Delete Split Merge Extend LongValue CommitLazy RollBack LeaveOpen
    SystemChange Roll FlushLog Checkpoint BackUp Copy Maintain Replicate CopyPage CopyStretch
    ReadLog Leave Abandon Close OpenNew Open Recover Restore CheckDatabase CheckLogs StoreLog Replay
    SaveCheckpoint GivePages CopyPassivePage DropLogs CutBack Rejoin Activate
}

impl Operation {
    /// Where it begins.
    pub fn ground(self) -> Ground {
        use Operation::*;
        match self {
            OpenNew => Ground::New,
            Open | CheckDatabase => Ground::Closed,
            Recover | CheckLogs => Ground::Crashed,
            Restore => Ground::Restored,
            StoreLog | Replay | GivePages | CutBack | Rejoin | Activate => Ground::Passive,
            SaveCheckpoint | CopyPassivePage | DropLogs => Ground::Replayed,
            _ => Ground::Open,
        }
    }

    /// Rows that the operation changes in one transaction; `None` if it is another kind of operation.
    fn changes(self) -> Option<Vec<Change>> {
        let long =
            |db: u8, number: u32, n: u32| ((db, number, n.to_be_bytes().to_vec()), Some(vec![n as u8; 1500]));
        Some(match self {
            Operation::Insert => vec![row(500, 5)],
            Operation::Replace => vec![row(7, 6)],
            Operation::Delete => vec![(row(8, 0).0, None)],
            Operation::Split => (500..520).map(|n| row(n, 5)).collect(),
            Operation::Merge => (10..70).map(|n| (row(n, 0).0, None)).collect(),
            Operation::Extend => (0..24).map(|n| long(1, 1, n)).collect(),
            Operation::LongValue => (0..4).map(|n| long(2, 0, n)).collect(),
            Operation::CommitLazy => vec![row(9, 8), long(2, 1, 3)],
            _ => return None,
        })
    }

    /// Performs the operation on the ground where it begins.
    pub async fn perform(self, stage: &mut Stage) -> Result<()> {
        if let Some(changes) = self.changes() {
            let lazy = self == Operation::CommitLazy;
            return stage.transact(changes, if lazy { Durability::Lazy } else { Durability::Durable }).await;
        }
        match self.ground() {
            Ground::Open => self.perform_on_instance(stage).await,
            Ground::Passive | Ground::Replayed => self.perform_on_copy(stage).await,
            _ => self.perform_on_files(stage).await,
        }
    }

    async fn perform_on_instance(self, stage: &mut Stage) -> Result<()> {
        let (progress, stop) = (Progress::default(), StopSignal::new());
        match self {
            Operation::Read => {
                let transaction = stage.instance().begin();
                for n in (0..ROWS).step_by(9) {
                    transaction.get(1, super::tree_number(0), &n.to_be_bytes()).await?;
                }
                Ok(())
            }
            Operation::RollBack => {
                let mut transaction = stage.instance().begin();
                for n in (0..70u32).step_by(7) {
                    change(&mut transaction, 1, 0, &n.to_be_bytes(), Some(&[3; 300])).await?;
                    change(&mut transaction, 2, 0, &n.to_be_bytes(), Some(&[3; 30])).await?;
                }
                match change(&mut transaction, 1, 0, &8u32.to_be_bytes(), None).await {
                    Err(Error::NotFound) => {}
                    done => done?,
                }
                transaction.rollback().await
            }
            Operation::LeaveOpen => {
                if let Some(open) = stage.transaction.take() {
                    open.rollback().await?;
                }
                let mut transaction = stage.instance().begin();
                for n in 70..ROWS {
                    change(&mut transaction, 1, 0, &n.to_be_bytes(), Some(&[3; 300])).await?;
                }
                stage.transaction = Some(transaction);
                Ok(())
            }
            Operation::SystemChange => {
                stage.instance().change(1, |_| Ok((btree::MiniTransaction::default(), ()))).await
            }
            Operation::Roll => {
                let rolls = stage.instance().log_rolls() + 1;
                stage.commit_until(rolls, 600, 9).await
            }
            Operation::FlushLog => {
                stage.transact(vec![row(9, 8)], Durability::Lazy).await?;
                stage.instance().flush_log().await
            }
            Operation::Checkpoint => {
                stage.transact(vec![row(9, 8)], Durability::Lazy).await?;
                stage.world.sleep(Duration::from_secs(3)).await;
                stage.instance().check()
            }
            Operation::BackUp => stage.instance().back_up(1, STREAM, None, &progress, &stop).await.map(drop),
            Operation::Copy => {
                let copy = Some(COPY);
                stage.instance().back_up(1, STREAM, copy, &progress, &stop).await.map(drop)
            }
            _ => self.perform_for_copies(stage, &stop).await,
        }
    }

    async fn perform_for_copies(self, stage: &mut Stage, stop: &StopSignal) -> Result<()> {
        match self {
            Operation::Maintain => {
                let config = MaintenanceConfig { read_bytes: 16 * PAGE_BYTES as u64, ..Default::default() };
                let maintained = pin!(stage.instance().maintain(1, &config, stop));
                let paused = pin!(stage.world.sleep(Duration::from_millis(700)));
                match select(maintained, paused).await {
                    futures_util::future::Either::Left((done, _)) => done.map(drop),
                    futures_util::future::Either::Right(_) => Ok(()),
                }
            }
            Operation::Replicate => {
                let instance = stage.instance.take().expect("the ground has an instance");
                let shipped = instance.replicate(2, stop);
                let worked = async {
                    for n in 0..40u32 {
                        let mut transaction = instance.begin();
                        change(&mut transaction, 2, 0, &n.to_be_bytes(), Some(&[1; 800])).await?;
                        transaction.rollback().await?;
                    }
                    instance.flush_log().await
                };
                let ended = async {
                    let worked = worked.await;
                    stop.stop();
                    worked
                };
                let (shipped, worked) = join(shipped, ended).await;
                stage.instance = Some(instance);
                shipped?;
                worked
            }
            Operation::CopyPage => {
                stage.transact(vec![row(7, 6)], Durability::Lazy).await?;
                for pgno in 1..8 {
                    stage.instance().copy_page(1, pgno).await?;
                }
                Ok(())
            }
            Operation::CopyStretch => {
                let begin = stage.instance().durable_log();
                stage.instance().copy_stretch(1, 0, begin).await.map(drop)
            }
            Operation::ReadLog => {
                stage.transact(vec![row(7, 6)], Durability::Durable).await?;
                let (instance, until) = (stage.instance(), stage.instance().durable_log());
                let from = engine::LogPosition::new(until.generation(), 0, 0);
                instance.read_log(from, until).await.map(drop)
            }
            _ => self.perform_end(stage).await,
        }
    }

    async fn perform_end(self, stage: &mut Stage) -> Result<()> {
        let changes = (30..40).map(|n| row(n, 5)).collect();
        stage.transact(changes, Durability::Durable).await?;
        let instance = stage.instance.take().expect("the ground has an instance");
        match self {
            Operation::Leave => instance.leave_for_recovery().await,
            Operation::Abandon => {
                instance.abandon().await;
                Ok(())
            }
            _ => instance.close().await,
        }
    }

    async fn perform_on_files(self, stage: &mut Stage) -> Result<()> {
        let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
        match self {
            Operation::CheckDatabase => {
                let (world, path) = (&stage.world, &stage.config.databases[0].path);
                check_database(world, path, PAGE_BYTES, None, STREAM, &counters, &progress, &stop)
                    .await
                    .map(drop)
            }
            Operation::CheckLogs => {
                check_logs(&stage.world, &stage.config, 100, &counters, &stop).await.map(drop)
            }
            _ => stage.open().await,
        }
    }

    async fn perform_on_copy(self, stage: &mut Stage) -> Result<()> {
        match self {
            Operation::StoreLog => {
                while stage.store_next().await? {}
                Ok(())
            }
            Operation::Replay => stage.follow().await,
            Operation::SaveCheckpoint => {
                stage.standby.as_mut().expect("the ground has a standby").save_checkpoint().await?;
                stage.store_next().await?;
                stage.follow().await?;
                stage.standby.as_mut().expect("the ground has a standby").save_checkpoint().await.map(drop)
            }
            Operation::CopyPassivePage => {
                let standby = stage.standby.as_mut().expect("the ground has a standby");
                for pgno in 1..10 {
                    standby.copy_page(1, pgno).await?;
                }
                Ok(())
            }
            Operation::GivePages => {
                let standby = stage.standby.as_mut().expect("the ground has a standby");
                for pgno in [4, 5, 6] {
                    let page = standby.copy_page(1, pgno).await?;
                    standby.give_pages(1, &[(pgno, &page)]).await?;
                }
                Ok(())
            }
            Operation::DropLogs => {
                stage.store_next().await?;
                stage.follow().await?;
                let standby = stage.standby.as_mut().expect("the ground has a standby");
                let at = standby.save_checkpoint().await?;
                stage.store.as_mut().expect("the ground has a log store").drop_below(at.generation()).await
            }
            Operation::CutBack => {
                stage.standby.take().expect("the ground has a standby").abandon().await;
                let store = stage.store.as_mut().expect("the ground has a log store");
                let (_, end) = store.extent().expect("there is log");
                truncate_log(&stage.world, &stage.config, store, end).await
            }
            Operation::Rejoin => {
                stage.standby.take().expect("the ground has a standby").abandon().await;
                stage.store = None;
                stage.reopen(Ground::Passive).await
            }
            Operation::Activate => stage.take_over().await,
            other => Err(Error::Refused(format!("{other:?} is not about a passive copy"))),
        }
    }
}
