//! The login of the Kafka port, where there are tokens: a client logs in by PLAIN with a token as its password.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use triad_broker::{Grant, SaslConfig, TokenCheck, TokenRefused};
use triad_ingress::{NewToken, Role, Tokens};
use triad_kafka::KafkaConfig;

/// After so long a client has to log in again: a token that was taken out of the file is of no more use then.
const LOGIN: Duration = Duration::from_secs(3_600);

/// Whose tokens are taken: those of the file with the role `operate`, because whoever has logged in may read and
/// write every topic, and this installation's own.
struct Check {
    file: PathBuf,
    own: Tokens,
}

impl TokenCheck for Check {
    /// It reads the file, which has a bound, once for each login.
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

/// Who may log in, where there is a file of tokens. This installation's own clients, and commands that are given its
/// data directory, do so with a token that is made anew at each start: `kafka` gets it.
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
