//! Secrets by reference: settings name where a secret is and never hold it. Secrets are read again when they change.
//!
//! Architecture invariant: no secret is in an error, a log or the output of `Debug`.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock as _, Fault};

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

/// Least time between two warnings that a file cannot be read, in milliseconds: 30 s.
const WARN_EVERY: u64 = 30_000;

/// A secret, read as its reference says.
pub(crate) enum Secret {
    /// The text of an environment variable.
    Fixed(String),
    /// A file.
    File(PathBuf, Mutex<OfFile>),
    /// A secret of Secrets Manager.
    Managed(Box<ManagedSecret>),
}

/// What was read from a file.
pub(crate) struct OfFile {
    text: String,
    /// The time of the file's last change.
    changed: Option<SystemTime>,
    /// When the next warning may be written, in milliseconds since 1970.
    next_warning: u64,
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
                let known = Mutex::new(OfFile {
                    text,
                    changed: changed(file),
                    next_warning: 0,
                });
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
                if changed.is_some() && changed != known.changed {
                    let why = match read(file) {
                        Ok(text) if text.is_empty() => Some(format!("{} is empty", file.display())),
                        Ok(text) => {
                            (known.text, known.changed) = (text, changed);
                            None
                        }
                        Err(why) => Some(why),
                    };
                    let now = SystemClock.now().0;
                    if let Some(why) = why.filter(|_| now >= known.next_warning) {
                        known.next_warning = now.saturating_add(WARN_EVERY);
                        let text =
                            "the file of a secret cannot be read again: its last text is used";
                        tracing::warn!(why, "{text}");
                    }
                }
                Some(known.text.clone())
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
