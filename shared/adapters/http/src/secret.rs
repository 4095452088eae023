//! Secrets by reference: settings name where a secret is and never hold it. Secrets are read again when they change.
//!
//! Architecture invariant: no secret is in an error, a log or the output of `Debug`.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use triad_runtime::Fault;

use super::HttpSettingsError;
use super::aws::{AwsAccount, ManagedSecret};

/// Largest secret, in bytes, inclusive: 64 KiB.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// The place of a secret: exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, deny_unknown_fields)]
pub enum SecretRef {
    /// An environment variable, read at the start.
    Env {
        /// Name of the variable.
        env: String,
    },
    /// A file; blanks and line ends around its text are left out. It is read again when it has changed.
    File {
        /// Path of the file.
        file: PathBuf,
    },
    /// A secret of AWS Secrets Manager. It is read when it is first needed, after 5 minutes, and after the service has
    /// answered `401`.
    Managed {
        /// ARN or name of the secret.
        secret: String,
        /// The field with the secret, if the text is a JSON object. Absent: the whole text.
        #[serde(default)]
        field: Option<String>,
    },
}

/// A secret, read as its reference says.
pub(crate) enum Secret {
    /// The text of an environment variable.
    Fixed(String),
    /// A file, with its text and the time of its last change.
    File(PathBuf, Mutex<(String, Option<SystemTime>)>),
    /// A secret of Secrets Manager.
    Managed(Box<ManagedSecret>),
}

impl Secret {
    /// Reads a secret of the environment or of a file. [`Secret::now`] reads a secret of Secrets Manager.
    ///
    /// # Errors
    /// [`HttpSettingsError::Secret`] if it cannot be read; the text says where it should be.
    /// [`HttpSettingsError::NoAws`] if it is in Secrets Manager and there is no account of AWS.
    pub(crate) fn new(reference: &SecretRef, aws: &AwsAccount) -> Result<Self, HttpSettingsError> {
        let bad = |what: String| HttpSettingsError::Secret(what);
        let (secret, is_empty) = match reference {
            SecretRef::Env { env } => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "read once, when agents are made at the start"
                )]
                let text = std::env::var(env)
                    .map_err(|_| bad(format!("the environment variable {env} is not set")))?;
                let text = text.trim().to_owned();
                let is_empty = text.is_empty();
                (Self::Fixed(text), is_empty)
            }
            SecretRef::File { file } => {
                let text = read(file).map_err(bad)?;
                let is_empty = text.is_empty();
                let known = Mutex::new((text, changed(file)));
                (Self::File(file.clone(), known), is_empty)
            }
            SecretRef::Managed { secret, field } => {
                let managed = ManagedSecret::new(aws, secret, field.as_deref())?;
                (Self::Managed(Box::new(managed)), false)
            }
        };
        match (is_empty, reference) {
            (true, SecretRef::Env { env }) => {
                Err(bad(format!("the environment variable {env} is empty")))
            }
            (true, SecretRef::File { file }) => Err(bad(format!("{} is empty", file.display()))),
            _ => Ok(secret),
        }
    }

    /// The secret, without a call of Secrets Manager; `None` if it was not read there yet. While a secret's file cannot
    /// be read, as during a rotation, its last text is used.
    pub(crate) fn at_hand(&self) -> Option<String> {
        match self {
            Self::Fixed(text) => Some(text.clone()),
            Self::File(file, known) => {
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                let changed = changed(file);
                if changed.is_some() && changed != known.1 {
                    match read(file) {
                        Ok(text) if !text.is_empty() => *known = (text, changed),
                        Ok(_) => {
                            tracing::warn!(file = %file.display(), "the file of a secret is empty: its last text is used")
                        }
                        Err(why) => tracing::warn!(
                            why,
                            "the file of a secret cannot be read again: its last text is used"
                        ),
                    }
                }
                Some(known.0.clone())
            }
            Self::Managed(managed) => managed.text(),
        }
    }

    /// The secret as it is now. It waits for Secrets Manager at most `within`.
    ///
    /// # Errors
    /// The fault of a call that was not made, and so had no effect, because Secrets Manager has never returned the
    /// secret.
    pub(crate) async fn now(&self, within: Duration) -> Result<String, Fault> {
        match self {
            Self::Managed(managed) => managed.now(within).await,
            _ => Ok(self.at_hand().unwrap_or_default()),
        }
    }

    /// Notes that the service did not accept the secret: the next call reads it again if it is in Secrets Manager.
    pub(crate) fn refused(&self) {
        if let Self::Managed(managed) = self {
            managed.refused();
        }
    }
}

fn changed(file: &PathBuf) -> Option<SystemTime> {
    std::fs::metadata(file).ok()?.modified().ok()
}

fn read(file: &PathBuf) -> Result<String, String> {
    use std::io::Read as _;
    let why = |e: std::io::Error| format!("{}: {e}", file.display());
    let open = std::fs::File::open(file).map_err(why)?;
    let mut text = String::new();
    let read = open.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text);
    match read.map_err(why)? as u64 > MAX_SECRET_BYTES {
        true => Err(format!(
            "{} has more than {MAX_SECRET_BYTES} bytes",
            file.display()
        )),
        false => Ok(text.trim().to_owned()),
    }
}
