//! A service with flights, hotel rooms and a bank: what the workflow's agents call.
//!
//! `triad dev` starts it, and says in PORT where to listen and in DATA_DIR where to keep its data. The rules
//! of the contract are in `Service::answer`; what the service does is in `act`, and is yours to change.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header::CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::post;
use serde_json::{Value, json};

/// The call is not done. 4xx: the service will not do it, now or later. 5xx: it may pass, and Triad asks
/// again with the same key. Nothing has happened in either case.
struct Refused {
    status: u16,
    code: &'static str,
    message: String,
}

fn refused(status: u16, code: &'static str, message: impl Into<String>) -> Refused {
    let message = message.into();
    Refused {
        status,
        code,
        message,
    }
}

/// What the service does. `number` makes references that are new.
fn act(agent: &str, action: &str, request: &Value, number: usize) -> Result<Value, Refused> {
    let whole = |field: &str| {
        let missing = || refused(422, "missing", format!("{field} is missing"));
        request[field].as_i64().ok_or_else(missing)
    };
    match (agent, action) {
        ("flights", "book") => {
            Ok(json!({"reference": format!("F-{number}"), "price": 120 * whole("guests")?}))
        }
        ("hotel", "book") => {
            let guests = whole("guests")?;
            if guests > 4 {
                return Err(refused(422, "no-room", format!("no room has {guests} beds")));
            }
            Ok(json!({"reference": format!("H-{number}"), "price": 80 * whole("nights")?}))
        }
        ("bank", "charge") => {
            let amount = whole("amount")?;
            if amount > 5000 {
                return Err(refused(422, "card-declined", "the card has not so much"));
            }
            Ok(json!({"reference": format!("B-{number}"), "amount": amount}))
        }
        // Here the booking would be cancelled, or the money sent back.
        ("flights" | "hotel", "cancel") | ("bank", "refund") => {
            Ok(json!({"reference": format!("C-{number}")}))
        }
        _ => {
            let message = format!("there is no action {agent}/{action}");
            Err(refused(404, "no-such-action", message))
        }
    }
}

/// What has happened under each key, `{"state", "request", "output"}`. It is kept for good: a call may come
/// again after days. Each call that changes something is one line of a file, on disk before the answer.
struct Service {
    keys: HashMap<String, Value>,
    log: File,
}

impl Service {
    fn open(file: PathBuf) -> io::Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(&file)?;
        let bytes = std::fs::read(&file)?;
        // A crash may have left the beginning of a line.
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        log.set_len(whole as u64)?;
        let mut keys = HashMap::new();
        for line in bytes[..whole].split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            let entries: HashMap<String, Value> = serde_json::from_slice(line)?;
            keys.extend(entries);
        }
        Ok(Self { keys, log })
    }

    /// Keeps entries, all of them or none.
    fn keep(&mut self, entries: Vec<(String, Value)>) -> Result<(), Refused> {
        let line: HashMap<&String, &Value> = entries.iter().map(|(n, e)| (n, e)).collect();
        let kept = writeln!(self.log, "{}", json!(line)).and_then(|()| self.log.sync_data());
        kept.map_err(|e| refused(500, "disk", e.to_string()))?;
        self.keys.extend(entries);
        Ok(())
    }

    /// One call, by the contract of a remote service (`triad docs service-contract`).
    fn answer(
        &mut self,
        agent: &str,
        action: &str,
        header: impl Fn(&str) -> Option<String>,
        body: &Value,
    ) -> Result<Value, Refused> {
        let direction = header("triad-direction").unwrap_or_else(|| "forward".to_owned());
        let missing = || refused(400, "no-key", "the header Idempotency-Key is missing");
        let key = header("idempotency-key").ok_or_else(missing)?;
        let name = format!("{agent} {key}");
        let known = self.keys.get(&name).cloned().unwrap_or_default();
        let state = known["state"].as_str();
        // Asked only whether it has happened.
        if direction == "probe" {
            return Ok(match state {
                Some("applied") => json!({"applied": true, "output": known["output"]}),
                _ => json!({"applied": false}),
            });
        }
        let compensates = header("triad-compensates").filter(|_| direction == "compensate");
        if direction == "compensate" && compensates.is_none() {
            return Err(refused(400, "no-compensates", "the header Triad-Compensates is missing"));
        }
        // The keys of an object are sorted: the same request has the same text.
        let request = json!([action, compensates, body]).to_string();
        // The call was compensated, perhaps before it came.
        if let Some("compensated" | "tombstone") = state {
            return Err(refused(409, "compensated", "this was compensated"));
        }
        // The same again is answered the same.
        if state.is_some() {
            if known["request"] != request {
                return Err(refused(422, "key-reused", "this key came with another request"));
            }
            return Ok(known["output"].clone());
        }
        let number = self.keys.len() + 1;
        if let Some(compensates) = compensates {
            let target = format!("{agent} {compensates}");
            let before = self.keys.get(&target).and_then(|t| t["state"].as_str());
            // What comes first leaves a tombstone: should the forward call come later, it is refused.
            let (after, output) = match before {
                Some("applied") => ("compensated", act(agent, action, body, number)?),
                Some("compensated") => ("compensated", json!({})),
                _ => ("tombstone", json!({})),
            };
            let entry = json!({"state": "done", "request": request, "output": output});
            self.keep(vec![(target, json!({"state": after})), (name, entry)])?;
            return Ok(output);
        }
        let output = act(agent, action, body, number)?;
        let entry = json!({"state": "applied", "request": request, "output": output});
        self.keep(vec![(name, entry)])?;
        Ok(output)
    }
}

async fn call(
    State(service): State<Arc<Mutex<Service>>>,
    Path((agent, action)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let answered = match serde_json::from_slice(&body) {
        // One call at a time: two with the same key must not both find it new.
        Ok(body) => match service.lock() {
            Ok(mut service) => service.answer(&agent, &action, header, &body),
            Err(_) => Err(refused(500, "broken", "an earlier call has panicked")),
        },
        Err(e) => Err(refused(400, "no-json", e.to_string())),
    };
    let (status, json) = match answered {
        Ok(output) => (200, output),
        Err(Refused {
            status,
            code,
            message,
        }) => (status, json!({"error": {"code": code, "message": message}})),
    };
    let order = header("triad-order").unwrap_or_else(|| "-".to_owned());
    println!("{agent} {action} {order} -> {status}");
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(CONTENT_TYPE, "application/json")], json.to_string())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let setting = |name: &str, default: &str| {
        let value = std::env::var_os(name).unwrap_or_else(|| default.into());
        PathBuf::from(value)
    };
    let port = setting("PORT", "8080").to_string_lossy().parse().unwrap_or(8080);
    let service = Service::open(setting("DATA_DIR", ".").join("service.jsonl"))?;
    let calls = Router::new()
        .route("/{agent}/{action}", post(call))
        .with_state(Arc::new(Mutex::new(service)));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, calls).await
}
