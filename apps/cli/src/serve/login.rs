//! The login of the Kafka port, if there are tokens: a client logs in with SASL/PLAIN and a token as its password.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use triad_broker::{Grant, SaslConfig, TokenCheck, TokenRefused};
use triad_ingress::{NewToken, Role, Tokens};
use triad_kafka::KafkaConfig;

/// Interval after which a client must log in again, so that a removed token becomes invalid.
const LOGIN: Duration = Duration::from_secs(3_600);

/// The accepted tokens: those of the file with the role `operate`, because a logged-in client may read and write
/// every topic, and this installation's own.
struct Check {
    file: PathBuf,
    own: Tokens,
}

impl TokenCheck for Check {
    /// Reads the file of tokens, which is bounded, at each login.
    fn check(&self, token: &str) -> Result<Grant, TokenRefused> {
        let named = |e| TokenRefused(format!("{}: {e}", self.file.display()));
        let of_file = match self.own.find(token.as_bytes()) {
            Some(_) => Tokens::default(),
            None => Tokens::read(&self.file).map_err(named)?,
        };
        let found = [&self.own, &of_file];
        let mut found = found.iter().filter_map(|t| t.find(token.as_bytes()));
        match found.next() {
            Some(entry) if entry.may(Role::Operate) => Ok(Grant {
                name: entry.name.clone(),
                ends_in: LOGIN,
            }),
            Some(entry) => {
                let why = format!("the token {} has not the role operate", entry.name);
                Err(TokenRefused(why))
            }
            None => Err(TokenRefused("the token is not known".to_owned())),
        }
    }
}

/// The check of logins, if there is a file of tokens. This installation's own clients, and commands with its data
/// directory, use a token that is generated at each start and stored in `kafka`.
///
/// # Errors
/// If the system has no random bytes.
pub fn of(tokens: Option<PathBuf>, kafka: &mut KafkaConfig) -> Result<Option<SaslConfig>> {
    let Some(file) = tokens else { return Ok(None) };
    let made = NewToken::make("triad", &[Role::Operate])?;
    let settings = [
        ("security.protocol", "sasl_plaintext"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "triad"),
        ("sasl.password", &made.token),
    ];
    let settings = settings.into_iter();
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    kafka.extra.extend(settings);
    let own = made.line.parse()?;
    Ok(Some(SaslConfig {
        tokens: Some(Arc::new(Check { file, own })),
        ..SaslConfig::default()
    }))
}
