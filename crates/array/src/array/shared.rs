//! An array that several worlds drive, and that tells between two steps how far its background work is.

use std::cell::RefCell;
use std::rc::Rc;

use world::Time;
use world::sim::{FileId, RequestId, StorageFailure, StorageModel, StorageRequest, VolumeId};

use super::{Array, RebuildStatus};
use crate::hardware::Event;
use crate::report::DeviceReport;

/// Array model shared by several owners, such as the simulation that drives it and observers of its progress. Clones
/// share the array.
#[derive(Clone)]
pub struct SharedArray(Rc<RefCell<Array>>);

impl SharedArray {
    /// Shares an array.
    pub fn new(array: Array) -> SharedArray {
        SharedArray(Rc::new(RefCell::new(array)))
    }

    /// See [`Array::schedule`].
    pub fn schedule(&self, at: Time, event: Event) {
        self.0.borrow_mut().schedule(at, event);
    }

    /// See [`Array::report`].
    pub fn report(&self, now: Time) -> DeviceReport {
        self.0.borrow_mut().report(now)
    }

    /// See [`Array::rebuild`]. Time moves on to `now` first.
    pub fn rebuild(&self, now: Time, drive: usize) -> Option<RebuildStatus> {
        let mut array = self.0.borrow_mut();
        array.advance(now.ns);
        array.rebuild(drive)
    }

    /// See [`Array::recopying`]. Time moves on to `now` first.
    pub fn recopying(&self, now: Time, store: usize, node: usize) -> Option<RebuildStatus> {
        let mut array = self.0.borrow_mut();
        array.advance(now.ns);
        array.recopying(store, node)
    }

    /// See [`Array::rebalance`]. Time moves on to `now` first.
    pub fn rebalance(&self, now: Time, group: usize) -> Option<RebuildStatus> {
        let mut array = self.0.borrow_mut();
        array.advance(now.ns);
        array.rebalance(group)
    }

    /// See [`Array::resync`]. Time moves on to `now` first.
    pub fn resync(&self, now: Time, remote_copy: usize) -> Option<RebuildStatus> {
        let mut array = self.0.borrow_mut();
        array.advance(now.ns);
        array.resync(remote_copy)
    }

    /// See [`Array::clone_read`]. Time moves on to `now` first.
    pub fn clone_read(&self, now: Time, pool: usize) -> Option<(RebuildStatus, u64)> {
        let mut array = self.0.borrow_mut();
        array.advance(now.ns);
        array.clone_read(pool)
    }

    /// See [`Array::reset_statistics`].
    pub fn reset_statistics(&self, now: Time) {
        self.0.borrow_mut().reset_statistics(now);
    }
}

impl StorageModel for SharedArray {
    fn attach(&mut self, volume: VolumeId, host: &str, path: &str) {
        self.0.borrow_mut().attach(volume, host, path);
    }
    fn set_file_size(&mut self, volume: VolumeId, file: FileId, bytes: u64) {
        self.0.borrow_mut().set_file_size(volume, file, bytes);
    }
    fn fill_file(&mut self, volume: VolumeId, file: FileId) {
        self.0.borrow_mut().fill_file(volume, file);
    }
    fn submit(&mut self, now: Time, request: StorageRequest) {
        self.0.borrow_mut().submit(now, request);
    }
    fn next_completion(&self) -> Option<Time> {
        self.0.borrow().next_completion()
    }
    fn run_ahead(&mut self, until: Option<Time>) -> Option<Time> {
        self.0.borrow_mut().run_ahead(until)
    }
    fn take_completions(&mut self, now: Time, completed: &mut Vec<RequestId>) {
        self.0.borrow_mut().take_completions(now, completed);
    }
    fn take_failure(&mut self, request: RequestId) -> Option<StorageFailure> {
        self.0.borrow_mut().take_failure(request)
    }
}
