//! Folders of the files of a test.

use world::World;

use crate::error::CampaignError;

/// Creates a folder and its missing parents, durably.
pub async fn make_folders(world: &World, path: &str) -> Result<(), CampaignError> {
    let mut missing = Vec::new();
    let mut at = path.trim_end_matches('/');
    while !at.is_empty() && at != "." && world.entry(at).await?.is_none() {
        missing.push(at);
        at = at.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    for folder in missing.into_iter().rev() {
        match world.create_dir(folder).await {
            // Instances of other shards make the same parents at the same time.
            Err(error) if error.kind == world::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        let parent =
            folder.rsplit_once('/').map_or(".", |(parent, _)| if parent.is_empty() { "/" } else { parent });
        world.sync_dir(parent).await?;
    }
    Ok(())
}
