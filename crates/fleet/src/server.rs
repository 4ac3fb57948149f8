//! A `nats-server` of the controller's own, for sites that run none: started from the folder of credentials,
//! started again when it ends, stopped with the controller, also with one that is killed: the next one would
//! find its port taken.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::process::{Child, Command};

/// Reason why the NATS server cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start `{program}` in {}: {source} (install the package nats-server, or name the program with --nats-server)", folder.display())]
pub struct ServerError {
    program: String,
    folder: PathBuf,
    source: std::io::Error,
}

/// Running NATS server.
#[derive(Debug)]
pub struct Server {
    program: String,
    folder: PathBuf,
    child: Child,
}

impl Server {
    /// Starts the NATS server `program` with the configuration in `folder` ([`crate::credentials::make`]). Its log
    /// goes to `nats-server.log` there.
    pub fn start(program: &str, folder: &Path) -> Result<Server, ServerError> {
        let failed = |source| ServerError { program: program.to_owned(), folder: folder.to_owned(), source };
        let child = spawn(program, folder).map_err(failed)?;
        Ok(Server { program: program.to_owned(), folder: folder.to_owned(), child })
    }

    /// Restarts the server if it has ended. Returns whether it had.
    pub fn keep(&mut self) -> Result<bool, ServerError> {
        let failed =
            |source| ServerError { program: self.program.clone(), folder: self.folder.clone(), source };
        if self.child.try_wait().map_err(failed)?.is_none() {
            return Ok(false);
        }
        self.child = spawn(&self.program, &self.folder).map_err(failed)?;
        Ok(true)
    }

    /// Process id of the server, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.child.id()
    }
}

fn spawn(program: &str, folder: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    let end_with_parent = || Ok(set_parent_process_death_signal(Some(Signal::TERM))?);
    // SAFETY: the closure makes one system call, allocates nothing and takes no lock.
    unsafe { command.pre_exec(end_with_parent) };
    command
        // A Ctrl-C for the controller is none for the bus: the hosts still have to be told.
        .process_group(0)
        .args(["-c", "nats-server.conf", "-l", "nats-server.log"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}
