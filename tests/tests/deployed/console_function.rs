//! The deployed console function: requests to its URL, under a Runtime API, with real tables and a real broker.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use triad_reference_service::Faults;
use triad_runtime::InputRecord;
use triad_tests::engines::Engines;
use triad_tests::event_source::{INVOCATION, invoke, start_function};
use triad_tests::orders::{FULFILMENT, order};
use triad_tests::process::binary;
use triad_tests::runtime_api::{Function, InvokeError, RuntimeApi};

/// The environment variables of a function.
type Variables = Vec<(&'static str, String)>;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// The line of a token in the list of a console.
fn line(name: &str, token: &str, role: &str) -> String {
    let digest = Sha256::digest(token);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{name} {digest} {role}")
}

fn variables(engines: &Engines, own: &[(&'static str, &str)]) -> Variables {
    let tokens = [line("ann", "anns", "operate"), line("eve", "eves", "read")];
    let mut variables = engines.variables(&engines.brokers());
    variables.extend([
        ("TRIAD_CONSOLE_TOKENS", tokens.join("\n")),
        (
            "TRIAD_CONSOLE_KEY",
            "a secret of the sandboxes, 32 bytes".to_owned(),
        ),
    ]);
    variables.retain(|(name, _)| own.iter().all(|(other, _)| name != other));
    variables.extend(own.iter().map(|(name, value)| (*name, (*value).to_owned())));
    variables
}

/// A running process of the console function.
struct Sandbox {
    api: RuntimeApi,
    _function: Function,
}

/// The answer to a request.
struct Said {
    status: u64,
    headers: Value,
    cookies: Vec<String>,
    body: String,
}

impl Sandbox {
    fn start(variables: &Variables) -> Self {
        let (api, _function) = start_function(&binary("triad-console"), variables);
        Self { api, _function }
    }

    /// Invokes the function with an event; the invocation must succeed.
    async fn take(&self, event: &Value) -> Said {
        let answer = self.api.invoke(event.to_string(), INVOCATION).await;
        let answer = answer.expect("it answers").json();
        let cookies = answer["cookies"].as_array().expect("a list").iter();
        assert_eq!(answer["isBase64Encoded"], false);
        Said {
            status: answer["statusCode"].as_u64().expect("a status"),
            headers: answer["headers"].clone(),
            cookies: cookies
                .map(|c| c.as_str().expect("a text").to_owned())
                .collect(),
            body: answer["body"].as_str().expect("a text").to_owned(),
        }
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Said {
        let (cookies, headers): (Vec<_>, Vec<_>) = headers
            .iter()
            .copied()
            .partition(|(name, _)| *name == "cookie");
        let cookies: Vec<&str> = cookies.into_iter().map(|(_, value)| value).collect();
        let host = ("host", "h.lambda-url.eu-west-1.on.aws");
        let headers: serde_json::Map<_, _> = headers
            .into_iter()
            .chain([host])
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        self.take(
            &json!({"version": "2.0", "rawPath": path, "rawQueryString": query,
            "headers": headers, "cookies": cookies, "body": body, "isBase64Encoded": false,
            "requestContext": {"http": {"method": method}}}),
        )
        .await
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Said {
        self.send("GET", path, headers, "").await
    }

    /// Posts a form as a browser with this cookie does.
    async fn form(&self, path: &str, cookie: &str, form: &[(&str, &str)]) -> Said {
        let pairs = form.iter().map(|(name, value)| format!("{name}={value}"));
        let body = pairs.collect::<Vec<_>>().join("&");
        let headers = [FORM, ("cookie", cookie)];
        self.send("POST", path, &headers, &body).await
    }
}

impl Said {
    /// The cookie in the answer.
    fn cookie(&self) -> String {
        let set = self.cookies.first().expect("a cookie");
        set.split(';').next().unwrap_or_default().to_owned()
    }

    /// The CSRF token in the page's forms.
    fn word(&self) -> String {
        let behind = self.body.split("name=\"word\" value=\"").nth(1);
        let word = behind.expect("a form").split('"').next();
        word.unwrap_or_default().to_owned()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// Submits a record of the topic `orders`.
async fn submit(engines: &Engines, value: &Value) {
    let submission = binary("triad-submission");
    let (api, _function) = start_function(&submission, &engines.variables(&engines.brokers()));
    let record = InputRecord {
        topic: "orders".to_owned(),
        timestamp_ms: -1,
        value: Some(value.to_string().into_bytes()),
        ..InputRecord::default()
    };
    let answer = invoke(&api, &[record]).await.expect("it answers");
    assert_eq!(answer.json(), json!({"batchItemFailures": []}));
}

#[tokio::test]
async fn a_session_begun_at_one_sandbox_acts_at_another_and_ends_with_its_token() {
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    submit(&engines, &order("o-1", 1)).await;
    let variables = variables(&engines, &[]);
    let (one, other) = (Sandbox::start(&variables), Sandbox::start(&variables));
    let path = "/console/orders/o-1";
    let page = one.get(path, &[]).await;
    assert_eq!(page.status, 401, "nobody is let in without a token");
    let (jar, word) = (page.cookie(), page.word());
    let form = [("word", &*word), ("token", "anns"), ("to", path)];
    let said = other.form("/console/login", &jar, &form).await;
    assert_eq!(
        (said.status, &said.headers["location"]),
        (303, &json!(path))
    );
    assert!(said.cookies[0].ends_with("; Secure"), "{:?}", said.cookies);
    let session = said.cookie();
    let page = one.get(path, &[("cookie", &session)]).await;
    assert_eq!(page.status, 200, "{}", page.body);
    let act = [
        ("word", &*page.word()),
        ("scope", "chosen"),
        ("orders", "o-1"),
        ("act", "cancel"),
        ("why", "w"),
        ("do", "act"),
    ];
    let done = other.form("/console/act", &session, &act).await;
    assert!(done.body.contains("1 done, 0 refused"), "{}", done.body);
    let bearer = [("authorization", "Bearer eves")];
    let seen = one.get("/v1/operate/orders/o-1", &bearer).await.json();
    assert_eq!(seen["state"], "Compensating", "{seen}");
    let bye = one
        .form("/console/logout", &session, &[("word", &*page.word())])
        .await;
    assert!(bye.cookies[0].contains("Max-Age=0"), "{:?}", bye.cookies);
    let less = line("eve", "eves", "read");
    let less = self::variables(&engines, &[("TRIAD_CONSOLE_TOKENS", &less)]);
    let without = Sandbox::start(&less);
    let page = without.get(path, &[("cookie", &session)]).await;
    assert_eq!(page.status, 401, "her token was taken out of the list");
}

#[tokio::test]
async fn dead_letters_are_read_from_the_broker_and_read_only_nobody_replays_them() {
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    submit(&engines, &json!("no order")).await;
    let read_only = [("TRIAD_CONSOLE_READ_ONLY", "true")];
    let console = Sandbox::start(&variables(&engines, &read_only));
    let bearer = ("authorization", "Bearer anns");
    let listed = console.get("/v1/operate/dead-letters", &[bearer]).await;
    let listed = listed.json();
    let letter = &listed["letters"][0]["id"];
    assert_eq!(letter, "orders/0/0", "{listed}");
    let headers = [bearer, ("content-type", "application/json")];
    let replay = json!({"act": "replay", "letters": [letter], "why": "w"}).to_string();
    let path = "/v1/operate/dead-letters/acts";
    let said = console.send("POST", path, &headers, &replay).await;
    assert_eq!(
        (said.status, &said.json()["code"]),
        (403, &json!("read-only"))
    );
}

#[tokio::test]
async fn who_listens_is_told_once_and_asks_again() {
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let console = Sandbox::start(&variables(&engines, &[]));
    let bearer = ("authorization", "Bearer eves");
    let path = "/v1/operate/events";
    let first = console.get(path, &[bearer]).await;
    assert_eq!(first.headers["content-type"], "text/event-stream");
    let mut lines = first.body.lines();
    assert_eq!(lines.next(), Some("retry: 10000"));
    let id = lines.next().and_then(|line| line.strip_prefix("id: "));
    let id = id.expect("what it was told has an id");
    assert!(first.body.contains("event: counts\n"), "{}", first.body);
    let again = console.get(path, &[bearer, ("last-event-id", id)]).await;
    assert_eq!(again.body, format!("retry: 10000\nid: {id}\n\n"));
    submit(&engines, &order("o-1", 1)).await;
    // The counts are cached for two seconds, so a new process is asked, which has cached none.
    let later = Sandbox::start(&variables(&engines, &[]));
    let later = later.get(path, &[bearer, ("last-event-id", id)]).await;
    assert!(later.body.contains("event: counts\n"), "{}", later.body);
}

#[tokio::test]
async fn models_look_and_cannot_act() {
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let console = Sandbox::start(&variables(&engines, &[]));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).to_string();
    let headers = [
        ("authorization", "Bearer anns"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2025-06-18"),
    ];
    let said = console.send("POST", "/mcp", &headers, &call).await;
    assert_eq!(said.status, 200, "{}", said.body);
    assert!(said.body.contains("\"list_causes\""), "{}", said.body);
    assert!(!said.body.contains("\"dry_run\""), "{}", said.body);
    let said = console.send("POST", "/mcp", &headers[1..], &call).await;
    assert_eq!(said.status, 401);
}

#[tokio::test]
async fn whatever_a_client_sends_is_answered_and_fails_no_invocation() {
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let console = Sandbox::start(&variables(&engines, &[]));
    let root = console.get("/", &[]).await;
    assert_eq!(
        (root.status, &root.headers["location"]),
        (303, &json!("/console/"))
    );
    assert_eq!(console.get("/v1/orders", &[]).await.status, 404);
    let event = |path: &str, body: Value| {
        json!({"version": "2.0", "rawPath": path, "rawQueryString": "", "body": body,
            "isBase64Encoded": true, "requestContext": {"http": {"method": "POST"}}})
    };
    let large = "AAAA".repeat(1024 * 1024 + 1);
    for (event, status) in [
        (event("/console/act", large.into()), 413),
        (event("/console/act", "%".into()), 400),
        (event("/a b", Value::Null), 400),
        (event("/console/act", Value::Null), 403),
    ] {
        assert_eq!(console.take(&event).await.status, status);
    }
}

#[tokio::test]
async fn a_console_that_lets_nobody_in_does_not_start() {
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let common = engines.variables(&engines.brokers());
    let (api, _function) = start_function(Path::new(&binary("triad-console")), &common);
    let error = invoke(&api, &[]).await.expect_err("it does not start");
    let InvokeError::Init { message, .. } = error else {
        panic!("{error}");
    };
    for name in ["TRIAD_CONSOLE_TOKENS", "TRIAD_CONSOLE_KEY"] {
        assert!(message.contains(name), "{name} in {message}");
    }
}
