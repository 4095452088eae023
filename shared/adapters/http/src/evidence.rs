//! What is said of a call for which something went wrong: method, URL, status, and the beginning of the answer or the
//! system's own error; never a secret.

use reqwest::{Method, Url};
use triad_core::failure::ANSWERED;
use triad_runtime::{CallNotes, Fault};

use super::transient;

/// Characters that are kept of an answer.
const BEGINNING: usize = 500;
/// Characters that are kept of a URL's path.
const PATH: usize = 120;

/// A call as it is shown to people.
pub(crate) struct Evidence {
    method: Method,
    /// Scheme, host, port and path: without user, password, query and fragment, which may be secrets.
    url: String,
    host: Option<String>,
    port: Option<u16>,
    path: String,
    secrets: Vec<String>,
}

impl Evidence {
    pub(crate) fn of(method: Method, url: &Url, secrets: &[String]) -> Self {
        let host = url.host_str().map(str::to_owned);
        let port = url.port().map_or_else(String::new, |p| format!(":{p}"));
        let shown = host.as_deref().unwrap_or_default();
        Self {
            method,
            url: format!("{}://{shown}{port}{}", url.scheme(), url.path()),
            port: url.port_or_known_default(),
            path: url.path().to_owned(),
            host,
            secrets: secrets.to_vec(),
        }
    }

    /// Adds secrets of the call, which are masked in all that is said of it.
    pub(crate) fn hide(&mut self, secrets: Vec<String>) {
        let secrets = secrets
            .into_iter()
            .filter(|s| s.len() >= super::LEAST_SECRET);
        self.secrets.extend(secrets);
        self.secrets
            .sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// The URL, without what may be secret; `None` of an address that is none.
    pub(crate) fn address(&self) -> Option<Url> {
        Url::parse(&self.url).ok()
    }

    /// Notes the address for the call's span.
    pub(crate) fn note(&self, notes: &CallNotes) {
        if !notes.is_read() {
            return;
        }
        notes.note("http.request.method", self.method.as_str().to_owned());
        notes.note("url.template", self.path.clone());
        let Some(host) = &self.host else { return };
        notes.note("server.address", host.clone());
        let port = self.port.into_iter();
        port.for_each(|port| notes.note("server.port", i64::from(port)));
        notes.note("url.full", self.url.clone());
    }

    /// Method and URL.
    pub(crate) fn call(&self) -> String {
        let mut url: String = self.url.chars().take(PATH).collect();
        if url.len() < self.url.len() {
            url.push('…');
        }
        self.masked(format!("{} {url}", self.method))
    }

    /// The fault of a call without an answer: it may have arrived, unless the connection failed.
    pub(crate) fn unanswered(&self, error: reqwest::Error) -> Fault {
        // The text gets into statuses and alerts; the URL may have a key in its query.
        let error = error.without_url();
        let code = if error.is_connect() {
            "connect"
        } else if error.is_timeout() {
            "call-timeout"
        } else {
            "no-answer"
        };
        let text = format!("{}: {}", self.call(), cause(&error));
        transient(code, text, None, !error.is_connect())
    }

    /// The beginning of a body, in one line and behind [`ANSWERED`]; empty for an empty body. It may repeat the call,
    /// so secrets are masked.
    pub(crate) fn beginning(&self, body: &[u8]) -> String {
        let text = String::from_utf8_lossy(body);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = self.masked(text);
        match text.is_empty() {
            true => text,
            false => {
                let beginning: String = text.chars().take(BEGINNING).collect();
                format!("{ANSWERED}{beginning}")
            }
        }
    }

    pub(crate) fn masked(&self, mut text: String) -> String {
        for secret in &self.secrets {
            text = text.replace(secret, "(hidden)");
        }
        text
    }
}

/// The system's own error, such as `Connection refused (os error 111)`: the innermost cause.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    // Bounded: an error has few causes, and none is its own.
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
