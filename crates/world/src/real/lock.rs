//! Locks of what several threads share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The data behind our locks is whole after every statement, so a panic elsewhere does not spoil it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
