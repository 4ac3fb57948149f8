//! The test `metacache_loss`: in the middle of its window the first volume of MetaCaches is taken away.
//!
//! From then on its databases read everything from their own volumes. Within one host nothing fails over. In both
//! worlds the program refuses the I/O on the volume; the volume itself is left alone.

use std::collections::BTreeMap;
use std::rc::Rc;

use engine::MetaCacheState;
use results::figures::{counted, number};
use results::{ClassTotals, IoClass, Parameter, Severity};
use solution::{TestSpec, Thresholds};
use world::{Duration, Time};

use crate::error::CampaignError;
use crate::host::ShardState;
use crate::running::{Campaign, Running};

/// Loss of a volume of MetaCaches under load, and what the load saw of it.
pub(crate) struct CacheLoss {
    opened: Time,
    /// Time at which the volume is taken away.
    due: Time,
    thresholds: Thresholds,
    /// Time at which the volume was taken away, and the I/O of the window until then.
    before: Option<(Time, ClassTotals)>,
    /// Name of the volume, and number of databases that lost their MetaCache.
    lost: (String, u64),
    /// Begin of the present sample, and the I/O of the window until then.
    sample: (Time, ClassTotals),
    /// First mean latency of a sample above its threshold: time since the loss, and the latency in words.
    broken: Option<(Duration, String)>,
}

impl CacheLoss {
    /// Loss in the middle of the window of `spec`, which has opened.
    pub(crate) fn new(spec: &TestSpec, opened: Time) -> CacheLoss {
        CacheLoss {
            opened,
            due: opened + Duration::from_secs_f64(spec.duration_s / 2.0),
            thresholds: spec.thresholds,
            before: None,
            lost: Default::default(),
            sample: (opened, ClassTotals::default()),
            broken: None,
        }
    }

    /// Judges the sample that ends now, after the loss.
    fn judge(&mut self, seen: &ClassTotals, now: Time) {
        let limits = [
            (IoClass::TransactionalRead, "database reads", self.thresholds.read_avg_ms),
            (IoClass::LogWrite, "log writes", self.thresholds.log_write_avg_ms),
        ];
        let broken = limits.into_iter().find_map(|(class, what, limit_ms)| {
            let (now, before) = (seen.class(class), self.sample.1.class(class));
            let latency_ms = (now.latency_ns_sum - before.latency_ns_sum) as f64 / 1e6;
            let mean_ms = latency_ms / (now.count - before.count).max(1) as f64;
            (mean_ms > limit_ms?).then(|| format!("{what} took {} ms on average", number(mean_ms, 1)))
        });
        if let (None, Some(what)) = (&self.broken, broken) {
            self.broken = Some((now.since(self.due), what));
        }
        self.sample = (now, *seen);
    }
}

impl Campaign<'_> {
    /// Takes the volume away when it is due, and judges samples after that.
    pub(crate) async fn watch_loss(
        &mut self,
        test: &mut Running,
        loss: &mut CacheLoss,
    ) -> Result<(), CampaignError> {
        if loss.before.is_some() {
            let sample_ms = u128::from(test.sampler.sample_ms());
            if test.last_tick.since(loss.sample.0).as_millis() >= sample_ms {
                loss.judge(&test.seen, test.last_tick);
            }
            return Ok(());
        }
        if test.last_tick < loss.due {
            return Ok(());
        }
        let specs = self.deployment.instances.iter().flat_map(|instance| &instance.databases);
        let Some(volume) =
            specs.filter_map(|spec| spec.meta_cache.as_ref()).map(|cache| &cache.volume).next()
        else {
            return Ok(());
        };
        loss.lost = (volume.clone(), self.take_away(volume.clone()).await?);
        loss.before = Some((test.last_tick, test.seen));
        loss.sample = (test.last_tick, test.seen);
        let text = format!("volume {volume} was taken away: {}", databases(loss.lost.1));
        self.event(Severity::Info, Some(test.row.ordinal), &text)
    }

    /// Notes the states of the MetaCaches, if there are any.
    pub(crate) async fn note_caches(&self, test: &mut Running) -> Result<(), CampaignError> {
        let states = |state: Rc<ShardState>, instance: usize| async move {
            let open = state.open_instance(instance)?;
            let states = (1..=open.instance.databases()).map(|db| open.instance.meta_cache_state(db));
            Ok(states.collect::<Result<Vec<_>, _>>()?)
        };
        let states = self.host.each_instance(states).await?.concat();
        let used = states.iter().filter(|state| **state != MetaCacheState::Disabled);
        let mut counts = BTreeMap::<&str, u32>::new();
        used.for_each(|state| *counts.entry(state.words()).or_default() += 1);
        if !counts.is_empty() {
            let parts: Vec<_> = counts.iter().map(|(words, count)| format!("{count} {words}")).collect();
            test.row.parameters.push(Parameter { name: "MetaCaches".to_owned(), value: parts.join(", ") });
        }
        Ok(())
    }

    /// Refuses all I/O on the MetaCaches of a volume from now on. Returns the number of databases that lose theirs.
    async fn take_away(&self, volume: String) -> Result<u64, CampaignError> {
        let take = move |state: Rc<ShardState>, instance: usize| {
            let volume = volume.clone();
            async move {
                let volumes = state.cache_volumes.borrow();
                let lost = volumes.get(&instance).into_iter().flatten().filter(|(name, _)| *name == volume);
                Ok(lost.map(|(_, taken_away)| taken_away.stop()).count() as u64)
            }
        };
        Ok(self.host.each_instance(take).await?.into_iter().sum())
    }

    /// Records what the loss did.
    pub(crate) fn tell_loss(&mut self, test: &mut Running, loss: &CacheLoss) -> Result<(), CampaignError> {
        let Some((taken, before)) = &loss.before else { return Ok(()) };
        let count = |class| (before.class(class).count, test.seen.class(class).count);
        let per_s = |count: u64, from: Time, to: Time| count as f64 / to.since(from).as_secs_f64().max(1e-9);
        let (hits, (reads, all_reads)) = (count(IoClass::MetaCacheRead).0, count(IoClass::TransactionalRead));
        let hit_percent = 100.0 * hits as f64 / (hits + reads).max(1) as f64;
        let extra_reads =
            per_s(all_reads - reads, *taken, test.last_tick) - per_s(reads, loss.opened, *taken);
        let broken = match &loss.broken {
            Some((after, what)) => format!("after {} s: {what}", number(after.as_secs_f64(), 0)),
            None => "none".to_owned(),
        };
        let values = [
            ("Volume taken away", format!("{}, {}", loss.lost.0, databases(loss.lost.1))),
            ("Reads from MetaCaches before", format!("{} % of the reads", number(hit_percent, 1))),
            ("Extra reads on database volumes", format!("{} per s", number(extra_reads, 1))),
            ("First broken threshold", broken),
            ("Failovers", "none: a test on one host has no other copy".to_owned()),
        ];
        for (name, value) in values {
            self.event(Severity::Info, Some(test.row.ordinal), &format!("{name}: {value}"))?;
            test.row.parameters.push(Parameter { name: name.to_owned(), value });
        }
        Ok(())
    }
}

fn databases(count: u64) -> String {
    format!("{} lost their MetaCache", counted(count, "database"))
}
