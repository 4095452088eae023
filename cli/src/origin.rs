//! Where the values of options came from: it is said where one of them is wrong.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use clap::ArgMatches;
use clap::parser::ValueSource;

/// The options whose values may come from elsewhere, by their ids, with the words for where.
const OPTIONS: [(&str, &str, &str); 5] = [
    ("brokers", "--brokers", "TRIAD_BROKERS"),
    ("dynamodb", "--dynamodb", "TRIAD_DYNAMODB_ENDPOINT"),
    ("table_prefix", "--table-prefix", "TRIAD_TABLE_PREFIX"),
    ("region", "--region", ""),
    ("aws", "--aws", ""),
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

/// Whether an option was given on the command line itself.
pub fn is_on_command_line(id: &str) -> bool {
    let option = OPTIONS.iter().find(|(known, _, _)| *known == id);
    let from = ORIGINS.get().and_then(|origins| origins.get(id));
    option.is_some_and(|(_, option, _)| from.is_some_and(|from| from == option))
}
