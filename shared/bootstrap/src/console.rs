//! The operators' API and pages behind a function's URL.
//!
//! Sandboxes are started and stopped at any time, and share no memory. Therefore sessions are in the browsers'
//! cookies, sealed with a key that every sandbox has, and a request for events gets the present events and is
//! repeated. The URL is public, so every request needs a token.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Collected};
use triad_console::tokens::Tokens;
use triad_console::{
    Answer, Answers, Console, Hidden, Keys, MAX_BODY_BYTES, NoRandom, Parts, SessionForm,
    SessionKey, Settings, elsewhere,
};
use triad_lambda::{RunConfig, RunError};
use triad_mcp::{Mcp, Mounted, NoPages};
use triad_runtime::system::{SystemClock, SystemEntropy};

use crate::lambda;
use crate::letters::KafkaTopics;
use crate::reader::{ConfigError, Reader};
use crate::wiring::{Store, Wiring};

/// Settings of the console behind a function's URL, in addition to the [`Config`](crate::Config) of every
/// function. The variable that each is read from is in brackets.
#[derive(Debug)]
pub struct ConsoleConfig {
    /// The tokens of the accepted callers (`TRIAD_CONSOLE_TOKENS`: lines as `triad token` prints them; required).
    pub tokens: Tokens,
    /// Whether every act is refused (`TRIAD_CONSOLE_READ_ONLY`: true or false; absent: false), the fields whose
    /// values are not shown (`TRIAD_CONSOLE_HIDDEN`, separated by commas; absent: none), the name of the installation
    /// on the pages (`TRIAD_CONSOLE_NAME`; absent: empty), and the key of the sessions (`TRIAD_CONSOLE_KEY`,
    /// required: a random text of at least 32 bytes that only the sandboxes have). Cookies are for TLS only, and
    /// every answer is sent as a whole.
    pub settings: Settings,
}

impl ConsoleConfig {
    /// Reads the settings. `lookup` returns the value of the variable with this name; `None` if it is not
    /// set.
    ///
    /// # Errors
    /// [`ConfigError`] with every setting that is missing or wrong. The key is not quoted.
    pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut r = Reader::new(lookup);
        let lines = "give a line of `triad token NAME --role operate` for each operator";
        let tokens = r.needed("TRIAD_CONSOLE_TOKENS", lines, |text| {
            text.parse::<Tokens>().map_err(|e| e.to_string())
        });
        let random = "give a random text, the same for every sandbox";
        let key = r.needed("TRIAD_CONSOLE_KEY", random, |text| {
            SessionKey::of(text).map_err(|e| e.to_string())
        });
        let read_only = r.parsed("TRIAD_CONSOLE_READ_ONLY", false, |text| {
            text.parse()
                .map_err(|_| format!("{text:?} is neither true nor false"))
        });
        let hidden = r.text("TRIAD_CONSOLE_HIDDEN").unwrap_or_default();
        let name = r.text("TRIAD_CONSOLE_NAME").unwrap_or_default();
        let (Some(tokens), Some(key)) = (tokens, key) else {
            return Err(ConfigError(r.problems));
        };
        r.end(Self {
            tokens,
            settings: Settings {
                read_only,
                hidden: Hidden::of(hidden.split(',').map(str::to_owned)),
                // A function's URL is reached only over TLS.
                secure: true,
                name,
                sessions: SessionForm::Sealed(key),
                whole_answers: true,
                ..Settings::default()
            },
        })
    }
}

/// The console behind a function's URL: it answers the requests of operators with a token. Clones share it.
#[derive(Clone)]
pub struct AtUrl {
    operators: Arc<dyn Answers>,
    keys: Arc<dyn Keys>,
}

impl AtUrl {
    /// Makes the console over the clients of a function. The Model Context Protocol is offered beside it, only with
    /// the tools that read.
    ///
    /// # Errors
    /// [`NoRandom`] if the system gives no random numbers.
    pub fn over(wiring: &Wiring<Store>, config: ConsoleConfig) -> Result<Self, NoRandom> {
        let parts = Parts {
            store: wiring.store.clone(),
            bus: wiring.bus.clone(),
            clock: SystemClock,
            entropy: SystemEntropy,
            operator: wiring.operator(),
            topics: KafkaTopics::of(wiring.config.kafka.clone()),
        };
        let api = Arc::new(Console::new(parts, config.settings)?);
        let acts = triad_mcp::Settings { acts: false };
        let mcp = Mcp::new(SystemClock, SystemEntropy, acts, NoPages);
        Ok(Self {
            operators: Arc::new(Mounted::new(api, mcp)),
            keys: Arc::new(config.tokens),
        })
    }

    /// Answers a request, with the whole body. The request's body must have at most [`MAX_BODY_BYTES`] bytes; [`run`]
    /// ensures this. A path that is neither the console's nor that of the Model Context Protocol is answered as
    /// [`elsewhere`] does. A refusal or a failure is an answer, too.
    pub async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        let path = request.uri().path();
        match self.operators.is_ours(path) {
            true => {
                let keys = Arc::clone(&self.keys);
                into_response(self.operators.answer(request, keys).await).await
            }
            false => into_response(elsewhere(path)).await,
        }
    }
}

/// An answer with its whole body; no answer streams here.
async fn into_response(answer: Answer) -> Response<Bytes> {
    let (head, body) = answer.into_parts();
    // A body that is whole cannot break off.
    let body = body.collect().await.map(Collected::to_bytes);
    let body = body.unwrap_or_default();
    Response::from_parts(head, body)
}

/// Runs a function whose requests to its URL `console` answers, until its process ends. Metrics and spans are
/// sent before each answer. `wiring` should be the one that `console` was made from.
///
/// # Errors
/// [`RunError::Runtime`] if Lambda's Runtime API fails.
///
/// # Panics
/// Outside of Lambda, where the variables that Lambda sets are missing.
pub async fn run(wiring: Wiring<Store>, console: AtUrl) -> Result<(), RunError> {
    let config = RunConfig::default();
    triad_lambda::run_http(config, MAX_BODY_BYTES, move |request, invocation| {
        let (console, traces) = (console.clone(), wiring.config.settings.traces.clone());
        Box::pin(async move {
            let answer = console.answer(request).await;
            lambda::tell_metrics();
            lambda::flush_spans(&traces, &invocation).await;
            answer
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "a secret that is long enough for it";

    fn read(said: &[(&str, &str)]) -> Result<ConsoleConfig, String> {
        let lookup = |name: &str| {
            let found = said.iter().find(|(of, _)| *of == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        ConsoleConfig::read(&lookup).map_err(|e| e.to_string())
    }

    #[test]
    fn every_setting_of_the_console_arrives_where_it_is_used() {
        let line = format!("ann {} operate\n", "0".repeat(64));
        let needed = [("TRIAD_CONSOLE_TOKENS", &*line), ("TRIAD_CONSOLE_KEY", KEY)];
        let least = read(&needed).expect("it is sound");
        assert!(least.settings.secure && least.settings.whole_answers);
        assert!(matches!(least.settings.sessions, SessionForm::Sealed(_)));
        assert!(!least.settings.read_only && least.settings.hidden.is_empty());
        let more = [
            ("TRIAD_CONSOLE_READ_ONLY", "true"),
            ("TRIAD_CONSOLE_HIDDEN", "card,iban"),
            ("TRIAD_CONSOLE_NAME", "shop"),
        ];
        let more = read(&[&needed[..], &more].concat()).expect("it is sound");
        assert!(more.settings.read_only && !more.settings.hidden.is_empty());
        assert_eq!(more.settings.name, "shop");
        let ann = more.tokens.of(&[0; 32]).expect("she is let in");
        assert_eq!(ann.name.as_deref(), Some("ann"));
    }

    #[test]
    fn every_wrong_setting_of_the_console_is_in_one_message_and_the_key_is_not() {
        let missing = read(&[]).expect_err("two are needed");
        for name in ["TRIAD_CONSOLE_TOKENS", "TRIAD_CONSOLE_KEY"] {
            assert!(
                missing.contains(&format!("{name}: is missing")),
                "{missing}"
            );
        }
        let wrong = read(&[
            ("TRIAD_CONSOLE_TOKENS", "ann 00 operate"),
            ("TRIAD_CONSOLE_KEY", "hidden"),
            ("TRIAD_CONSOLE_READ_ONLY", "yes"),
        ]);
        let wrong = wrong.expect_err("all are wrong");
        for said in [
            "64 hex digits",
            "at least 32 bytes",
            "\"yes\" is neither true",
        ] {
            assert!(wrong.contains(said), "{said} in {wrong}");
        }
        assert!(!wrong.contains("hidden"), "{wrong}");
    }
}
