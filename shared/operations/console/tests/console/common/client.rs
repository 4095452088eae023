//! A client that checks every answer against the OpenAPI document.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use serde_json::Value;
use triad_console::{Answer, Answers, Body, Keys, elsewhere};

use super::{WITHIN, document};

#[derive(Debug, Clone)]
pub struct Said {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Said {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Status and problem code, to be compared together.
    pub fn is(&self) -> (u16, String) {
        let code = self.json()["code"].as_str().map(str::to_owned);
        (self.status, code.unwrap_or_default())
    }
}

/// Calls the console with parsed requests, as a server does.
#[derive(Clone)]
pub struct Client {
    pub answers: Arc<dyn Answers>,
    pub keys: Arc<dyn Keys>,
}

impl Client {
    pub async fn post(&self, path: &str, body: &Value) -> Said {
        let json = [("content-type", "application/json")];
        self.send("POST", path, &json, body.to_string().as_bytes())
            .await
    }

    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Said {
        let (head, body) = self.answer(method, path, headers, body).await.into_parts();
        let mut body = body.collect().await.unwrap().to_bytes().to_vec();
        if method == "HEAD" {
            body.clear();
        }
        let headers = head.headers.iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().into()));
        let said = Said {
            status: head.status.as_u16(),
            headers: headers.collect(),
            body,
        };
        document::check(method, path, &said);
        said
    }

    /// Opens a stream of events.
    pub async fn listen(&self, path: &str) -> Stream {
        let answer = self.answer("GET", path, &[], b"").await;
        assert_eq!(answer.status(), 200, "{path}");
        Stream(answer.into_body())
    }

    async fn answer(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Bytes::copy_from_slice(body)).unwrap();
        match self.answers.is_ours(request.uri().path()) {
            true => self.answers.answer(request, self.keys.clone()).await,
            false => elsewhere(request.uri().path()),
        }
    }
}

/// A stream of server-sent events.
pub struct Stream(Body);

impl Stream {
    /// Reads events until this text appears; with `None`, until the stream ends.
    pub async fn until(&mut self, part: Option<&str>) -> String {
        let mut told = String::new();
        let listening = async {
            while part.is_none_or(|part| !told.contains(part)) {
                let Some(frame) = self.0.frame().await else {
                    assert!(part.is_none(), "the stream has ended: {told}");
                    break;
                };
                let data = frame.unwrap().into_data().unwrap();
                told += &String::from_utf8_lossy(&data);
            }
        };
        let heard = tokio::time::timeout(WITHIN, listening).await;
        assert!(heard.is_ok(), "{part:?} is not told");
        told
    }
}
