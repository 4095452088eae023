//! An installation made by Terraform: its output, as defaults of the command line's options.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command as Process;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::user_files;
use crate::values::Values;

/// The option for Terraform's output.
const OPTION: &str = "--from-terraform";

/// The installation that a Terraform module has made, as its output `triad` describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Output {
    region: String,
    #[serde(default)]
    account: Option<String>,
    prefix: String,
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
    /// What `triad doctor` examines.
    #[serde(default)]
    setup: Option<serde_json::Value>,
}

/// Time spans of the installation; an unset one has the default of its functions.
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
    triad: Named,
}

#[derive(Deserialize)]
struct Named {
    value: Output,
}

impl Output {
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
            let why = |e| anyhow::anyhow!("{OPTION} {shown}: {}", user_files::why(path, &e));
            std::fs::read(path).map_err(why)?
        };
        Self::parse(&json).with_context(|| {
            format!("{OPTION} {shown}: no output `triad` in it; has it been applied, and does the root module hand the output on?")
        })
    }

    /// Parses the output. Errors have only the position: serde's text may quote a value, and the Kafka settings may
    /// have a password.
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

    /// The outputs' values as defaults of options.
    pub fn values(&self) -> Values {
        let settings = self.kafka_settings.iter();
        let settings = settings.map(|(name, value)| format!("{name}={value}"));
        let one = |value: &str| vec![value.to_owned()];
        let some = |value: &Option<String>| value.iter().cloned().collect();
        Values::from([
            ("brokers", one(&self.brokers)),
            ("prefix", one(&self.prefix)),
            ("region", one(&self.region)),
            ("account", some(&self.account)),
            ("kafka_region", one(&self.region)),
            ("way", one(&self.kafka_auth)),
            ("secret", some(&self.kafka_secret_arn)),
            ("ca_secret", some(&self.kafka_ca_secret_arn)),
            ("kafka_setting", settings.collect()),
            ("agents", self.agents.clone()),
            ("reply_topic", self.reply_topics.clone()),
            ("skew", some(&self.timing.skew)),
            ("announce_within", some(&self.timing.announce_within)),
            ("queue_within", some(&self.timing.queue_within)),
            ("retention", some(&self.timing.retention)),
            ("details_retention", some(&self.timing.details_retention)),
            (
                "setup",
                self.setup.iter().map(ToString::to_string).collect(),
            ),
        ])
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    const OUTPUT: &[u8] =
        br#"{"kms_key_arn": {"value": "k"}, "triad": {"sensitive": false, "type": "object",
        "value": {"region": "eu-west-1", "prefix": "shop-", "brokers": "b:9098",
            "kafka_auth": "scram", "kafka_secret_arn": "arn:s", "kafka_ca_secret_arn": null,
            "kafka_settings": {"sasl.mechanisms": "SCRAM-SHA-512"}, "agents": ["payment"],
            "timing": {"skew": null, "announce_within": null, "queue_within": null, "retention": "90days"}}}}"#;

    #[test]
    fn each_value_of_the_output_belongs_to_an_option() {
        let values = Output::parse(OUTPUT).unwrap().values();
        for (id, value) in [
            ("brokers", "b:9098"),
            ("secret", "arn:s"),
            ("kafka_region", "eu-west-1"),
            ("kafka_setting", "sasl.mechanisms=SCRAM-SHA-512"),
            ("retention", "90days"),
        ] {
            assert_eq!(values[id], [value], "{id}");
        }
        assert!(
            values["skew"].is_empty(),
            "the default of the functions holds"
        );
        // Each key is the id of an option, or its value would be lost.
        let command = crate::Cli::command();
        let mut commands = vec![&command];
        let mut ids = std::collections::BTreeSet::new();
        while let Some(command) = commands.pop() {
            ids.extend(command.get_arguments().map(|arg| arg.get_id().as_str()));
            commands.extend(command.get_subcommands());
        }
        assert!(values.keys().all(|id| ids.contains(id)), "{values:?}");
    }

    #[test]
    fn an_error_shows_no_value_of_the_output() {
        let bad = br#"{"triad": {"value": {"kafka_settings": {"sasl.password": 4711}}}}"#;
        let error = format!("{:#}", Output::parse(bad).expect_err("a number"));
        assert!(!error.contains("4711"), "{error}");
    }

    #[test]
    fn an_output_of_something_else_is_refused() {
        assert!(Output::parse(b"{}").is_err());
        assert!(Output::parse(br#"{"triad": {"value": {"region": "x"}}}"#).is_err());
    }
}
