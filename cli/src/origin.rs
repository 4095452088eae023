//! Where the values of options came from: it is said where one of them is wrong.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// An option of the command that was given.
struct Origin {
    /// As it is typed, such as `--brokers`.
    option: String,
    /// The variable that may say it.
    variable: Option<String>,
    /// What its value came from: the option, the variable, or the words for an installation. `None`: from the
    /// option's own default, or it has no value.
    from: Option<String>,
}

/// By the options' ids.
static ORIGINS: OnceLock<BTreeMap<String, Origin>> = OnceLock::new();

/// Keeps where each option's value came from. `installation` is the source of default values,
/// such as `the context shop`; `None` if there is none. `command` has all variables.
pub fn keep(command: &Command, matches: &ArgMatches, installation: Option<&str>) {
    let (mut command, mut matches) = (command, matches);
    while let Some((name, deeper)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else {
            break;
        };
        (command, matches) = (found, deeper);
    }
    let origins = command.get_arguments().filter_map(|arg| {
        let option = format!("--{}", arg.get_long()?);
        let variable = arg
            .get_env()
            .map(|name| name.to_string_lossy().into_owned());
        let from = match matches.value_source(arg.get_id().as_str()) {
            Some(ValueSource::CommandLine) => Some(option.clone()),
            Some(ValueSource::EnvVariable) => variable.clone(),
            Some(ValueSource::DefaultValue) => installation.map(str::to_owned),
            _ => None,
        };
        let origin = Origin {
            option,
            variable,
            from,
        };
        Some((arg.get_id().to_string(), origin))
    });
    // It is kept once.
    let _ = ORIGINS.set(origins.collect());
}

fn saved_origin(id: &str) -> Option<&'static Origin> {
    ORIGINS.get()?.get(id)
}

/// Where the value of an option came from, as ` (from TRIAD_BROKERS)`; empty if that is not known.
pub fn origin(id: &str) -> String {
    source(id).map_or_else(String::new, |from| format!(" (from {from})"))
}

/// What the value of an option came from, as `TRIAD_BROKERS`; `None` if that is not known.
pub fn source(id: &str) -> Option<&'static str> {
    saved_origin(id)?.from.as_deref()
}

/// Whether an option was given on the command line itself.
pub fn is_on_command_line(id: &str) -> bool {
    saved_origin(id).is_some_and(|origin| origin.from.as_ref() == Some(&origin.option))
}

/// A problem with a setting, which begins with the name of its variable, told of what was really given: the
/// option, the variable, or the context. One that was not given at all is named by both.
pub fn of_setting(problem: &str) -> String {
    let Some((variable, why)) = problem.split_once(": ") else {
        return problem.to_owned();
    };
    let mut origins = ORIGINS.get().into_iter().flat_map(BTreeMap::values);
    let Some(origin) = origins.find(|o| o.variable.as_deref() == Some(variable)) else {
        return problem.to_owned();
    };
    let option = &origin.option;
    match &origin.from {
        Some(from) if from == option || from == variable => format!("{from}: {why}"),
        Some(from) => format!("{option} (from {from}): {why}"),
        None => format!("{option} or {variable}: {why}"),
    }
}
