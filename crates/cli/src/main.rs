//! The `proofload` command: arguments, progress, exit status. Everything else is in the crates below.
//!
//! stdout is data, stderr is messages. Exit status: 0 pass, 1 verdict fail, 2 wrong input, 3 could not run, 4
//! interrupted.
#![deny(clippy::print_stderr)]
#![allow(
    clippy::disallowed_methods,
    reason = "the binary faces the operating system: it reads the solution file and writes to the terminal"
)]

// First: its macros are for all others.
#[macro_use]
mod output;

mod check_cmd;
mod clean_cmd;
mod compare_cmd;
mod crash_test_cmd;
mod failure;
#[cfg_attr(not(feature = "fleet"), path = "no_fleet.rs")]
mod fleet_cmd;
#[cfg_attr(not(feature = "fleet"), path = "no_fleet_run.rs")]
mod fleet_run;
mod import_cmd;
mod inputs;
mod lint_cmd;
mod live;
mod outcome;
mod paper_cmd;
#[cfg(feature = "pdf")]
mod pdf;
mod plan_cmd;
mod report_cmd;
mod reports;
mod run_arguments;
mod run_cmd;
mod serve_cmd;
mod sign;
mod signals;
mod simulate_cmd;
mod sql_cmd;
mod stdout;
mod verdict_table;
mod verify_cmd;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::{Failure, Status};

/// Proves, before go-live, that a storage design can carry a mailbox-database load.
#[derive(Parser)]
#[command(version, max_term_width = 100, after_help = EXIT_STATUS)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_STATUS: &str =
    "Exit status: 0 pass, 1 a verdict failed, 2 wrong input, 3 could not run, 4 interrupted";

#[derive(Subcommand)]
enum Command {
    Check(check_cmd::CheckArguments),
    Plan(plan_cmd::PlanArguments),
    Run(run_arguments::RunArguments),
    Fleet(fleet_cmd::FleetArguments),
    Agent(fleet_cmd::AgentArguments),
    #[command(hide = true, name = fleet::drill::COMMAND)]
    #[cfg(feature = "fleet")]
    DrillWork(fleet_cmd::WorkArguments),
    Simulate(simulate_cmd::SimulateArguments),
    Report(report_cmd::ReportArguments),
    Sql(sql_cmd::SqlArguments),
    Serve(serve_cmd::ServeArguments),
    Verify(verify_cmd::VerifyArguments),
    Clean(clean_cmd::CleanArguments),
    Lint(lint_cmd::LintArguments),
    Compare(compare_cmd::CompareArguments),
    Import(import_cmd::ImportArguments),
    Paper(paper_cmd::PaperArguments),
    CrashTest(crash_test_cmd::CrashTestArguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome: Result<Status, Failure> = match arguments.command {
        Command::Check(arguments) => check_cmd::run(&arguments),
        Command::Plan(arguments) => plan_cmd::run(&arguments),
        Command::Run(arguments) => run_cmd::run(&arguments),
        Command::Fleet(arguments) => fleet_cmd::run(&arguments),
        Command::Agent(arguments) => fleet_cmd::agent(&arguments),
        #[cfg(feature = "fleet")]
        Command::DrillWork(arguments) => fleet_cmd::work(&arguments),
        Command::Simulate(arguments) => simulate_cmd::run(&arguments),
        Command::Report(arguments) => report_cmd::report(&arguments),
        Command::Sql(arguments) => sql_cmd::run(&arguments),
        Command::Serve(arguments) => serve_cmd::run(&arguments),
        Command::Verify(arguments) => verify_cmd::run(&arguments),
        Command::Clean(arguments) => clean_cmd::run(&arguments),
        Command::Lint(arguments) => lint_cmd::run(&arguments),
        Command::Compare(arguments) => compare_cmd::run(&arguments),
        Command::Import(arguments) => import_cmd::run(&arguments),
        Command::Paper(arguments) => paper_cmd::run(&arguments),
        Command::CrashTest(arguments) => crash_test_cmd::run(&arguments),
    };
    match outcome {
        Ok(status) => status.into(),
        Err(failure) => failure.tell(),
    }
}
