//! An installation that Terraform made: its output, as the defaults of the command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use anyhow::{Context, bail};
use clap::Command;
use clap::builder::Resettable;
use serde::Deserialize;

use crate::read;

/// The option that names an installation.
pub const OPTION: &str = "--from-terraform";

/// The installation that a Terraform module has made, as its output `triad` describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Installation {
    region: String,
    table_prefix: String,
    brokers: String,
    kafka_auth: String,
    kafka_secret_arn: Option<String>,
    kafka_ca_secret_arn: Option<String>,
    #[serde(default)]
    kafka_settings: BTreeMap<String, String>,
    #[serde(default)]
    agents: Vec<String>,
    #[serde(default)]
    reply_topics: Vec<String>,
    #[serde(default)]
    timing: Timing,
}

/// Spans of the installation; one that is not set has the default that its functions have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct Timing {
    skew: Option<String>,
    announce_within: Option<String>,
    queue_within: Option<String>,
    retention: Option<String>,
    #[serde(default)]
    details_retention: Option<String>,
}

#[derive(Deserialize)]
struct Outputs {
    triad: Output,
}

#[derive(Deserialize)]
struct Output {
    value: Installation,
}

/// What an option such as `--from-terraform` names; `None` if the option is not given. It is looked for
/// before the command line is parsed, because its content supplies defaults for other options.
pub fn named(arguments: &[OsString], option: &str) -> Option<PathBuf> {
    let own = arguments.iter().take_while(|a| *a != "--");
    let mut own = own.map(|a| a.to_string_lossy());
    while let Some(argument) = own.next() {
        if argument == option {
            return own.next().map(|path| PathBuf::from(&*path));
        }
        let value = argument
            .strip_prefix(option)
            .and_then(|rest| rest.strip_prefix('='));
        if let Some(path) = value {
            return Some(PathBuf::from(path));
        }
    }
    None
}

impl Installation {
    /// Reads the installation from a file with the output of `terraform output -json`. If `path` is
    /// a directory, that command is run in it.
    ///
    /// # Errors
    /// If the file cannot be read or `terraform` fails, or if it has no output `triad` of the
    /// expected form. No value of the output is in the error.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let json = if path.is_dir() {
            let mut terraform = Process::new("terraform");
            terraform
                .arg(format!("-chdir={shown}"))
                .args(["output", "-json"]);
            let said = terraform.output().with_context(|| {
                format!("{OPTION} {shown}: the program terraform cannot be started; is it installed? A file with what `terraform output -json` says will do, too")
            })?;
            if !said.status.success() {
                let why = String::from_utf8_lossy(&said.stderr);
                bail!("terraform output in {shown}: {}", why.trim());
            }
            said.stdout
        } else {
            let why = |e| anyhow::anyhow!("{OPTION} {shown}: {}", read::why(path, &e));
            std::fs::read(path).map_err(why)?
        };
        Self::parse(&json).with_context(|| {
            format!("{OPTION} {shown}: no output `triad` in it; has it been applied, and does the root module hand the output on?")
        })
    }

    /// What serde says of a value may quote it, and the settings of Kafka may have a password among
    /// them: of an error its place alone is told.
    fn parse(json: &[u8]) -> anyhow::Result<Self> {
        let outputs = serde_json::from_slice::<Outputs>(json);
        let outputs = outputs.map_err(|e| {
            let (line, column) = (e.line(), e.column());
            anyhow::anyhow!(
                "not of the form that the module gives it (line {line}, column {column})"
            )
        })?;
        Ok(outputs.triad.value)
    }

    /// The command line, in which the installation's values are the defaults of the options of
    /// all commands. Environment variables of these options are ignored, because they may be meant
    /// for another installation.
    pub fn defaults_of(&self, command: Command) -> Command {
        let settings: Vec<String> = self
            .kafka_settings
            .iter()
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        let one = |value: &str| vec![value.to_owned()];
        let some = |value: &Option<String>| value.iter().cloned().collect();
        let defaults = BTreeMap::from([
            ("brokers", one(&self.brokers)),
            ("table_prefix", one(&self.table_prefix)),
            ("region", one(&self.region)),
            ("kafka_region", one(&self.region)),
            ("way", one(&self.kafka_auth)),
            ("secret", some(&self.kafka_secret_arn)),
            ("ca_secret", some(&self.kafka_ca_secret_arn)),
            ("kafka_setting", settings),
            ("agents", self.agents.clone()),
            ("reply_topic", self.reply_topics.clone()),
            ("skew", some(&self.timing.skew)),
            ("announce_within", some(&self.timing.announce_within)),
            ("queue_within", some(&self.timing.queue_within)),
            ("retention", some(&self.timing.retention)),
            ("details_retention", some(&self.timing.details_retention)),
        ]);
        apply(command, &defaults)
    }
}

fn apply(command: Command, defaults: &BTreeMap<&'static str, Vec<String>>) -> Command {
    let command = command.mut_args(|arg| {
        let Some(values) = defaults.get(arg.get_id().as_str()) else {
            return arg;
        };
        let arg = arg.env(Resettable::Reset);
        match values.is_empty() {
            true => arg,
            false => arg.required(false).default_values(values.clone()),
        }
    });
    command.mut_subcommands(|command| apply(command, defaults))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    const OUTPUT: &[u8] =
        br#"{"kms_key_arn": {"value": "k"}, "triad": {"sensitive": false, "type": "object",
        "value": {"region": "eu-west-1", "table_prefix": "shop-", "brokers": "b:9098",
            "kafka_auth": "scram", "kafka_secret_arn": "arn:s", "kafka_ca_secret_arn": null,
            "kafka_settings": {"sasl.mechanisms": "SCRAM-SHA-512"}, "agents": ["payment"],
            "timing": {"skew": null, "announce_within": null, "queue_within": null, "retention": "90days"}}}}"#;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn the_option_is_found_wherever_it_stands() {
        let dir = Some(PathBuf::from("dir"));
        assert_eq!(
            named(
                &words(&["triad", "--from-terraform", "dir", "list"]),
                OPTION
            ),
            dir
        );
        assert_eq!(
            named(&words(&["triad", "list", "--from-terraform=dir"]), OPTION),
            dir
        );
        assert_eq!(
            named(&words(&["triad", "list", "--state", "Error"]), OPTION),
            None
        );
        assert_eq!(
            named(
                &words(&["triad", "get", "--", "--from-terraform", "x"]),
                OPTION
            ),
            None
        );
    }

    #[test]
    fn an_installation_s_values_are_defaults_of_every_command() {
        let installation = Installation::parse(OUTPUT).unwrap();
        let command = || installation.defaults_of(crate::Cli::command());
        let found = command().get_matches_from(["triad", "submit", "file"]);
        let submit = found.subcommand_matches("submit").unwrap();
        assert_eq!(submit.get_one::<String>("brokers").unwrap(), "b:9098");
        assert_eq!(submit.get_one::<String>("secret").unwrap(), "arn:s");
        assert_eq!(
            submit.get_one::<String>("kafka_region").unwrap(),
            "eu-west-1"
        );
        let settings = submit.get_one::<(String, String)>("kafka_setting").unwrap();
        assert_eq!(settings.1, "SCRAM-SHA-512");
        let found = command().get_matches_from(["triad", "list", "--table-prefix", "mine-"]);
        let list = found.subcommand_matches("list").unwrap();
        assert_eq!(list.get_one::<String>("table_prefix").unwrap(), "mine-");
        assert_eq!(list.get_one::<String>("region").unwrap(), "eu-west-1");
        assert_eq!(list.get_one::<String>("retention").unwrap(), "90days");
        assert_eq!(list.get_one::<String>("skew"), None, "its default holds");
        let letters = command().get_matches_from(["triad", "dead-letters", "list"]);
        let (_, letters) = letters.subcommand().unwrap();
        let (_, list) = letters.subcommand().unwrap();
        assert_eq!(list.get_one::<String>("brokers").unwrap(), "b:9098");
    }

    #[test]
    fn no_setting_of_kafka_is_shown() {
        let bad = br#"{"triad": {"value": {"kafka_settings": {"sasl.password": 4711}}}}"#;
        let error = format!("{:#}", Installation::parse(bad).expect_err("a number"));
        assert!(!error.contains("4711"), "{error}");
        let text = String::from_utf8_lossy(OUTPUT).replace("SCRAM-SHA-512", "hidden");
        let installation = Installation::parse(text.as_bytes()).expect("it is an output");
        let mut command = installation.defaults_of(crate::Cli::command());
        let submit = command.find_subcommand_mut("submit").expect("a command");
        let help = submit.render_long_help().to_string();
        assert!(help.contains("--kafka-setting"), "{help}");
        assert!(!help.contains("hidden"), "{help}");
    }

    #[test]
    fn an_output_of_something_else_is_refused() {
        assert!(Installation::parse(b"{}").is_err());
        assert!(Installation::parse(br#"{"triad": {"value": {"region": "x"}}}"#).is_err());
    }
}
