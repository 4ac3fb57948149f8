//! Creating a database from a template.
//!
//! Invariants
//! 1. Only a file that does not exist is created; nothing is overwritten.
//! 2. When it returns, contents, size and name are durable.

use std::rc::Rc;

use futures_util::future::join_all;
use results::IoClass;
use world::{CONTIGUOUS_BYTES_MAX, OpenMode, PageBuf, PageCodec, TemplatePages, World};

use crate::error::{Error, Result};
use crate::io::{Counters, IoFile};
use crate::pieces::{PieceQueue, Progress};
use crate::signal::StopSignal;

/// Size of a write, bytes; large enough for the sequential speed of any device.
const WRITE_BYTES: u64 = 1 << 20;
/// Number of writes at a time.
const DEPTH: usize = 8;

/// Writes the template to the new file `path`, or passes it to a storage that serves it without writes.
///
/// # Errors
/// If the file exists, cannot be written, or the stop came (what was written is removed then).
pub async fn create_database(
    world: &World,
    path: &str,
    template: Rc<dyn TemplatePages>,
    codec: Rc<dyn PageCodec>,
    counters: &Counters,
    progress: &Progress,
    stop: &StopSignal,
) -> Result<()> {
    let file = IoFile::open(world, path, OpenMode::CreateNew, counters).await?;
    let bytes = template.pages() * template.page_bytes() as u64;
    progress.begin(bytes);
    if file.file().adopt_template(template.clone(), codec).await? {
        progress.add(bytes);
    } else if let Err(error) = write_template(&file, &*template, progress, stop).await {
        // Half a database is of no use; the first error is the one to report.
        let _ = world.remove(path).await;
        return Err(error);
    }
    file.sync().await?;
    world.sync_dir(directory_of(path)).await?;
    Ok(())
}

async fn write_template(
    file: &IoFile,
    template: &dyn TemplatePages,
    progress: &Progress,
    stop: &StopSignal,
) -> Result<()> {
    let end = template.pages() * template.page_bytes() as u64;
    let queue = PieceQueue::new(end, WRITE_BYTES);
    let writer = || async {
        while let Some((offset, bytes)) = queue.take() {
            if stop.is_stopped() {
                return Err(Error::Refused("the creation was stopped".to_owned()));
            }
            let starts = (offset..offset + bytes).step_by(CONTIGUOUS_BYTES_MAX);
            let pieces = starts.map(|at| {
                let len = (CONTIGUOUS_BYTES_MAX as u64).min(offset + bytes - at);
                stretch_of(template, at, len as usize)
            });
            file.write(IoClass::InitWrite, offset, pieces.collect()).await?;
            progress.add(bytes);
        }
        Ok(())
    };
    join_all((0..DEPTH).map(|_| writer())).await.into_iter().collect()
}

/// Pages of the template from `offset` on.
fn stretch_of(template: &dyn TemplatePages, offset: u64, len: usize) -> PageBuf {
    let first = offset / template.page_bytes() as u64;
    let made = PageBuf::written_by(len, |piece| {
        let pages = piece.chunks_exact_mut(template.page_bytes());
        (first..).zip(pages).for_each(|(index, page)| template.fill(index, page));
        true
    });
    made.expect("it was written")
}

/// Directory of a path.
pub(crate) fn directory_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((directory, _)) => directory,
        None => ".",
    }
}
