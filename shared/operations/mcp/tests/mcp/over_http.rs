//! The Model Context Protocol over HTTP: authentication, and acts that name the id of a dry run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use triad_console::tokens::{NewToken, Role};
use triad_console::{Hidden, Settings};
use triad_core::Timestamp;
use triad_core::message::{Alert, AlertKind};
use triad_mcp::{DocsMatch, Mcp, Mounted, Pages, VALID_FOR};
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Bus, Clock};
use triad_workflow::Millis;

use crate::console::client::Said;
use crate::console::{World, cookie, csrf_token, send_form, text};

/// A clock that a test sets.
#[derive(Debug, Clone, Default)]
struct Hands(Arc<AtomicU64>);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    async fn sleep(&self, _span: Millis) {}
}

struct NoPages;

impl Pages for NoPages {
    fn list(&self) -> Vec<(&'static str, &'static str)> {
        vec![("runbook", "Runbook")]
    }

    fn page(&self, name: &str) -> Option<&'static str> {
        (name == "runbook").then_some("# Runbook\nLook.\n")
    }

    fn find(&self, _text: &str) -> Vec<DocsMatch> {
        Vec::new()
    }
}

struct Talk {
    world: World,
    clock: Hands,
    reader: String,
    ann: String,
    bob: String,
}

impl Talk {
    async fn start(console: Settings, acts: bool) -> Self {
        let make = |name, role| NewToken::make(name, &[role]).unwrap();
        let reader = make("reader", Role::Read);
        let (ann, bob) = (make("ann", Role::Operate), make("bob", Role::Operate));
        let lines = format!("{}\n{}\n{}\n", reader.line, ann.line, bob.line);
        let clock = Hands::default();
        let of = clock.clone();
        let mounted = |api| {
            let settings = triad_mcp::Settings { acts };
            let mcp = Mcp::new(of, SystemEntropy, settings, NoPages);
            Arc::new(Mounted::new(api, mcp)) as Arc<dyn triad_console::Answers>
        };
        Self {
            world: World::beside(console, Some(&lines), mounted).await,
            clock,
            reader: reader.token,
            ann: ann.token,
            bob: bob.token,
        }
    }

    async fn acting() -> Self {
        Self::start(Settings::default(), true).await
    }

    async fn send(&self, further: &[(&str, &str)], body: &str) -> Said {
        let always = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        let headers = [&always[..], further].concat();
        let client = &self.world.client;
        client.send("POST", "/mcp", &headers, body.as_bytes()).await
    }

    async fn ask(&self, token: &str, method: &str, params: Value) -> Value {
        let bearer = format!("Bearer {token}");
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let said = self
            .send(&[("authorization", &bearer)], &message.to_string())
            .await;
        assert_eq!(said.status, 200, "{said:?}");
        said.json()
    }

    /// Calls a tool; returns whether the result is an error, and the result.
    async fn call(&self, token: &str, tool: &str, arguments: Value) -> (bool, Value) {
        let params = json!({"name": tool, "arguments": arguments});
        let said = self.ask(token, "tools/call", params).await;
        let result = &said["result"];
        let text = result["content"][0]["text"].as_str().expect("a text");
        let shown = result["structuredContent"].clone();
        assert_eq!(
            serde_json::from_str::<Value>(text).unwrap(),
            shown,
            "both forms say the same"
        );
        (result["isError"] == true, shown)
    }

    async fn refused(&self, token: &str, tool: &str, arguments: Value) -> String {
        let (is_error, shown) = self.call(token, tool, arguments).await;
        assert!(is_error, "{shown}");
        shown["code"].as_str().expect("a code").to_owned()
    }

    /// Makes a dry run of closing an order; returns its id.
    async fn tried(&self, token: &str) -> String {
        let (is_error, shown) = self.call(token, "dry_run", closing()).await;
        assert!(!is_error, "{shown}");
        assert_eq!(
            (&shown["done"], &shown["results"][0]["order_id"]),
            (&json!(1), &json!("e"))
        );
        shown["dry_run"].as_str().expect("an id").to_owned()
    }

    async fn is_closed(&self) -> bool {
        self.world.stored("e").await.closed.is_some()
    }
}

fn closing() -> Value {
    json!({"on": "orders", "act": "close", "orders": ["e"], "why": "as agreed"})
}

#[tokio::test]
async fn nobody_comes_in_without_a_token() {
    let talk = Talk::acting().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let said = talk.send(&[], &body).await;
    assert_eq!(said.is(), (401, "token".into()));
    assert!(said.header("www-authenticate").is_some());
    let other = [("authorization", "Bearer triad_other")];
    assert_eq!(talk.send(&other, &body).await.status, 401);
}

#[tokio::test]
async fn a_request_of_a_page_is_refused_wherever_the_page_is_from() {
    let talk = Talk::acting().await;
    talk.world.failed("e", "x").await;
    let bearer = format!("Bearer {}", talk.ann);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "get_overview", "arguments": {}}});
    for origin in ["https://evil.example", "http://127.0.0.1", "null", "%"] {
        let headers = [("authorization", bearer.as_str()), ("origin", origin)];
        let said = talk.send(&headers, &body.to_string()).await;
        assert_eq!(said.status, 403, "{origin}");
    }
    let plain = [("authorization", bearer.as_str())];
    assert_eq!(talk.send(&plain, &body.to_string()).await.status, 200);
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let talk = Talk::acting().await;
    let bearer = format!("Bearer {}", talk.ann);
    let headers = [("authorization", bearer.as_str())];
    for body in ["", "{", "[]", "7", "{\"jsonrpc\": \"2.0\"}", "\u{fffd}"] {
        let said = talk.send(&headers, body).await;
        assert!((400..500).contains(&said.status), "{body}: {said:?}");
    }
    let cut = talk.send(&headers, "{\"jsonrpc\": ").await.json();
    assert_eq!(
        (&cut["error"]["code"], &cut["id"]),
        (&json!(-32700), &json!(null))
    );
    let get = talk.world.client.send("GET", "/mcp", &headers, b"").await;
    assert_eq!(get.status, 405, "there is no stream");
    let below = talk.world.client.send("GET", "/mcp/x", &headers, b"").await;
    assert_eq!(below.status, 404);
    let unknown = talk
        .ask(&talk.ann, "tools/call", json!({"name": "destroy"}))
        .await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let unknown = talk.ask(&talk.ann, "orders/destroy", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    let code = talk
        .refused(&talk.ann, "get_order", json!({"order": "e"}))
        .await;
    assert_eq!(code, "bad-arguments");
}

#[tokio::test]
async fn a_client_of_an_older_revision_is_answered_in_its_own() {
    let talk = Talk::acting().await;
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    let said = talk.ask(&talk.reader, "initialize", hello).await;
    assert_eq!(said["result"]["protocolVersion"], "2025-06-18", "{said}");
    assert_eq!(said["result"]["serverInfo"]["name"], "triad");
    assert!(said["result"]["capabilities"]["tools"].is_object());
}

#[tokio::test]
async fn who_may_look_sees_what_the_api_says_and_may_not_act() {
    let talk = Talk::acting().await;
    talk.world.failed("e", "x").await;
    let (is_error, seen) = talk.call(&talk.reader, "list_causes", json!({})).await;
    assert!(!is_error);
    assert_eq!(seen["causes"][0]["cause"], "permanent/x");
    let (_, order) = talk
        .call(&talk.reader, "get_order", json!({"id": "e"}))
        .await;
    assert_eq!(order["state"], "Error");
    assert_eq!(
        talk.refused(&talk.reader, "dry_run", closing()).await,
        "role"
    );
    let of_ann = talk.tried(&talk.ann).await;
    let act = json!({"dry_run": of_ann});
    assert_eq!(
        talk.refused(&talk.reader, "act", act).await,
        "dry-run-of-another"
    );
    assert!(!talk.is_closed().await);
}

#[tokio::test]
async fn an_act_is_the_request_that_was_tried_and_its_order_keeps_who_and_why() {
    let talk = Talk::acting().await;
    talk.world.failed("e", "x").await;
    let id = talk.tried(&talk.ann).await;
    assert!(!talk.is_closed().await, "a dry run does nothing");
    let (is_error, done) = talk.call(&talk.ann, "act", json!({"dry_run": id})).await;
    assert!(!is_error, "{done}");
    assert_eq!(
        (&done["done"], &done["dry_run"]),
        (&json!(1), &json!(false))
    );
    let by = talk
        .world
        .stored("e")
        .await
        .closed
        .expect("it is closed")
        .act;
    assert_eq!((by.by.as_str(), by.why.as_str()), ("ann", "as agreed"));
    let (_, order) = talk.call(&talk.ann, "get_order", json!({"id": "e"})).await;
    let lines = order["timeline"].as_array().expect("a timeline");
    let says = |line: &&Value| {
        line["what"]
            .as_str()
            .is_some_and(|w| w.contains("by ann: as agreed"))
    };
    assert!(lines.iter().any(|line| says(&line)), "{order}");
}

#[tokio::test]
async fn an_act_without_a_dry_run_is_refused() {
    let talk = Talk::acting().await;
    talk.world.failed("e", "x").await;
    let unknown = json!({"dry_run": "nobody-tried-this"});
    assert_eq!(
        talk.refused(&talk.ann, "act", unknown).await,
        "no-such-dry-run"
    );
    assert_eq!(
        talk.refused(&talk.ann, "act", closing()).await,
        "bad-arguments"
    );
    let mut other = closing();
    other["dry_run"] = false.into();
    assert_eq!(
        talk.refused(&talk.ann, "dry_run", other).await,
        "bad-arguments"
    );
    assert!(!talk.is_closed().await);
}

#[tokio::test]
async fn a_dry_run_permits_one_act_alone() {
    let talk = Talk::acting().await;
    talk.world.failed("e", "x").await;
    let act = json!({"dry_run": talk.tried(&talk.ann).await});
    assert!(!talk.call(&talk.ann, "act", act.clone()).await.0);
    assert_eq!(talk.refused(&talk.ann, "act", act).await, "dry-run-used");
}

#[tokio::test]
async fn a_dry_run_older_than_five_minutes_permits_nothing() {
    let talk = Talk::acting().await;
    talk.world.failed("e", "x").await;
    let act = json!({"dry_run": talk.tried(&talk.ann).await});
    talk.clock.0.store(VALID_FOR.0 + 1, Ordering::Relaxed);
    assert_eq!(talk.refused(&talk.ann, "act", act).await, "dry-run-too-old");
    assert!(!talk.is_closed().await);
}

#[tokio::test]
async fn a_dry_run_of_another_caller_permits_nothing() {
    let talk = Talk::acting().await;
    talk.world.failed("e", "x").await;
    let act = json!({"dry_run": talk.tried(&talk.ann).await});
    assert_eq!(
        talk.refused(&talk.bob, "act", act).await,
        "dry-run-of-another"
    );
    assert!(!talk.is_closed().await);
}

#[tokio::test]
async fn nobody_acts_where_that_is_not_allowed() {
    let talk = Talk::start(Settings::default(), false).await;
    talk.world.failed("e", "x").await;
    let listed = talk.ask(&talk.ann, "tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().expect("tools");
    assert!(
        tools
            .iter()
            .all(|tool| tool["annotations"]["readOnlyHint"] == true)
    );
    assert_eq!(
        talk.refused(&talk.ann, "dry_run", closing()).await,
        "acts-not-allowed"
    );
    let read_only = Settings {
        read_only: true,
        ..Settings::default()
    };
    let talk = Talk::start(read_only, true).await;
    talk.world.failed("e", "x").await;
    assert_eq!(
        talk.refused(&talk.ann, "dry_run", closing()).await,
        "read-only"
    );
    assert!(!talk.is_closed().await);
}

#[tokio::test]
async fn a_dry_run_of_which_nothing_would_come_has_no_id() {
    let talk = Talk::acting().await;
    let (is_error, tried) = talk.call(&talk.ann, "dry_run", closing()).await;
    assert!(!is_error);
    assert_eq!((&tried["done"], &tried["refused"]), (&json!(0), &json!(1)));
    assert!(!tried["dry_run"].is_string(), "{tried}");
}

#[tokio::test]
async fn downstreams_and_dead_letters_are_acted_on_in_the_same_way() {
    let talk = Talk::acting().await;
    talk.world.letter(0, "{").await;
    let pause = json!({"on": "downstreams", "act": "pause", "downstream": "bank", "why": "w"});
    let dismiss =
        json!({"on": "dead-letters", "act": "dismiss", "letters": ["orders/3/0"], "why": "w"});
    let held = async || {
        let (_, seen) = talk.call(&talk.reader, "get_overview", json!({})).await;
        seen["outages"].as_array().expect("a list").len()
    };
    let left = async || {
        let (_, seen) = talk
            .call(&talk.reader, "list_dead_letters", json!({}))
            .await;
        seen["letters"].as_array().expect("a list").len()
    };
    for act in [pause, dismiss] {
        let before = (held().await, left().await);
        let (is_error, tried) = talk.call(&talk.ann, "dry_run", act).await;
        assert!(!is_error, "{tried}");
        assert_eq!((held().await, left().await), before, "nothing was done");
        let id = json!({"dry_run": tried["dry_run"]});
        let (is_error, done) = talk.call(&talk.ann, "act", id).await;
        assert!(!is_error && done["done"] == 1, "{done}");
        assert_ne!((held().await, left().await), before);
    }
}

#[tokio::test]
async fn models_are_told_the_newest_alerts() {
    let talk = Talk::acting().await;
    let alert = |order: &str| Alert {
        alert_id: format!("{order}/Error/1"),
        kind: AlertKind::OrderError,
        order_id: Some(order.to_owned()),
        cause: "x".to_owned(),
        at: SystemClock.now(),
    };
    let told = ["a", "b"].map(|order| alert(order).message("k", None));
    talk.world.heard.publish(told.into()).await;
    let few = json!({"since": "2h", "limit": 1});
    let (is_error, said) = talk.call(&talk.reader, "list_alerts", few).await;
    assert!(!is_error, "{said}");
    assert_eq!(said["alerts"][0]["about"], "order-error", "{said}");
    assert_eq!(
        (&said["alerts"][1], &said["more"]),
        (&json!(null), &json!(true))
    );
    let many = json!({"limit": 41});
    let (is_error, said) = talk.call(&talk.reader, "list_alerts", many).await;
    assert!(is_error && said["code"] == "bad-limit", "{said}");
}

#[tokio::test]
async fn hidden_fields_are_hidden_from_models_too() {
    let hides = Settings {
        hidden: Hidden::of(["card".to_owned()]),
        ..Settings::default()
    };
    let talk = Talk::start(hides, true).await;
    talk.world.failed("e", "x").await;
    talk.world.letter(0, "{\"card\": \"4711\"}").await;
    let order = json!({"id": "e", "inputs": true});
    let (_, order) = talk.call(&talk.reader, "get_order", order).await;
    assert!(order["inputs"]["details"]["note"].is_string(), "{order}");
    let letter = json!({"topic": "orders", "partition": 3, "offset": 0});
    let (_, letter) = talk.call(&talk.reader, "get_dead_letter", letter).await;
    for shown in [order, letter] {
        let shown = shown.to_string();
        assert!(
            !shown.contains("4711") && shown.contains("(hidden)"),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn pages_of_orders_follow_each_other_and_none_is_left_out() {
    let talk = Talk::acting().await;
    for n in 0..45 {
        talk.world.failed(&format!("e-{n:02}"), "x").await;
    }
    let (mut found, mut cursor) = (Vec::new(), Value::Null);
    for _ in 0..3 {
        let mut which = json!({"state": "Error"});
        if !cursor.is_null() {
            which["cursor"] = cursor;
        }
        let (_, page) = talk.call(&talk.reader, "list_orders", which).await;
        let orders = page["orders"].as_array().expect("orders");
        assert!(orders.len() <= 20 && page["left_out"].is_null());
        found.extend(
            orders
                .iter()
                .map(|o| o["order_id"].as_str().unwrap().to_owned()),
        );
        cursor = page["next"].clone();
    }
    let wanted: Vec<String> = (0..45).map(|n| format!("e-{n:02}")).collect();
    assert_eq!((found, cursor), (wanted, Value::Null));
    let many = json!({"limit": 41});
    assert_eq!(
        talk.refused(&talk.reader, "list_orders", many).await,
        "bad-limit"
    );
}

#[tokio::test]
async fn the_documentation_is_read_by_its_pages() {
    let talk = Talk::acting().await;
    let (_, pages) = talk.call(&talk.reader, "read_docs", json!({})).await;
    assert_eq!(pages["pages"][0]["name"], "runbook");
    let (_, page) = talk
        .call(&talk.reader, "read_docs", json!({"page": "runbook"}))
        .await;
    assert_eq!(
        (&page["text"], &page["next"]),
        (&json!("# Runbook\nLook.\n"), &Value::Null)
    );
    let code = talk
        .refused(&talk.reader, "read_docs", json!({"page": "x"}))
        .await;
    assert_eq!(code, "no-such-page");
}

#[tokio::test]
async fn a_session_of_a_browser_counts_for_nothing() {
    let talk = Talk::acting().await;
    let page = talk.world.get("/console/").await;
    let (jar, form) = (cookie(&page), csrf_token(&text(&page)));
    let login = [("word", form.as_str()), ("token", &talk.ann)];
    let said = send_form(&talk.world, "/console/login", &jar, &login).await;
    let session = cookie(&said);
    let with = [("cookie", session.as_str())];
    let seen = talk
        .world
        .client
        .send("GET", "/v1/operate/counts", &with, b"");
    assert_eq!(seen.await.status, 200, "it is a session");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    assert_eq!(talk.send(&with, &body).await.is(), (401, "token".into()));
}
