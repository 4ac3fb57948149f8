//! `proofload examples`: the solution files that ship in this program.

use std::path::PathBuf;

use review::answers::{Example, Examples};
use solution::{EXAMPLES, did_you_mean};

use crate::failure::{Failure, Status};
use crate::stdout::{data, json, write_new};

/// Lists the solution files that ship in this program, or writes one of them.
#[derive(clap::Args)]
pub struct ExamplesArguments {
    /// The example to write; without a name they are listed.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// File to write, or `-` for stdout; NAME.toml without it. A file that exists stays as it is.
    #[arg(long, value_name = "FILE", requires = "name")]
    out: Option<PathBuf>,
    /// Print the list as JSON.
    #[arg(long, conflicts_with = "name")]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &ExamplesArguments) -> Result<Status, Failure> {
    let Some(name) = &arguments.name else {
        if arguments.json {
            let one = |example: &solution::Example| Example {
                name: example.name.to_owned(),
                about: example.about.to_owned(),
            };
            json(&Examples { schema_version: 1, examples: EXAMPLES.iter().map(one).collect() })?;
            return Ok(Status::Pass);
        }
        let lines = EXAMPLES.iter().map(|example| format!("{:<22}{}\n", example.name, example.about));
        data(&lines.collect::<String>())?;
        say!("`proofload examples NAME` writes one of them into this folder");
        return Ok(Status::Pass);
    };
    let name = name.trim_end_matches(".toml");
    let Some(example) = EXAMPLES.iter().find(|example| example.name == name) else {
        let near = did_you_mean(name, EXAMPLES.iter().map(|example| example.name));
        let help = near
            .map_or("`proofload examples` lists them".to_owned(), |near| format!("did you mean `{near}`?"));
        return Err(Failure::wrong_input(format!("no example is called `{name}`")).help(help));
    };
    let path = arguments.out.clone().unwrap_or_else(|| format!("{name}.toml").into());
    if path.as_os_str() == "-" {
        data(example.text)?
    } else {
        write_new(&path, example.text.as_bytes())?
    }
    Ok(Status::Pass)
}
