//! The operations of an installation at a console far away, over HTTP.

use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Url};
use serde_json::{Map, Value};
use triad_core::Timestamp;
use triad_operator::address::in_path;
use triad_operator::operations::{Answer, Caller, Method, Operations, Problem, Request};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;
use triad_workflow::Millis;

use crate::output::Usage;

/// Prefix of every path of the API.
const ROOT: &str = "v1/operate";
/// The media type of answers in the form that this program reads.
const EXACT: &str = "application/vnd.triad+json";
/// Longest wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);
/// Longest wait for an answer: acts take 20 s at most, and a function's URL answers within 30 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// A console at a URL.
#[derive(Debug)]
pub struct Far {
    client: Client,
    root: Url,
}

impl Far {
    /// The console at this URL: that of `/console/`, `/v1/operate`, or of the server itself. No request is sent.
    ///
    /// # Errors
    /// [`Usage`] if the URL is none, is not https and leaves this machine with a token, or the token is no header.
    pub fn at(url: &str, token: Option<&str>) -> Result<Self, Usage> {
        let wrong = |why: &str| {
            Usage(format!(
                "--url {url:?} {why}, such as https://triad.example"
            ))
        };
        let mut root: Url = url.parse().map_err(|_| wrong("is not a URL"))?;
        let host = root.host_str().unwrap_or_default().to_owned();
        let is_here = ["127.0.0.1", "localhost", "[::1]"].contains(&host.as_str());
        match root.scheme() {
            "https" => {}
            "http" if is_here || token.is_none() => {}
            "http" => return Err(wrong("is not https: the token could be read on its way")),
            _ => return Err(wrong("is neither http nor https")),
        }
        let path = root.path().trim_end_matches('/');
        let path = path.trim_end_matches(ROOT).trim_end_matches("/console");
        let path = format!("{}/{ROOT}", path.trim_end_matches('/'));
        root.set_path(&path);
        root.set_query(None);
        root.set_fragment(None);
        let mut headers = reqwest::header::HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(EXACT));
        if let Some(token) = token {
            let bearer = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
            let mut bearer =
                bearer.map_err(|_| Usage("the token has characters that no token has".into()))?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        let client = triad_http::client_builder()
            .connect_timeout(CONNECT_WITHIN)
            .timeout(ANSWER_WITHIN)
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers)
            .build();
        let client = client.map_err(|e| Usage(format!("there is no client for --url: {e}")))?;
        Ok(Self { client, root })
    }

    async fn sent(&self, request: &Request) -> Result<Answer, Problem> {
        let route = request.route();
        let mut fields = match request.fields()? {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let mut url = self.root.to_string();
        for part in route.path.split('/').filter(|part| !part.is_empty()) {
            let name = part
                .strip_prefix('{')
                .and_then(|part| part.strip_suffix('}'));
            let text = match name.and_then(|name| fields.remove(name)) {
                Some(Value::String(text)) => in_path(&text),
                Some(other) => other.to_string(),
                None => part.to_owned(),
            };
            url.push('/');
            url.push_str(&text);
        }
        let built = match route.method {
            Method::Get => {
                let mut query = form_urlencoded::Serializer::new(String::new());
                for (name, value) in &fields {
                    match value {
                        Value::Null | Value::Bool(false) => {}
                        Value::String(text) => drop(query.append_pair(name, text)),
                        other => drop(query.append_pair(name, &other.to_string())),
                    }
                }
                self.client.get(format!("{url}?{}", query.finish()))
            }
            Method::Post => self
                .client
                .post(url)
                .header(CONTENT_TYPE, "application/json")
                .body(serde_json::to_vec(&fields)?),
        };
        let answer = built.send().await.map_err(|e| self.unreached(&e))?;
        let status = answer.status();
        let body = self.body(answer).await?;
        if status.is_success() {
            return request
                .read_answer(&body)
                .map_err(|e| self.strange(&e.to_string()));
        }
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(problem),
            Err(_) => Err(self.strange(&format!("the status {status}"))),
        }
    }

    async fn body(&self, mut answer: reqwest::Response) -> Result<Vec<u8>, Problem> {
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|e| self.unreached(&e))? {
            if body.len() + part.len() > MAX_ANSWER_BYTES {
                return Err(self.strange("more bytes than a console sends"));
            }
            body.extend_from_slice(&part);
        }
        Ok(body)
    }

    fn unreached(&self, error: &reqwest::Error) -> Problem {
        let mut why = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(deeper) = source {
            why = deeper.to_string();
            source = deeper.source();
        }
        let text = format!(
            "{} does not answer: {why}; is this the address of `triad console`, `triad serve` or of the console's function? An act that was sent may have been done",
            self.root
        );
        Problem::later("unreached", text, 1)
    }

    fn strange(&self, what: &str) -> Problem {
        let text = format!(
            "{} answers {what}: it is no console, or one of another version of Triad",
            self.root
        );
        Problem::new(502, "strange", text)
    }
}

impl Operations for Far {
    fn execute<'a>(
        &'a self,
        _caller: &'a Caller,
        request: Request,
    ) -> BoxFuture<'a, Result<Answer, Problem>> {
        Box::pin(async move { self.sent(&request).await })
    }

    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn sleep(&self, span: Millis) -> BoxFuture<'_, ()> {
        Box::pin(SystemClock.sleep(span))
    }
}

#[cfg(test)]
mod tests {
    use super::Far;

    #[test]
    fn every_address_of_a_console_leads_to_its_api() {
        for url in [
            "https://triad.example",
            "https://triad.example/",
            "https://triad.example/console/",
            "https://triad.example/v1/operate?x=1",
        ] {
            let far = Far::at(url, Some("t")).expect(url);
            assert_eq!(far.root.as_str(), "https://triad.example/v1/operate");
        }
        let below = Far::at("https://a.example/triad/console", None).expect("a URL");
        assert_eq!(below.root.as_str(), "https://a.example/triad/v1/operate");
    }

    #[test]
    fn a_token_leaves_this_machine_by_https_alone() {
        assert!(Far::at("http://127.0.0.1:8080", Some("t")).is_ok());
        assert!(Far::at("http://triad.example", None).is_ok());
        for wrong in [
            "http://triad.example",
            "triad.example",
            "ftp://triad.example",
        ] {
            assert!(Far::at(wrong, Some("t")).is_err(), "{wrong}");
        }
        assert!(Far::at("https://triad.example", Some("a\nb")).is_err());
    }
}
