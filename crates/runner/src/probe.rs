//! A probe of real storage: folders that are made for it and removed after it.

use std::path::PathBuf;

use evidence::environment::{check_memory, mounts};
use evidence::folder;
use world::World;
use world::real::RealConfig;

use crate::PreflightError;

/// Creates these folders, calls `main`, which may create `file` of `bytes` in each, and removes all.
///
/// # Errors
/// A folder cannot be made, or is not one of ours, or lies in memory, or has no space. Inside: the storage refuses
/// something.
pub fn in_folders<T, F: Future<Output = world::Result<T>>>(
    folders: &[PathBuf],
    file: &str,
    bytes: u64,
    main: impl FnOnce(World, Vec<String>) -> F,
) -> Result<world::Result<T>, PreflightError> {
    folders.iter().try_for_each(|folder| folder::check(folder))?;
    let mounts = mounts::of_this_process();
    let absolute = |folder: &PathBuf| std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
    let folders: Vec<PathBuf> = folders.iter().map(absolute).collect();
    check_memory(&mounts, &folders)?;
    let needed: Vec<(PathBuf, u64)> = folders.iter().map(|folder| (folder.clone(), bytes)).collect();
    mounts::check_space(&mounts, &needed)?;
    let take = |folder: &PathBuf| folder::take(folder, "probe", &[file.to_owned()]);
    let locks: Vec<_> = folders.iter().map(take).collect::<Result<_, _>>()?;
    let names = folders.iter().map(|folder| folder.to_string_lossy().into_owned()).collect();
    let outcome = world::real::run(RealConfig::new("probe"), |world| main(world, names));
    drop(locks);
    folders.iter().try_for_each(|folder| folder::clean(folder, false).map(|_| ()))?;
    Ok(outcome.and_then(|outcome| outcome))
}
