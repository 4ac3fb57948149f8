//! The arbiter, running: its record of each database is a file of its own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::StreamExt;
use replication::{
    Arbiter, ArbiterEffect, ArbiterEvent, ArbiterInput, DatabaseId, DatabaseSpec, FromArbiter, HostId,
    Record, ToArbiter, WhyDismounted,
};
use world::channel::{UnboundedSender, unbounded};
use world::{Duration, World};

use crate::Result;
use crate::wire::{load_record, save_record};

/// Callback that sends an arbiter message to the copy of a database on a host.
pub type ToCopy = Rc<dyn Fn(HostId, DatabaseId, FromArbiter)>;

struct Driver {
    world: World,
    arbiter: RefCell<Arbiter>,
    to_copy: ToCopy,
    records: UnboundedSender<(u64, DatabaseId, Record)>,
    events: RefCell<Vec<(u64, DatabaseId, ArbiterEvent)>>,
    stopped: Cell<bool>,
}

/// Arbiter of all databases, with its records on disk. Dropping it stops it as a crash would.
pub struct ArbiterHost(Rc<Driver>);

impl ArbiterHost {
    /// Starts the arbiter with the records in `folder`; a database without a record is new.
    ///
    /// # Errors
    /// Failed I/O, or a record that is damaged.
    pub async fn start(
        world: &World,
        folder: &str,
        specs: &[Rc<DatabaseSpec>],
        tick: Duration,
        to_copy: ToCopy,
    ) -> Result<ArbiterHost> {
        let mut databases = Vec::new();
        for spec in specs {
            let record = load_record(world, folder, &file_name(spec.id)).await?;
            databases.push((spec.clone(), record.unwrap_or_else(|| Record::first(spec))));
        }
        let (records, mut queue) = unbounded();
        let driver = Rc::new(Driver {
            world: world.clone(),
            arbiter: RefCell::new(Arbiter::new(databases, None, world.boot_time().ns / 1_000_000)),
            to_copy,
            records,
            events: RefCell::default(),
            stopped: Cell::new(false),
        });
        let (keeper, folder) = (driver.clone(), folder.to_owned());
        drop(world.spawn(async move {
            while let Some((ticket, database, record)) = queue.next().await {
                let saved = save_record(&keeper.world, &folder, &file_name(database), &record).await;
                if keeper.stopped.get() || saved.is_err() {
                    // An arbiter that cannot keep its record gives no leases.
                    keeper.stopped.set(true);
                    return;
                }
                keeper.input(ArbiterInput::Persisted { ticket });
            }
        }));
        let ticker = driver.clone();
        drop(world.spawn(async move {
            while !ticker.stopped.get() {
                ticker.input(ArbiterInput::Tick);
                ticker.world.sleep(tick).await;
            }
        }));
        Ok(ArbiterHost(driver))
    }

    /// Handles a message from a copy.
    pub fn receive(&self, message: ToArbiter) {
        self.0.input(ArbiterInput::Message(message));
    }

    /// Asks the arbiter to move the active copy of a database to `target` without loss.
    pub fn move_to(&self, database: DatabaseId, target: HostId) {
        self.0.input(ArbiterInput::Move { database, target });
    }

    /// Reason why a database is not mounted, if the arbiter knows one.
    pub fn why_dismounted(&self, database: DatabaseId) -> Option<WhyDismounted> {
        self.0.arbiter.borrow().why_dismounted(database)
    }

    /// Whether the arbiter has stopped because it could not store a record.
    pub fn has_stopped(&self) -> bool {
        self.0.stopped.get()
    }

    /// Returns the arbiter's events since the last call, each with its time in ms.
    pub fn take_events(&self) -> Vec<(u64, DatabaseId, ArbiterEvent)> {
        self.0.events.take()
    }
}

impl Drop for ArbiterHost {
    fn drop(&mut self) {
        self.0.stopped.set(true);
        self.0.records.close_channel();
    }
}

impl Driver {
    fn input(&self, input: ArbiterInput) {
        if self.stopped.get() {
            return;
        }
        let now_ms = self.world.boot_time().ns / 1_000_000;
        let mut effects = Vec::new();
        self.arbiter.borrow_mut().handle(now_ms, input, &mut effects);
        for effect in effects {
            match effect {
                ArbiterEffect::ToCopy { host, database, message } => (self.to_copy)(host, database, message),
                ArbiterEffect::Persist { ticket, database, record } => {
                    // After the end no task listens any more.
                    let _ = self.records.unbounded_send((ticket, database, record));
                }
                ArbiterEffect::Event(database, event) => {
                    self.events.borrow_mut().push((now_ms, database, event));
                }
            }
        }
    }
}

fn file_name(database: DatabaseId) -> String {
    format!("arbiter-{}.record", database.0)
}
