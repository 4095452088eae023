//! The installation that a command uses, and the default values that it gives to options.
//!
//! Three sources describe an installation: a data directory (`--data`), the output of Terraform (`--from-terraform`),
//! and a context (`--context`, or the one in use). An option's value is the first of:
//!
//! 1. the command line,
//! 2. the data directory or Terraform's output: a variable may be meant for another installation,
//! 3. the option's variable,
//! 4. the context,
//! 5. the option's own default.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use triad_bootstrap::environment;

use crate::contexts::{self, Chosen};
use crate::data::{self, RunningProcess};
use crate::output::Usage;
use crate::terraform::Output;
use crate::values::Values;

/// The source that describes an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installation {
    /// The data directory of an installation on one machine.
    Data(PathBuf),
    /// Terraform's output: a file with it, or the directory in which to run Terraform.
    Terraform(PathBuf),
    /// A named context.
    Context(Chosen),
}

/// The installation that a command line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meant {
    /// The installation. `None`: only options and variables give the addresses.
    pub installation: Option<Installation>,
    /// Whether `TRIAD_DATA` is set and ignored, because the command line names another installation.
    pub ignores_data: bool,
}

/// Options that name an installation, with their ids; only one may be given.
const RIVALS: [(&str, &str); 5] = [
    ("dynamodb", "--dynamodb"),
    ("aws", "--aws"),
    ("region", "--region"),
    ("context", contexts::OPTION),
    ("from_terraform", TERRAFORM),
];
const TERRAFORM: &str = "--from-terraform";

/// Parses a command line leniently: no option is required, and wrong parts are left out.
fn lenient(command: Command, arguments: &[OsString]) -> Option<ArgMatches> {
    let command = map_args(command, &|arg| arg.required(false)).ignore_errors(true);
    // The remaining errors are requests for help or the version.
    command.try_get_matches_from(arguments).ok()
}

/// The matches of the innermost subcommand.
fn innermost(mut matches: &ArgMatches) -> &ArgMatches {
    while let Some((_, deeper)) = matches.subcommand() {
        matches = deeper;
    }
    matches
}

fn source(matches: &ArgMatches, id: &str) -> Option<ValueSource> {
    matches.try_contains_id(id).ok()?;
    matches.value_source(id)
}

/// The installation that a command line names. Reads only the file of contexts.
///
/// # Errors
/// [`Usage`] if the command line names two, there is no context of that name, or the file of contexts cannot be read.
pub fn select_installation(command: Command, arguments: &[OsString]) -> Result<Meant, Usage> {
    let none = Meant {
        installation: None,
        ignores_data: false,
    };
    let Some(matches) = lenient(command, arguments) else {
        return Ok(none);
    };
    let given = innermost(&matches);
    let is_said = |id| source(given, id) == Some(ValueSource::CommandLine);
    let rival = RIVALS.iter().find(|(id, _)| is_said(id));
    // A command that creates the directory, such as `triad dev`, does not read it.
    let has = |id| given.try_contains_id(id).is_ok();
    let data = match has("brokers") || has("prefix") {
        true => source(given, "data").zip(given.get_one::<PathBuf>("data").cloned()),
        false => None,
    };
    let is_data_said = is_said("data");
    match (data, rival) {
        (Some(_), Some((_, rival))) if is_data_said => {
            Err(Usage(format!("give --data or {rival}, not both")))
        }
        (Some((_, dir)), None) => {
            let variables = ["TRIAD_DYNAMODB_ENDPOINT", contexts::VARIABLE];
            let other = variables.into_iter().find(|v| environment(v).is_some());
            match other.filter(|_| !is_data_said) {
                Some(other) => Err(Usage(format!(
                    "{} and {other} are both set and name two installations: unset one of them, or say on the command line which one is meant",
                    data::VARIABLE
                ))),
                None => Ok(Meant {
                    installation: Some(Installation::Data(dir)),
                    ..none
                }),
            }
        }
        (data, _) => Ok(Meant {
            installation: away(&matches, given)?,
            ignores_data: data.is_some(),
        }),
    }
}

/// The installation, if it is not a data directory.
fn away(matches: &ArgMatches, given: &ArgMatches) -> Result<Option<Installation>, Usage> {
    let context = given.get_one::<String>("context");
    let is_context_said = source(given, "context") == Some(ValueSource::CommandLine);
    if let Some(path) = given.get_one::<PathBuf>("from_terraform") {
        return match is_context_said {
            true => Err(Usage(format!(
                "give {} or {TERRAFORM}, not both",
                contexts::OPTION
            ))),
            false => Ok(Some(Installation::Terraform(path.clone()))),
        };
    }
    // A command that reaches no installation, such as `triad serve`, needs no file of contexts.
    let reaches_one = ["brokers", "prefix"]
        .iter()
        .any(|id| given.try_contains_id(id).is_ok());
    if !reaches_one && !is_context_said {
        return Ok(None);
    }
    // `triad context` itself runs in no context.
    if matches.subcommand_name() == Some("context") && !is_context_said {
        return Ok(None);
    }
    let context = context.filter(|name| !name.is_empty());
    Ok(contexts::chosen(context)?.map(Installation::Context))
}

impl Installation {
    /// Origin of the values, for people.
    pub fn words(&self) -> String {
        match self {
            Self::Data(dir) => format!("{} {}", data::WORDS, dir.display()),
            Self::Terraform(path) => format!("{TERRAFORM} {}", path.display()),
            Self::Context(chosen) => format!("the context {}", chosen.name),
        }
    }

    /// The command line, with the installation's values as the defaults of all commands' options.
    ///
    /// # Errors
    /// If the values cannot be read.
    pub fn defaults_of(&self, command: Command) -> Result<Command> {
        let values = match self {
            Self::Data(dir) => RunningProcess::read_connection_file(dir)?
                .unwrap_or_default()
                .values(),
            Self::Terraform(path) => Output::read(path)?.values(),
            Self::Context(chosen) => chosen.context.values(),
        };
        let before_variables = !matches!(self, Self::Context(_));
        Ok(with_defaults(command, &values, before_variables))
    }
}

/// The command line, with `values` as the defaults of its options; an empty list removes the default. With
/// `before_variables` the variables of these options are ignored.
pub fn with_defaults(command: Command, values: &Values, before_variables: bool) -> Command {
    map_args(command, &|arg| {
        let Some(values) = values.get(arg.get_id().as_str()) else {
            return arg;
        };
        let arg = match before_variables {
            true => arg.env(Resettable::Reset),
            false => arg,
        };
        match values.is_empty() {
            true => arg,
            false => arg.required(false).default_values(values.clone()),
        }
    })
}

/// The command line, without the variable of the data directory.
pub fn without_data(command: Command) -> Command {
    map_args(command, &|arg| match arg.get_id() == "data" {
        true => arg.env(Resettable::Reset),
        false => arg,
    })
}

/// Applies a change to each option of all commands.
fn map_args(command: Command, change: &dyn Fn(Arg) -> Arg) -> Command {
    let command = command.mut_args(change);
    command.mut_subcommands(|command| map_args(command, change))
}

/// The variable from which a refused option took its value, if any: clap's error text names only the option.
pub fn variable_of(
    command: Command,
    refused: &clap::Error,
    arguments: &[OsString],
) -> Option<String> {
    let kinds = [ErrorKind::ValueValidation, ErrorKind::InvalidValue];
    let option = match refused.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) if kinds.contains(&refused.kind()) => argument,
        _ => return None,
    };
    let option = option.split_whitespace().next()?.strip_prefix("--")?;
    let (id, variable) = variable_of_option(&command, option)?;
    let matches = lenient(command, arguments)?;
    let is_given = source(innermost(&matches), &id) == Some(ValueSource::CommandLine);
    (!is_given && environment(&variable).is_some()).then_some(variable)
}

/// The id and the variable of an option, in any command.
fn variable_of_option(command: &Command, option: &str) -> Option<(String, String)> {
    let arg = command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(option));
    match arg {
        Some(arg) => Some((
            arg.get_id().to_string(),
            arg.get_env()?.to_string_lossy().into_owned(),
        )),
        None => command
            .get_subcommands()
            .find_map(|command| variable_of_option(command, option)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn meant_by(words: &[&str]) -> Result<Option<Installation>, String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let meant = select_installation(crate::Cli::command(), &words);
        meant.map(|m| m.installation).map_err(|e| e.to_string())
    }

    #[test]
    fn a_directory_is_meant_where_a_command_names_one_for_its_store() {
        let data = Ok(Some(Installation::Data(PathBuf::from("d"))));
        for words in [
            &["triad", "list", "--data", "d"][..],
            &["triad", "resubmit", "1", "--why", "w", "--data=d"],
            // Missing options are an error only after the directory's values were added.
            &["triad", "cancel", "1", "--data", "d"],
            &["triad", "resolve", "1", "--applied", "--data", "d"],
            &["triad", "dead-letters", "list", "--data", "d"],
            &["triad", "get", "dev", "--data", "d"],
        ] {
            assert_eq!(meant_by(words), data, "{words:?}");
        }
        for words in [
            &["triad", "list"][..],
            // `triad dev` creates the directory.
            &["triad", "dev", "--data", "d"],
            &["triad", "get", "1", "--help", "--data", "d"],
        ] {
            assert_eq!(meant_by(words), Ok(None), "{words:?}");
        }
        for (words, rival) in [
            (&["--dynamodb", "http://h"][..], "--dynamodb"),
            (&["--aws"], "--aws"),
            (&["--region", "r"], "--region"),
            (&["--context", "c"], "--context"),
            (&["--from-terraform", "t"], "--from-terraform"),
        ] {
            let words = [&["triad", "list", "--data", "d"], words].concat();
            let refused = meant_by(&words).expect_err("two installations");
            assert_eq!(refused, format!("give --data or {rival}, not both"));
        }
    }

    #[test]
    fn terraform_is_asked_wherever_its_option_stands() {
        let terraform = Ok(Some(Installation::Terraform(PathBuf::from("dir"))));
        for words in [
            &["triad", "--from-terraform", "dir", "list"][..],
            &["triad", "list", "--from-terraform=dir"],
        ] {
            assert_eq!(meant_by(words), terraform, "{words:?}");
        }
        let value = ["triad", "get", "--", "--from-terraform", "x"];
        assert_eq!(meant_by(&value), Ok(None), "it is no option here");
        let both = ["triad", "--context", "c", "--from-terraform", "t", "list"];
        let refused = meant_by(&both).expect_err("two installations");
        assert_eq!(refused, "give --context or --from-terraform, not both");
    }

    #[test]
    fn values_are_defaults_of_every_command_and_give_way_to_the_command_line() {
        let values = Values::from([
            ("brokers", vec!["b:9098".to_owned()]),
            (
                "kafka_setting",
                vec!["sasl.mechanisms=SCRAM-SHA-512".to_owned()],
            ),
            ("retention", vec!["90days".to_owned()]),
            ("prefix", vec!["shop-".to_owned()]),
            ("skew", vec![]),
        ]);
        let command = || with_defaults(crate::Cli::command(), &values, true);
        let found = command().get_matches_from(["triad", "submit", "file"]);
        let submit = innermost(&found);
        assert_eq!(submit.get_one::<String>("brokers").unwrap(), "b:9098");
        let setting = submit.get_one::<(String, String)>("kafka_setting").unwrap();
        assert_eq!(setting.1, "SCRAM-SHA-512");
        let found = command().get_matches_from(["triad", "list", "--prefix", "mine-"]);
        let list = innermost(&found);
        assert_eq!(list.get_one::<String>("prefix").unwrap(), "mine-");
        assert_eq!(list.get_one::<String>("retention").unwrap(), "90days");
        assert_eq!(list.get_one::<String>("skew"), None, "its own default");
        let found = command().get_matches_from(["triad", "dead-letters", "list"]);
        assert_eq!(
            innermost(&found).get_one::<String>("brokers").unwrap(),
            "b:9098"
        );
    }

    #[test]
    fn no_setting_of_kafka_is_shown() {
        let values = Values::from([("kafka_setting", vec!["sasl.password=hidden".to_owned()])]);
        let mut command = with_defaults(crate::Cli::command(), &values, true);
        let submit = command.find_subcommand_mut("submit").expect("a command");
        let help = submit.render_long_help().to_string();
        assert!(help.contains("--kafka-setting"), "{help}");
        assert!(!help.contains("hidden"), "{help}");
    }
}
