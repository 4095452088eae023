//! Secrets by reference: named in the settings, never written down there, and read anew when they change.
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

/// Where a secret is: in exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, deny_unknown_fields)]
pub enum SecretRef {
    /// An environment variable, read at the start.
    Env {
        /// Name of the variable.
        env: String,
    },
    /// A file, without blanks and line ends around its text. It is read again when it has changed.
    File {
        /// Path of the file.
        file: PathBuf,
    },
    /// A secret of AWS Secrets Manager. It is read when it is needed first, again after 5 minutes, and again after the
    /// service has answered `401`.
    Managed {
        /// ARN or name of the secret.
        secret: String,
        /// The field that is the secret, of a secret that is a JSON object. Absent: the whole text.
        #[serde(default)]
        field: Option<String>,
    },
}

/// A secret that is read as its reference says.
pub(crate) enum Secret {
    /// The text of an environment variable.
    Fixed(String),
    /// A file, with its text and the time of its last change.
    File(PathBuf, Mutex<(String, Option<SystemTime>)>),
    /// A secret of Secrets Manager.
    Managed(Box<ManagedSecret>),
}

impl Secret {
    /// Reads a secret of the environment or of a file. One of Secrets Manager is read by [`Secret::now`].
    ///
    /// # Errors
    /// [`HttpSettingsError::Secret`] if it cannot be read, with where it should be; [`HttpSettingsError::NoAws`] for
    /// one of Secrets Manager, if there is no account of AWS.
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

    /// The secret as it is known without a call of Secrets Manager. While its file cannot be read, as in the moment of
    /// a rotation, the last text counts.
    pub(crate) fn at_hand(&self) -> Option<String> {
        match self {
            Self::Fixed(text) => Some(text.clone()),
            Self::File(file, known) => {
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                let changed = changed(file);
                if changed.is_some() && changed != known.1 {
                    match read(file) {
                        Ok(text) if !text.is_empty() => *known = (text, changed),
                        Ok(_) => tracing::warn!(file = %file.display(), "a secret's file is empty"),
                        Err(why) => tracing::warn!(why, "a secret cannot be read again"),
                    }
                }
                Some(known.0.clone())
            }
            Self::Managed(managed) => managed.text(),
        }
    }

    /// The secret as it is now. Secrets Manager is waited for at most `within`.
    ///
    /// # Errors
    /// The fault of a call that was not made because Secrets Manager does not return the secret, and it is not known
    /// from before: the call had no effect.
    pub(crate) async fn now(&self, within: Duration) -> Result<String, Fault> {
        match self {
            Self::Managed(managed) => managed.now(within).await,
            _ => Ok(self.at_hand().unwrap_or_default()),
        }
    }

    /// The service did not accept the secret: one of Secrets Manager is read anew by the next call.
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
