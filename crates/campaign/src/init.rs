//! Creates the databases, all volumes at once; databases that exist and fit are used again.
//!
//! Invariant: a database gets its name when it is complete and durable; what an interrupted run left under the
//! temporary name is made anew.

use std::rc::Rc;

use edb::header::DatabaseHeader;
use results::figures::number;
use results::{IoClass, Origin, Parameter, Severity};
use smallvec::smallvec;
use solution::TestSpec;
use workload::codec::DatabaseCodec;
use world::{OpenMode, PageBuf, TemplatePages};

use crate::error::CampaignError;
use crate::folders::make_folders;
use crate::host::{ShardState, database_path};
use crate::running::Campaign;
use crate::verdict::judge_none;

/// Databases of an instance that were created or used again.
#[derive(Debug, Clone, Copy, Default)]
struct Made {
    created: u64,
    created_bytes: u64,
    reused: u64,
}

impl Campaign<'_> {
    /// Test `init`: creates every database of the deployment that does not exist.
    pub async fn init(&mut self, ordinal: u32, name: &str, spec: &TestSpec) -> Result<(), CampaignError> {
        let writes = Parameter { name: "Writes".into(), value: "1 MiB, 8 outstanding per database".into() };
        let mut test = self.begin(ordinal, name, spec, vec![writes]).await?;
        test.phase = "writing databases".into();
        let (host, started) = (self.host.clone(), self.world.now());
        let job = async move {
            host.each_instance(|state, instance| async move { make_all(&state, instance).await }).await
        };
        let made = self.watch(&mut test, job).await?;
        let seconds = self.world.now().since(started).as_secs_f64();
        let total = made.into_iter().fold(Made::default(), |sum, one| Made {
            created: sum.created + one.created,
            created_bytes: sum.created_bytes + one.created_bytes,
            reused: sum.reused + one.reused,
        });
        let text = match total {
            Made { created: 0, reused, .. } => format!("databases that exist and are used again: {reused}"),
            Made { created, created_bytes, reused } => {
                let mib = created_bytes as f64 / f64::from(1 << 20);
                // A simulated storage takes no time to create databases, and a rate of less than a sample says little.
                let rate = match seconds {
                    1.0.. => format!(" in {seconds:.1} s ({} MiB/s)", number(mib / seconds, 0)),
                    _ => String::new(),
                };
                format!("databases written: {created}, {} MiB{rate}; used again: {reused}", number(mib, 0))
            }
        };
        self.event(Severity::Info, Some(ordinal), &text)?;
        let origin = Origin::host(self.host_name());
        self.judge(judge_none(
            ordinal,
            origin,
            "init_errors",
            "database could not be made or used again",
            0,
        ))?;
        self.end(test).await
    }
}

async fn make_all(state: &ShardState, instance: usize) -> Result<Made, CampaignError> {
    let mut made = Made::default();
    let spec = &state.deployment.instances[instance];
    make_folders(&state.world, &spec.log_dir).await?;
    for (number, database) in spec.databases.iter().enumerate() {
        make_folders(&state.world, &database.dir).await?;
        let path = database_path(&database.dir, &database.name);
        let template = Rc::new(state.new_template(instance, number)?);
        if state.world.entry(&path).await?.is_some() {
            let existing = state.template_of_file(instance, number, &path).await;
            if existing.is_ok_and(|existing| existing.id() == template.id()) {
                check_headers(state, instance, number, &path).await?;
                made.reused += 1;
                continue;
            }
            return Err(CampaignError::OtherDatabase { path });
        }
        let unfinished = format!("{path}.new");
        if state.world.entry(&unfinished).await?.is_some() {
            state.world.remove(&unfinished).await?;
        }
        let side = state.side(instance);
        let (counters, progress) = &side.databases[number];
        let codec = Rc::new(DatabaseCodec::new(template.clone()));
        made.created_bytes += template.pages() * template.page_bytes() as u64;
        engine::create_database(&state.world, &unfinished, template, codec, counters, progress, &state.stop)
            .await?;
        state.world.rename(&unfinished, &path).await?;
        state.world.sync_dir(&database.dir).await?;
        made.created += 1;
    }
    Ok(made)
}

/// Refuses a database whose header and shadow are both damaged, because it cannot be opened.
async fn check_headers(
    state: &ShardState,
    instance: usize,
    number: usize,
    path: &str,
) -> Result<(), CampaignError> {
    let page_bytes = state.deployment.instances[instance].page_bytes;
    let page = || PageBuf::empty(page_bytes as usize);
    let side = state.side(instance);
    let operation = side.databases[number].0.begin(IoClass::HousekeepingRead, state.world.now());
    let file = state.world.open(path, OpenMode::Read).await?;
    let (read, pages) = file.read_at(0, smallvec![page(), page()]).await;
    operation.completed(2 * u64::from(page_bytes), read?, state.world.now());
    let start = pages.iter().flat_map(|page| page.as_slice()).copied().collect::<Vec<u8>>();
    let header = DatabaseHeader::read(&start);
    header.map(drop).map_err(|damage| CampaignError::NoHeader { path: path.to_owned(), damage })
}
