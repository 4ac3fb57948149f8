//! Reads, writes and syncs under way: from issue, through the storage model, to completion.
//!
//! Invariants
//! 1. A request completes whether or not a task still waits for it; only a power cut of its host ends it.
//! 2. A write shows to reads from its completion, not from its issue.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::disk::{Dir, FULL, FileNode, Resize};
use super::fault::FaultKind;
use super::storage::{FileId, RequestId, StorageFailure, StorageOp, StorageRequest, VolumeId};
use super::{Core, HostId};
use crate::{Bufs, Error, ErrorKind, Result, Time};

/// Kind and data of a request.
pub(super) enum RequestKind {
    Read { file: Rc<FileNode>, offset: u64 },
    Write { file: Rc<FileNode>, offset: u64 },
    Sync { file: Rc<FileNode>, mark: u64 },
    SyncDir { dir: Rc<Dir>, mark: u64 },
}

impl RequestKind {
    /// Request as the storage model sees it: volume and file, operation, offset.
    fn place(&self) -> (VolumeId, FileId, StorageOp, u64) {
        match self {
            RequestKind::Read { file, offset } => (file.volume.id, file.id, StorageOp::Read, *offset),
            RequestKind::Write { file, offset } => (file.volume.id, file.id, StorageOp::Write, *offset),
            RequestKind::Sync { file, .. } => (file.volume.id, file.id, StorageOp::Sync, 0),
            RequestKind::SyncDir { dir, .. } => (dir.volume.id, dir.id, StorageOp::Sync, 0),
        }
    }
}

enum RequestState {
    UnderWay { job: RequestKind, fault: Option<FaultKind>, waker: Option<Waker>, abandoned: bool },
    Done(std::result::Result<(), Failure>),
}

/// Failure of a request; the waiting side turns it into an error.
pub(super) type Failure = (ErrorKind, &'static str);

const STORAGE_LOST: Failure = (ErrorKind::Io, "the storage has lost the data, or the way to them");
const STORAGE_FULL: Failure = (ErrorKind::NoSpace, "the storage behind the volume is full");

struct Request {
    host: HostId,
    /// Number of the request, in order of issue.
    number: u64,
    bufs: Bufs,
    state: RequestState,
}

/// Requests of a simulation, by slot.
#[derive(Default)]
pub(super) struct Requests {
    slots: Vec<(u32, Option<Request>)>,
    free: Vec<u32>,
    next_number: u64,
}

impl Requests {
    fn add(&mut self, host: HostId, job: RequestKind, bufs: Bufs, fault: Option<FaultKind>) -> RequestId {
        let number = self.next_number;
        self.next_number += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let entry = &mut self.slots[slot as usize];
        let state = RequestState::UnderWay { job, fault, waker: None, abandoned: false };
        entry.1 = Some(Request { host, number, bufs, state });
        RequestId(u64::from(entry.0) << 32 | u64::from(slot))
    }

    fn get(&mut self, id: RequestId) -> Option<&mut Request> {
        let (generation, request) = self.slots.get_mut(id.0 as u32 as usize)?;
        if u64::from(*generation) == id.0 >> 32 { request.as_mut() } else { None }
    }

    fn remove(&mut self, id: RequestId) -> Option<Request> {
        self.get(id)?;
        let request = self.slots[id.0 as u32 as usize].1.take();
        self.forget(id);
        request
    }

    /// Removes an existing request and frees its slot.
    fn forget(&mut self, id: RequestId) {
        let slot = id.0 as u32;
        let entry = &mut self.slots[slot as usize];
        *entry = (entry.0 + 1, None);
        self.free.push(slot);
    }

    /// Ends all requests of a host. Returns its writes in flight, in order of issue.
    pub fn take_of(&mut self, host: HostId) -> Vec<(Rc<FileNode>, u64, Bufs)> {
        let mut cut = Vec::new();
        for slot in 0..self.slots.len() {
            let (generation, request) = &self.slots[slot];
            if request.as_ref().is_some_and(|request| request.host == host) {
                let id = RequestId(u64::from(*generation) << 32 | slot as u64);
                cut.extend(self.remove(id));
            }
        }
        cut.sort_by_key(|request| request.number);
        let writes = cut.into_iter().filter_map(|request| match request.state {
            RequestState::UnderWay { job: RequestKind::Write { file, offset }, .. } => {
                Some((file, offset, request.bufs))
            }
            _ => None,
        });
        writes.collect()
    }
}

impl Core {
    /// Submits a request of a host, of one of its lanes if it names it, to the storage. `bytes`: length of `bufs`.
    pub fn submit(
        &self,
        (host, lane): (HostId, Option<u32>),
        job: RequestKind,
        bufs: Bufs,
        bytes: u64,
        fault: Option<FaultKind>,
    ) -> RequestId {
        let (volume, file, op, offset) = job.place();
        let id = self.requests.borrow_mut().add(host, job, bufs, fault);
        let mut model = self.model.borrow_mut();
        for Resize { volume, file, bytes, is_filled } in self.numbers.resized.borrow_mut().drain(..) {
            model.set_file_size(volume, file, bytes);
            if is_filled {
                model.fill_file(volume, file);
            }
        }
        model.submit(self.executor.now(), StorageRequest { id, lane, volume, file, op, offset, bytes });
        id
    }

    /// Whether the storage may have completed something by now.
    pub fn is_completion_due(&self) -> bool {
        self.model.borrow().next_completion().is_some_and(|at| at <= self.executor.now())
    }

    /// Earliest time at which the storage may complete something; no task runs before that, nor before `until`.
    pub fn next_completion(&self, until: Option<Time>) -> Option<Time> {
        self.model.borrow_mut().run_ahead(until)
    }

    /// Completes the requests that the storage reports as complete.
    pub fn complete_due_requests(&self) {
        let mut completed = self.completed.take();
        self.model.borrow_mut().take_completions(self.executor.now(), &mut completed);
        for id in completed.drain(..) {
            let failure = self.model.borrow_mut().take_failure(id);
            self.complete(id, failure);
        }
        self.completed.replace(completed);
    }

    fn complete(&self, id: RequestId, failure: Option<StorageFailure>) {
        // The effect of a request issues no other one, so the slab may stay borrowed.
        let mut requests = self.requests.borrow_mut();
        let Some(request) = requests.get(id) else { return };
        let unknown = RequestState::Done(Ok(()));
        let RequestState::UnderWay { job, fault, waker, abandoned } =
            std::mem::replace(&mut request.state, unknown)
        else {
            unreachable!("a storage model completed a request twice")
        };
        request.state = RequestState::Done(match failure {
            None => self.perform(&job, &mut request.bufs, fault),
            Some(StorageFailure::Lost) => Err(STORAGE_LOST),
            Some(StorageFailure::NoSpace) => Err(STORAGE_FULL),
        });
        let finished = if abandoned { requests.remove(id) } else { None };
        drop(requests);
        drop(finished);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Performs the effect of a request, or of its fault.
    pub fn perform(
        &self,
        job: &RequestKind,
        bufs: &mut Bufs,
        fault: Option<FaultKind>,
    ) -> std::result::Result<(), Failure> {
        let io_error = (ErrorKind::Io, "injected I/O error");
        match job {
            RequestKind::Read { file, offset } => {
                let bytes: u64 = bufs.iter().map(|buf| buf.len() as u64).sum();
                if let Some(kind @ (FaultKind::ReadError | FaultKind::ShortRead)) = fault {
                    self.count(kind);
                    let short = kind == FaultKind::ShortRead;
                    return Err(if short {
                        (ErrorKind::ShortRead, "the read ended early")
                    } else {
                        io_error
                    });
                }
                let mut contents = file.contents.borrow_mut();
                if offset + bytes > contents.size() {
                    return Err((ErrorKind::ShortRead, "the file ends before"));
                }
                if fault == Some(FaultKind::BitRot) {
                    let bit = self.random_below(bytes * 8);
                    contents.flip_bit(offset + bit / 8, (bit % 8) as u32);
                    self.lie(FaultKind::BitRot, file.id, offset + bit / 8, 0);
                }
                contents.read(*offset, bufs);
                Ok(())
            }
            RequestKind::Write { file, offset } => self.perform_write(file, *offset, bufs, fault),
            RequestKind::Sync { file, mark } => {
                match fault {
                    Some(FaultKind::SyncError) => {
                        self.count(FaultKind::SyncError);
                        self.with_dice(|dice| file.contents.borrow_mut().fail_sync(*mark, dice));
                        return Err(io_error);
                    }
                    Some(_) => self.lie(FaultKind::DroppedSync, file.id, 0, 0),
                    None => file.contents.borrow_mut().sync(*mark),
                }
                Ok(())
            }
            RequestKind::SyncDir { dir, mark } => {
                let disk = self.disk_of(dir.volume.id);
                match fault {
                    Some(FaultKind::SyncError) => {
                        self.count(FaultKind::SyncError);
                        self.with_dice(|dice| disk.fail_sync_dir(dir, *mark, dice));
                        return Err(io_error);
                    }
                    Some(_) => self.lie(FaultKind::DroppedSync, dir.id, 0, 0),
                    None => disk.sync_dir(dir, *mark),
                }
                Ok(())
            }
        }
    }

    fn perform_write(
        &self,
        file: &FileNode,
        offset: u64,
        bufs: &mut Bufs,
        fault: Option<FaultKind>,
    ) -> std::result::Result<(), Failure> {
        let mut contents = file.contents.borrow_mut();
        let bytes: u64 = bufs.iter().map(|buf| buf.len() as u64).sum();
        if fault == Some(FaultKind::NoSpace) {
            self.count(FaultKind::NoSpace);
            return Err(FULL);
        }
        if !file.charge(contents.size().max(offset + bytes)) {
            return Err(FULL);
        }
        let change = contents.write_change(offset, bufs);
        match fault {
            None => contents.apply(change),
            Some(FaultKind::LostWrite) => {
                self.lie(FaultKind::LostWrite, file.id, offset, bytes);
                contents.apply(change.without_data());
            }
            Some(FaultKind::MisdirectedWrite) => {
                let step = contents.unit_bytes().max(bufs[0].len() as u64);
                let places = (contents.size().max(offset + bytes) - bytes) / step + 1;
                let place = self.random_below(places) * step;
                if place == offset {
                    contents.apply(change);
                } else {
                    self.lie(FaultKind::MisdirectedWrite, file.id, offset, bytes);
                    contents.apply(change.without_data());
                    let astray = contents.write_change(place, bufs);
                    contents.apply(astray);
                }
            }
            Some(FaultKind::ShortWrite) => {
                self.count(FaultKind::ShortWrite);
                let outcome = self.with_dice(|dice| dice.outcome_of_short_write(bytes));
                contents.apply_failed_write(change, &outcome);
                return Err((ErrorKind::ShortWrite, "the write ended early"));
            }
            Some(kind) => {
                self.count(kind);
                let outcome = self.with_dice(|dice| dice.outcome_of_failed_write(bytes));
                contents.apply_failed_write(change, &outcome);
                return Err((ErrorKind::Io, "injected I/O error"));
            }
        }
        Ok(())
    }
}

/// Future of a request's result. Dropping it lets the request go on.
pub(super) struct Pending {
    core: Rc<Core>,
    /// Slot of the request; `None` once its result was taken.
    id: Option<RequestId>,
}

impl Pending {
    pub fn new(core: Rc<Core>, id: RequestId) -> Pending {
        Pending { core, id: Some(id) }
    }
}

impl Future for Pending {
    type Output = (std::result::Result<(), Failure>, Bufs);
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Pending { core, id: awaited } = self.get_mut();
        let Some(id) = *awaited else { return Poll::Pending };
        let mut requests = core.requests.borrow_mut();
        // A request that is gone was ended by a power cut: no task will hear of it.
        let Some(request) = requests.get(id) else { return Poll::Pending };
        match &mut request.state {
            RequestState::UnderWay { waker: Some(waker), .. } => waker.clone_from(cx.waker()),
            RequestState::UnderWay { waker, .. } => *waker = Some(cx.waker().clone()),
            RequestState::Done(result) => {
                let outcome = (*result, std::mem::take(&mut request.bufs));
                requests.forget(id);
                *awaited = None;
                return Poll::Ready(outcome);
            }
        }
        Poll::Pending
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut requests = self.core.requests.borrow_mut();
        let finished = match requests.get(id).map(|request| &mut request.state) {
            Some(RequestState::UnderWay { waker, abandoned, .. }) => {
                *abandoned = true;
                *waker = None;
                None
            }
            Some(RequestState::Done(_)) => requests.remove(id),
            None => None,
        };
        drop(requests);
        drop(finished);
    }
}

/// Builds the error for a failure.
pub(super) fn explain<T>(
    result: std::result::Result<T, Failure>,
    path: &str,
    operation: impl FnOnce() -> String,
) -> Result<T> {
    result.map_err(|(kind, reason)| Error {
        kind,
        operation: operation(),
        path: path.into(),
        reason: reason.into(),
    })
}
