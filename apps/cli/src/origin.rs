//! Origins of option values, for the messages about wrong ones; and the values themselves, where several parts of a
//! command need one.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// An option of the given command.
struct Origin {
    /// The option as typed, such as `--brokers`.
    option: String,
    /// The option's variable, if any.
    variable: Option<String>,
    /// Its value, if it is one text.
    value: Option<String>,
    /// Origin of its value: the option, the variable, or the text for an installation. `None`: the option's own
    /// default, or no value.
    from: Option<String>,
}

/// The origins, by option id.
static ORIGINS: OnceLock<BTreeMap<String, Origin>> = OnceLock::new();

/// Stores the origin of each option's value. `installation` is the source of default values, such as `the context
/// shop`; `None` if there is none. `command` has all variables.
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
        let values = matches.try_get_raw(arg.get_id().as_str()).ok().flatten();
        let value = values.and_then(|mut all| Some(all.next()?.to_str()?.to_owned()));
        let origin = Origin {
            option,
            value,
            variable,
            from,
        };
        Some((arg.get_id().to_string(), origin))
    });
    // Set once, at the start.
    let _ = ORIGINS.set(origins.collect());
}

fn saved_origin(id: &str) -> Option<&'static Origin> {
    ORIGINS.get()?.get(id)
}

/// Origin of an option's value, as ` (from TRIAD_BROKERS)`; empty if it is unknown.
pub fn origin(id: &str) -> String {
    source(id).map_or_else(String::new, |from| format!(" (from {from})"))
}

/// Origin of an option's value, as `TRIAD_BROKERS`; `None` if it is unknown.
pub fn source(id: &str) -> Option<&'static str> {
    saved_origin(id)?.from.as_deref()
}

/// The value of an option of the given command; `None` if the command has no such option, or it has no value.
pub fn value(id: &str) -> Option<&'static str> {
    saved_origin(id)?.value.as_deref()
}

/// Whether an option was given on the command line itself.
pub fn is_on_command_line(id: &str) -> bool {
    saved_origin(id).is_some_and(|origin| origin.from.as_ref() == Some(&origin.option))
}

/// Rewrites a problem that begins with a setting's variable, so that it names the actual origin of the value: the
/// option, the variable, or the context. For a missing value it names both the option and the variable.
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
