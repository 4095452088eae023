//! A stand-in for AWS: it checks the signature of each request by its own computation of the published algorithm (AWS
//! Identity and Access Management User Guide, "Create a signed AWS API request"), and answers as the test has it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use ring::{digest, hmac};
use triad_aws::{Account, SdkConfig};

const ID: &str = "AKIDEXAMPLE";
const SECRET: &str = "the-secret-of-the-role";
const TOKEN: &str = "session/token+=";
/// Region of the account.
pub const REGION: &str = "eu-west-1";

/// A request whose signature is right.
#[derive(Debug, Clone)]
pub struct Signed {
    pub service: String,
    pub region: String,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl Signed {
    /// The value of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|v| v.to_str().ok());
        value.unwrap_or_default()
    }
}

/// Answers a request.
pub type Answers = dyn Fn(&Signed) -> Answer + Send + Sync;
/// Status, headers and body.
pub type Answer = (u16, Vec<(&'static str, &'static str)>, String);

/// The stand-in. It ends with the test's runtime.
pub struct Aws {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Signed>>>,
}

struct Shared {
    answers: Box<Answers>,
    seen: Arc<Mutex<Vec<Signed>>>,
}

impl Aws {
    pub async fn start(answers: impl Fn(&Signed) -> Answer + Send + Sync + 'static) -> Self {
        let seen = Arc::new(Mutex::default());
        let shared = Arc::new(Shared {
            answers: Box::new(answers),
            seen: Arc::clone(&seen),
        });
        let router = Router::new().fallback(answer).with_state(shared);
        let address = triad_tests::http::serve(router).await;
        Self { address, seen }
    }

    /// The account, with this stand-in as the endpoint of all services.
    pub fn account(&self) -> Account {
        use aws_credential_types::Credentials;
        use aws_credential_types::provider::SharedCredentialsProvider;
        let credentials = Credentials::new(ID, SECRET, Some(TOKEN.to_owned()), None, "test");
        let config = triad_aws::limits(SdkConfig::builder())
            .region(aws_types::region::Region::new(REGION))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .endpoint_url(format!("http://{}", self.address));
        Account::of_config(config.build())
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Signed> {
        self.seen.lock().unwrap().clone()
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match check(&method, &uri, &headers, &body) {
        Ok(signed) => {
            let (status, headers, body) = (shared.answers)(&signed);
            shared.seen.lock().unwrap().push(signed);
            let mut answer = (StatusCode::from_u16(status).unwrap(), body).into_response();
            for (name, value) in headers {
                answer.headers_mut().insert(name, value.parse().unwrap());
            }
            answer
        }
        Err(why) => (StatusCode::FORBIDDEN, format!("{{\"message\": {why:?}}}")).into_response(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

/// A text as the algorithm encodes it: all but the unreserved characters, and slashes if they are `kept`.
fn encoded(text: &str, kept: bool) -> String {
    let of = |b: u8| match b {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(b).to_string()
        }
        b'/' if kept => "/".to_owned(),
        _ => format!("%{b:02X}"),
    };
    text.bytes().map(of).collect()
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 3;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(plain).expect("text")
}

fn check(method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Result<Signed, String> {
    let header = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.ok_or_else(|| format!("there is no {name}"))
    };
    let authorization = header("authorization")?;
    let parts = authorization
        .strip_prefix("AWS4-HMAC-SHA256 ")
        .ok_or("no signature")?;
    let parts: BTreeMap<&str, &str> = parts
        .split(", ")
        .filter_map(|part| part.split_once('='))
        .collect();
    let scope: Vec<&str> = parts["Credential"].split('/').collect();
    let [id, date, region, service, end] = scope[..] else {
        return Err("the scope has other parts".to_owned());
    };
    let names: Vec<&str> = parts["SignedHeaders"].split(';').collect();
    let unsigned = headers
        .keys()
        .find(|name| name.as_str().starts_with("x-amz-") && !names.contains(&name.as_str()));
    if let Some(unsigned) = unsigned {
        return Err(format!("{unsigned} is not signed"));
    }
    if !names.contains(&"host") || id != ID || end != "aws4_request" {
        return Err("the host is not signed, or the scope is another one".to_owned());
    }
    if header("x-amz-security-token")? != TOKEN {
        return Err("it has another token".to_owned());
    }
    let mut query: Vec<(String, String)> = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| {
            (
                encoded(&decoded(name), false),
                encoded(&decoded(value), false),
            )
        })
        .collect();
    query.sort();
    let query: Vec<String> = query.iter().map(|(n, v)| format!("{n}={v}")).collect();
    let mut canonical = format!(
        "{method}\n{}\n{}\n",
        encoded(uri.path(), true),
        query.join("&")
    );
    for name in &names {
        canonical += &format!("{name}:{}\n", header(name)?.trim());
    }
    canonical += &format!("\n{}\n{}", names.join(";"), sha256(body));
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let text = format!(
        "AWS4-HMAC-SHA256\n{}\n{scope}\n{}",
        header("x-amz-date")?,
        sha256(canonical.as_bytes())
    );
    let mut key = mac(format!("AWS4{SECRET}").as_bytes(), date);
    for part in [region, service, "aws4_request"] {
        key = mac(&key, part);
    }
    if hex(&mac(&key, &text)) != parts["Signature"] {
        return Err(format!("the signature is not that of {canonical}"));
    }
    Ok(Signed {
        service: service.to_owned(),
        region: region.to_owned(),
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        headers: headers.clone(),
        body: String::from_utf8(body.to_vec()).expect("text"),
    })
}
