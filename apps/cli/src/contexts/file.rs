//! The file of contexts: its path and its content.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use triad_bootstrap::environment;

use crate::output::Usage;
use crate::user_files;
use crate::values::Values;

/// Variable with the path of another file.
pub const FILE: &str = "TRIAD_CONTEXTS";

/// All contexts of a user, and the one in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// The context in use, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The contexts by name.
    #[serde(default)]
    pub contexts: BTreeMap<String, Context>,
}

/// One installation: addresses, and names of secrets. It holds no secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// Kafka bootstrap addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brokers: Option<String>,
    /// DynamoDB endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamodb: Option<String>,
    /// Whether the tables are in AWS.
    #[serde(default)]
    pub aws: bool,
    /// AWS region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Prefix of the tables' names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// How to log in to Kafka.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka_auth: Option<String>,
    /// Secret in Secrets Manager with the credentials: its name, never its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka_secret: Option<String>,
    /// Secret in Secrets Manager with the brokers' CA: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka_ca_secret: Option<String>,
    /// Whether acts on this installation must be confirmed by its name.
    #[serde(default)]
    pub production: bool,
}

impl Context {
    /// The context's values as defaults of options.
    pub fn values(&self) -> Values {
        let aws = self.aws.then(|| "true".to_owned());
        let values = [
            ("brokers", &self.brokers),
            ("dynamodb", &self.dynamodb),
            ("aws", &aws),
            ("region", &self.region),
            ("kafka_region", &self.region),
            ("prefix", &self.prefix),
            ("way", &self.kafka_auth),
            ("secret", &self.kafka_secret),
            ("ca_secret", &self.kafka_ca_secret),
        ];
        let values = values.into_iter();
        values
            .map(|(id, value)| (id, value.iter().cloned().collect()))
            .collect()
    }
}

/// Path of the file: the variable `TRIAD_CONTEXTS`, else `triad/contexts.json` under `XDG_CONFIG_HOME`, else under
/// `~/.config`. `None` if none of the variables is set.
pub fn path() -> Option<PathBuf> {
    if let Some(file) = environment(FILE) {
        return Some(file.into());
    }
    let home = || Some(PathBuf::from(environment("HOME")?).join(".config"));
    let directory = environment("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(home);
    Some(directory?.join("triad").join("contexts.json"))
}

/// Path of the file, as [`path()`] gives it, for commands that need one.
///
/// # Errors
/// [`Usage`] naming the variables that are not set.
pub fn known_path() -> Result<PathBuf, Usage> {
    path().ok_or_else(|| {
        let text = format!(
            "the path of the file of contexts is unknown: set {FILE}, XDG_CONFIG_HOME or HOME"
        );
        Usage(text)
    })
}

impl Contexts {
    /// Reads the file; a missing file has no contexts.
    ///
    /// # Errors
    /// [`Usage`] naming the file, if it cannot be read or is not one of contexts.
    pub fn read(path: &Path) -> Result<Self, Usage> {
        let shown = path.display();
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => {
                let why = user_files::why(path, &e);
                return Err(Usage(format!("the contexts in {shown}: {why}")));
            }
        };
        serde_json::from_str(&text).map_err(|e| {
            Usage(format!(
                "the contexts in {shown} cannot be read: {e}; mend the file, or remove it and add them again"
            ))
        })
    }

    /// Replaces the whole file, and creates its directory.
    ///
    /// # Errors
    /// Naming the file, if that is not possible; the old file stays then.
    pub fn write(&self, path: &Path) -> Result<()> {
        let named = || format!("the contexts in {} cannot be written", path.display());
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(directory).with_context(named)?;
        let text = serde_json::to_string_pretty(self)?;
        user_files::replace(path, &format!("{text}\n")).with_context(named)
    }

    /// The context of this name.
    ///
    /// # Errors
    /// [`Usage`] naming the existing contexts, and the file.
    pub fn named(&self, name: &str, path: &Path) -> Result<&Context, Usage> {
        self.contexts.get(name).ok_or_else(|| {
            let shown = path.display();
            if self.contexts.is_empty() {
                let text = format!("there is no context {name:?}, nor any other, in {shown}: triad context add makes one");
                return Usage(text);
            }
            let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            let known = known.join(", ");
            Usage(format!("there is no context {name:?} in {shown}; there are: {known}"))
        })
    }
}
