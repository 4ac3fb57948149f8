//! A file of the shadow as it was opened.

use std::rc::Rc;

use super::node::Node;
use super::power_cut::DiskEvent;
use super::power_switch::PowerSwitch;
use super::shared::{Shared, turn};
use world::real::failed;
use world::{
    Bufs, Error, ErrorKind, HostFile, LocalFuture, OpenMode, PageBuf, PageCodec, Passage, Result,
    TemplatePages,
};

/// An open file of the shadowed disk.
pub(super) struct ShadowFile {
    node: Rc<Node>,
    path: Rc<str>,
    mode: OpenMode,
    shared: Rc<Shared>,
    power: PowerSwitch,
}

impl ShadowFile {
    pub fn new(
        node: Rc<Node>,
        path: &str,
        mode: OpenMode,
        shared: Rc<Shared>,
        power: PowerSwitch,
    ) -> ShadowFile {
        ShadowFile { node, path: path.into(), mode, shared, power }
    }

    fn refused(&self, operation: &str) -> Option<Error> {
        (self.mode == OpenMode::Read).then(|| Error {
            kind: ErrorKind::PermissionDenied,
            operation: operation.into(),
            path: self.path.to_string(),
            reason: "it is open for reading only".into(),
        })
    }
}

fn total(bufs: &Bufs) -> u64 {
    bufs.iter().map(PageBuf::len).sum::<usize>() as u64
}

fn passed(result: std::io::Result<()>, verb: &str, path: &str) -> Result<Passage> {
    result.map(|()| Passage::default()).map_err(|cause| failed(verb, path, &cause))
}

impl HostFile for ShadowFile {
    fn read_at(&self, offset: u64, mut bufs: Bufs) -> LocalFuture<'static, (Result<Passage>, Bufs)> {
        let (node, path, shared) = (self.node.clone(), self.path.clone(), self.shared.clone());
        Box::pin(async move {
            turn().await;
            let bytes = total(&bufs);
            if offset + bytes > node.bytes() {
                let error = Error {
                    kind: ErrorKind::ShortRead,
                    operation: format!("read {bytes} bytes at {offset} of"),
                    path: path.to_string(),
                    reason: format!("the file ends at {}", node.bytes()),
                };
                return (Err(error), bufs);
            }
            let result = node.read(offset, &mut bufs);
            shared.count(|totals| {
                totals.reads += 1;
                totals.read_bytes += bytes;
            });
            (passed(result, "read", &path), bufs)
        })
    }

    fn write_at(&self, offset: u64, bufs: Bufs) -> LocalFuture<'static, (Result<Passage>, Bufs)> {
        if let Some(error) = self.refused("write") {
            return Box::pin(std::future::ready((Err(error), bufs)));
        }
        let (node, path, shared) = (self.node.clone(), self.path.clone(), self.shared.clone());
        let power = self.power.clone();
        Box::pin(async move {
            turn().await;
            node.write(offset, &bufs);
            power.event(DiskEvent::Write);
            let early = shared.below(100) < usize::from(shared.options.early_write_percent);
            let result = if early { node.write_early(offset, &bufs) } else { Ok(()) };
            shared.count(|totals| {
                totals.writes += 1;
                totals.write_bytes += total(&bufs);
            });
            (passed(result, "write", &path), bufs)
        })
    }

    fn sync(&self) -> LocalFuture<'static, Result<Passage>> {
        let (node, path, shared) = (self.node.clone(), self.path.clone(), self.shared.clone());
        let power = self.power.clone();
        let ignored = shared.ignores_sync();
        self.shared.finish(async move {
            if ignored {
                return Ok(Passage::default());
            }
            node.sync(&shared, |event| power.event(event))
                .await
                .map_err(|cause| failed("sync", &path, &cause))?;
            shared.count(|totals| totals.syncs += 1);
            Ok(Passage::default())
        })
    }

    fn size(&self) -> LocalFuture<'static, Result<u64>> {
        Box::pin(std::future::ready(Ok(self.node.bytes())))
    }

    fn set_size(&self, bytes: u64) -> LocalFuture<'static, Result<()>> {
        let refused = self.refused("set the size of");
        let (node, power) = (self.node.clone(), self.power.clone());
        Box::pin(async move {
            if let Some(error) = refused {
                return Err(error);
            }
            turn().await;
            node.set_size(bytes);
            power.event(DiskEvent::Write);
            Ok(())
        })
    }

    fn adopt_template(
        &self,
        _template: Rc<dyn TemplatePages>,
        _codec: Rc<dyn PageCodec>,
    ) -> LocalFuture<'static, Result<bool>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}
