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

mod calibrate_cmd;
mod capacity_cmd;
mod case_files;
mod check_cmd;
mod clean_cmd;
mod climb;
mod compare_cmd;
mod crash_test_cmd;
mod examples_cmd;
mod explain_cmd;
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
mod plan_cmd;
mod probe_cmd;
mod progress;
mod report_cmd;
mod reports;
mod run_arguments;
mod run_cmd;
mod schema_cmd;
mod serve_cmd;
mod shell_cmd;
mod sign;
mod signals;
mod simulate_cmd;
mod sql_cmd;
mod stdout;
mod verify_cmd;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use failure::{Failure, Status};

/// Allocator in place of that of musl, which takes up to twice the processor time.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Version and build of this program (`build.rs`).
pub const VERSION: &str = env!("PROOFLOAD_VERSION");
/// Commit, target and features that the program was built from.
pub const BUILD: &str = env!("PROOFLOAD_BUILD");

/// Proves, before go-live, that a storage design can carry a mailbox-database load.
#[derive(Parser)]
#[command(version = VERSION, max_term_width = 100, after_help = EXIT_STATUS)]
struct Arguments {
    #[command(flatten)]
    output: output::OutputArguments,
    #[command(subcommand)]
    command: Command,
}

const EXIT_STATUS: &str =
    "Exit status: 0 pass, 1 failed or not proved, 2 wrong input, 3 could not run, 4 interrupted";

#[derive(Subcommand)]
enum Command {
    Check(check_cmd::CheckArguments),
    Plan(plan_cmd::PlanArguments),
    Capacity(capacity_cmd::CapacityArguments),
    Probe(probe_cmd::ProbeArguments),
    Calibrate(calibrate_cmd::CalibrateArguments),
    Simulate(simulate_cmd::SimulateArguments),
    Run(run_cmd::HostRunArguments),
    Fleet(fleet_cmd::FleetArguments),
    #[command(hide = true, name = fleet::drill::COMMAND)]
    #[cfg(feature = "fleet")]
    DrillWork(fleet_cmd::WorkArguments),
    CrashTest(crash_test_cmd::CrashTestArguments),
    Verify(verify_cmd::VerifyArguments),
    Clean(clean_cmd::CleanArguments),
    Report(report_cmd::ReportArguments),
    Serve(serve_cmd::ServeArguments),
    Explain(explain_cmd::ExplainArguments),
    Compare(compare_cmd::CompareArguments),
    Lint(lint_cmd::LintArguments),
    Sql(sql_cmd::SqlArguments),
    Paper(paper_cmd::PaperArguments),
    Import(import_cmd::ImportArguments),
    Examples(examples_cmd::ExamplesArguments),
    Schema(schema_cmd::SchemaArguments),
    Completions(shell_cmd::CompletionsArguments),
    Man(shell_cmd::ManArguments),
}

/// The commands as `--help` lists them.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Before there is hardware", &["check", "plan", "capacity", "simulate"]),
    ("On the hardware", &["probe", "calibrate", "run", "fleet", "crash-test", "verify", "clean"]),
    ("With the evidence", &["report", "explain", "serve", "compare", "lint", "sql", "paper", "import"]),
    ("This program", &["examples", "schema", "completions", "man"]),
];

/// The command line, with its commands in groups.
fn program() -> clap::Command {
    let program = Arguments::command();
    let (heading, literal) = (*program.get_styles().get_header(), *program.get_styles().get_literal());
    let mut list = String::new();
    for (title, names) in GROUPS {
        list += &format!("{heading}{title}:{heading:#}\n");
        for name in names {
            let about = program.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            list += &format!("  {literal}{name:<11}{literal:#}  {about}\n");
        }
        list.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{heading}Options:{heading:#}\n{{options}}{{after-help}}"
    );
    program.help_template(template).color(output::color_asked_for(std::env::args()))
}

fn main() -> ExitCode {
    let matches = program().get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    arguments.output.apply();
    match carry_out(arguments.command) {
        Ok(status) => status.into(),
        Err(failure) => failure.tell(),
    }
}

fn carry_out(command: Command) -> Result<Status, Failure> {
    match command {
        Command::Check(arguments) => check_cmd::run(&arguments),
        Command::Plan(arguments) => plan_cmd::run(&arguments),
        Command::Capacity(arguments) => capacity_cmd::run(&arguments),
        Command::Probe(arguments) => probe_cmd::run(&arguments),
        Command::Calibrate(arguments) => calibrate_cmd::run(&arguments),
        Command::Simulate(arguments) => simulate_cmd::run(&arguments),
        Command::Run(arguments) => run_cmd::run(&arguments),
        Command::Fleet(arguments) => fleet_cmd::run(&arguments),
        #[cfg(feature = "fleet")]
        Command::DrillWork(arguments) => fleet_cmd::work(&arguments),
        Command::CrashTest(arguments) => crash_test_cmd::run(&arguments),
        Command::Verify(arguments) => verify_cmd::run(&arguments),
        Command::Clean(arguments) => clean_cmd::run(&arguments),
        Command::Report(arguments) => report_cmd::report(&arguments),
        Command::Serve(arguments) => serve_cmd::run(&arguments),
        Command::Explain(arguments) => explain_cmd::run(&arguments),
        Command::Compare(arguments) => compare_cmd::run(&arguments),
        Command::Lint(arguments) => lint_cmd::run(&arguments),
        Command::Sql(arguments) => sql_cmd::run(&arguments),
        Command::Paper(arguments) => paper_cmd::run(&arguments),
        Command::Import(arguments) => import_cmd::run(&arguments),
        Command::Examples(arguments) => examples_cmd::run(&arguments),
        Command::Schema(arguments) => schema_cmd::run(&arguments),
        Command::Completions(arguments) => shell_cmd::completions(&arguments, program()),
        Command::Man(arguments) => shell_cmd::man(&arguments, program()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_with_a_line_that_fits() {
        let program = program();
        let shown = program.get_subcommands().filter(|command| !command.is_hide_set());
        let mut commands: Vec<&str> = shown.map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        commands.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(commands, grouped);
        let help = program.clone().render_help().to_string();
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}
