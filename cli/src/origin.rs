//! Where the values of options came from: it is said where one of them is wrong.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::OnceLock;

use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use triad_bootstrap::environment;

/// The options whose values may come from elsewhere, by their ids, with the words for where.
const OPTIONS: [(&str, &str, &str); 14] = [
    ("brokers", "--brokers", "TRIAD_BROKERS"),
    ("dynamodb", "--dynamodb", "TRIAD_DYNAMODB_ENDPOINT"),
    ("data", "--data", "TRIAD_DATA"),
    ("table_prefix", "--table-prefix", "TRIAD_TABLE_PREFIX"),
    ("region", "--region", ""),
    ("aws", "--aws", ""),
    ("skew", "--skew", "TRIAD_SKEW"),
    ("queue_within", "--queue-within", "TRIAD_QUEUE_WITHIN"),
    (
        "announce_within",
        "--announce-within",
        "TRIAD_ANNOUNCE_WITHIN",
    ),
    ("retention", "--retention", "TRIAD_RETENTION"),
    (
        "details_retention",
        "--details-retention",
        "TRIAD_DETAILS_RETENTION",
    ),
    ("way", "--kafka-auth", "TRIAD_KAFKA_AUTH"),
    ("secret", "--kafka-secret", "TRIAD_KAFKA_SECRET"),
    ("ca_secret", "--kafka-ca-secret", "TRIAD_KAFKA_CA_SECRET"),
];

static ORIGINS: OnceLock<BTreeMap<&'static str, String>> = OnceLock::new();

/// Keeps where each option's value came from. `defaults` is what the values that nobody gave were
/// taken from, such as `the context shop`; `None` if from nowhere.
pub fn keep(matches: &ArgMatches, defaults: Option<&str>) {
    let mut matches = matches;
    while let Some((_, deeper)) = matches.subcommand() {
        matches = deeper;
    }
    let mut origins = BTreeMap::new();
    for (id, option, variable) in OPTIONS {
        // A command that does not have the option has no value of it.
        let source = matches
            .try_contains_id(id)
            .ok()
            .and_then(|_| matches.value_source(id));
        let from = match source {
            Some(ValueSource::CommandLine) => Some(option.to_owned()),
            Some(ValueSource::EnvVariable) => Some(variable.to_owned()),
            Some(ValueSource::DefaultValue) => defaults.map(str::to_owned),
            _ => None,
        };
        if let Some(from) = from {
            origins.insert(id, from);
        }
    }
    // It is kept once.
    let _ = ORIGINS.set(origins);
}

/// Where the value of an option came from, as ` (from TRIAD_BROKERS)`; empty if that is not known.
pub fn origin(id: &str) -> String {
    let from = ORIGINS.get().and_then(|origins| origins.get(id));
    from.map_or_else(String::new, |from| format!(" (from {from})"))
}

/// What the value of an option came from, as `TRIAD_BROKERS`; `None` if that is not known.
pub fn source(id: &str) -> Option<&'static str> {
    let origins = ORIGINS.get()?;
    origins.get(id).map(String::as_str)
}

/// A problem with a setting, which begins with the name of its variable, told of what was really given: the
/// option, the variable, or the context. One that was not given at all is named by both.
pub fn of_setting(problem: &str) -> String {
    let Some((variable, why)) = problem.split_once(": ") else {
        return problem.to_owned();
    };
    let known = OPTIONS.iter().find(|(_, _, name)| *name == variable);
    let Some((id, option, _)) = known else {
        return problem.to_owned();
    };
    match ORIGINS.get().and_then(|origins| origins.get(id)) {
        Some(from) if from == option || from == variable => format!("{from}: {why}"),
        Some(from) => format!("{option} (from {from}): {why}"),
        None => format!("{option} or {variable}: {why}"),
    }
}

/// The variable that an option's value was taken from which the command line refuses, if it was: the text of
/// the refusal names the option alone.
pub fn variable_of(refused: &clap::Error, arguments: &[OsString]) -> Option<&'static str> {
    let kinds = [ErrorKind::ValueValidation, ErrorKind::InvalidValue];
    let argument = match refused.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) if kinds.contains(&refused.kind()) => argument,
        _ => return None,
    };
    let refused = argument.split_whitespace().next()?;
    let (_, option, variable) = OPTIONS.iter().find(|(_, option, _)| *option == refused)?;
    let is_given = arguments.iter().any(|given| {
        let given = given.to_string_lossy();
        given.split_once('=').map_or(&*given, |(name, _)| name) == *option
    });
    (!is_given && environment(variable).is_some()).then_some(*variable)
}

/// Whether an option was given on the command line itself.
pub fn is_on_command_line(id: &str) -> bool {
    let option = OPTIONS.iter().find(|(known, _, _)| *known == id);
    let from = ORIGINS.get().and_then(|origins| origins.get(id));
    option.is_some_and(|(_, option, _)| from.is_some_and(|from| from == option))
}
