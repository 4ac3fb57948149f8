//! `proofload serve`: a folder of runs as web pages, running ones live.

use std::net::SocketAddr;
use std::path::PathBuf;

use desk::{Runs, Server};

use crate::failure::{Failure, Status};

/// Shows the runs in a folder as local web pages, running ones live.
///
/// The page /metrics has the same figures in the form of OpenMetrics.
#[derive(clap::Args)]
pub struct ServeArguments {
    /// Folder in which each run has a folder of its own.
    #[arg(value_name = "RUNS", default_value = "runs")]
    runs: PathBuf,
    /// Address to listen on. Anyone who can reach it can read the runs.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8600")]
    listen: SocketAddr,
}

/// Runs the command, until it is interrupted.
pub fn run(arguments: &ServeArguments) -> Result<Status, Failure> {
    if !arguments.runs.is_dir() {
        let message = format!("{} is no folder", arguments.runs.display());
        return Err(Failure::wrong_input(message).help("name the folder that holds the run folders"));
    }
    let server = Server::new(arguments.listen).map_err(|error| {
        Failure::could_not_run(error.to_string()).help("--listen 127.0.0.1:0 takes any free port")
    })?;
    crate::signals::on_request(server.ender())?;
    let address = server.address();
    say!("{} at http://{address}/ (Ctrl-C ends it)", arguments.runs.display());
    let runs = Runs::new(&arguments.runs, address.ip().is_loopback());
    server.serve(runs).map_err(|error| Failure::could_not_run("cannot serve pages").because(error))?;
    Ok(Status::Pass)
}
