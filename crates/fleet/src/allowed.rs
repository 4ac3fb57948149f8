//! The folders that the runs of an agent may write to.

use std::path::{Path, PathBuf};

/// Folder that a run would write to although it lies below none of `allowed`; `None` if there is none, or if `allowed`
/// is empty. Follows links first.
pub fn beyond<'a>(allowed: &[PathBuf], folders: impl Iterator<Item = &'a Path>) -> Option<&'a Path> {
    if allowed.is_empty() {
        return None;
    }
    let real = |path: &Path| {
        let there = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
        there.map(|(above, real)| real.join(path.strip_prefix(above).unwrap_or(Path::new(""))))
    };
    let allowed: Vec<PathBuf> = allowed.iter().filter_map(|folder| real(folder)).collect();
    let mut folders = folders;
    folders.find(|folder| {
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| (*folder).to_owned());
        !real(&absolute).is_some_and(|real| allowed.iter().any(|allowed| real.starts_with(allowed)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_writes_only_below_the_folders_that_it_was_given() {
        let root = tempfile::tempdir().expect("a folder");
        let path = |name: &str| root.path().join(name);
        for name in ["allowed", "other"] {
            std::fs::create_dir(path(name)).expect("a new folder");
        }
        std::os::unix::fs::symlink(path("other"), path("allowed/link")).expect("a link");
        let allows = |folder: &str| {
            let folder = path(folder);
            beyond(&[path("allowed")], [folder.as_path()].into_iter()).is_none()
        };
        assert!(allows("allowed") && allows("allowed/new/v1"));
        for folder in ["other", "allowed2", "allowed/link/v1", "."] {
            assert!(!allows(folder), "{folder}");
        }
        assert!(beyond(&[], [path("other").as_path()].into_iter()).is_none());
    }
}
