//! `proofload serve`: a folder of runs as web pages, running ones live; a solution file as a page that plans.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use desk::{Desk, Runs, Server};

use crate::failure::{Failure, Status};

/// Shows the runs in a folder as web pages, or a solution file as a page that plans it.
///
/// Runs that go on are shown live; the page /metrics has the same figures in the form of OpenMetrics.
#[derive(clap::Args)]
pub struct ServeArguments {
    /// Folder in which each run has a folder of its own, or a solution file (.toml).
    #[arg(value_name = "RUNS|SOLUTION", default_value = "runs")]
    served: PathBuf,
    /// Address to listen on. Each user who can reach it can read the runs; a solution file needs a loopback address.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8600")]
    listen: SocketAddr,
}

/// Runs the command, until it is interrupted.
pub fn run(arguments: &ServeArguments) -> Result<Status, Failure> {
    let served = arguments.served.as_path();
    let is_solution = served.extension().is_some_and(|extension| extension == "toml") && !served.is_dir();
    if is_solution {
        // What cannot be read has no page.
        crate::inputs::text(served)?;
    } else if !served.is_dir() {
        let message = format!("{} is no folder", served.display());
        return Err(Failure::wrong_input(message).help("name the folder that holds the run folders"));
    }
    if is_solution && !arguments.listen.ip().is_loopback() {
        let message = format!("a solution file is not served on {}", arguments.listen);
        let help = "its page can write files; use a loopback address such as 127.0.0.1:8600";
        return Err(Failure::wrong_input(message).help(help));
    }
    let server = Server::new(arguments.listen).map_err(|error| {
        Failure::could_not_run(error.to_string()).help("--listen 127.0.0.1:0 takes any free port")
    })?;
    crate::signals::on_request(server.ender())?;
    let address = server.address();
    say!("{} at http://{address}/ (Ctrl-C ends it)", served.display());
    serve(server, served, is_solution)
        .map_err(|error| Failure::could_not_run("cannot serve pages").because(error))?;
    Ok(Status::Pass)
}

fn serve(server: Server, served: &Path, is_solution: bool) -> std::io::Result<()> {
    let address = server.address();
    if is_solution {
        let desk = Desk::new(served, address)?;
        return server.serve(desk);
    }
    server.serve(Runs::new(served, address.ip().is_loopback()))
}
