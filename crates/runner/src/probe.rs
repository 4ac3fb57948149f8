//! A probe of real storage: a folder that is made for it and removed after it.

use std::path::{Path, PathBuf};

use evidence::environment::{check_memory, mounts};
use evidence::folder;
use world::World;
use world::real::RealConfig;

use crate::PreflightError;

/// Creates the folder `folder`, calls `main`, which may create `file` of `bytes` in it, and removes both.
///
/// # Errors
/// The folder cannot be made, or is not one of ours, or lies in memory, or has no space. Inside: the storage refuses
/// something.
pub fn in_folder<T, F: Future<Output = world::Result<T>>>(
    folder: &Path,
    file: &str,
    bytes: u64,
    main: impl FnOnce(World, String) -> F,
) -> Result<world::Result<T>, PreflightError> {
    folder::check(folder)?;
    let mounts = mounts::of_this_process();
    let folder: PathBuf = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    check_memory(&mounts, std::slice::from_ref(&folder))?;
    mounts::check_space(&mounts, &[(folder.clone(), bytes)])?;
    let lock = folder::take(&folder, "probe", &[file.to_owned()])?;
    let name = folder.to_string_lossy().into_owned();
    let outcome = world::real::run(RealConfig::new("probe"), |world| main(world, name));
    drop(lock);
    folder::clean(&folder, false)?;
    Ok(outcome.and_then(|outcome| outcome))
}
