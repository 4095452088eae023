//! The service that carries out the steps of every measured system, in one thread, and counts them.
//!
//! `POST /…/{step}` with an `Idempotency-Key` carries out a step. `GET /_counted` returns the number of calls, of
//! distinct keys, and of orders whose last step is done. `POST /_missing` takes order ids, one a line, and returns
//! how many of them have not had their last step. `POST /_forget` resets the counts.

use std::cell::RefCell;
use std::collections::HashSet;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::Result;
use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};

/// The step after which an order has ended.
const LAST: &str = "ship";

/// The service that does the steps
#[derive(Parser)]
struct Args {
    /// Where it listens
    #[arg(long)]
    listen: SocketAddr,
}

/// What was called. Of keys and ids only hashes are kept; among ten million, two are equal in one of 300,000 runs.
#[derive(Default)]
struct Asked {
    hash: RandomState,
    calls: u64,
    keys: HashSet<u64>,
    ended: HashSet<u64>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(LocalSet::new().run_until(serve(args.listen)))
}

async fn serve(listen: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen).await?;
    let asked = Rc::new(RefCell::new(Asked::default()));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let asked = asked.clone();
        spawn_local(async move {
            let service = service_fn(move |request| answer(asked.clone(), request));
            let http = http1::Builder::new();
            // A client that closes the connection is not an error.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    asked: Rc<RefCell<Asked>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes());
    let body = body.unwrap_or_default();
    let mut asked = asked.borrow_mut();
    let answer = match head.uri.path() {
        "/_counted" => json!({
            "calls": asked.calls, "distinct": asked.keys.len(),
            "repeated": asked.calls - asked.keys.len() as u64, "ended": asked.ended.len(),
        }),
        "/_missing" => {
            let ids = String::from_utf8_lossy(&body);
            let missing = ids.lines().filter(|id| {
                let id = asked.hash.hash_one(id.as_bytes());
                !asked.ended.contains(&id)
            });
            json!({"missing": missing.count()})
        }
        "/_forget" => {
            *asked = Asked::default();
            json!({})
        }
        path => {
            let step = path.rsplit('/').next().unwrap_or_default();
            asked.did(step, &head.headers)
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}

impl Asked {
    /// Does a step, and counts it.
    fn did(&mut self, step: &str, headers: &HeaderMap) -> Value {
        let of = |name: &str| headers.get(name).map_or(&b""[..], |value| value.as_bytes());
        let order = match of("benchmark-order") {
            b"" => of("triad-order"),
            order => order,
        };
        let key = of("idempotency-key");
        self.calls += 1;
        self.keys.insert(self.hash.hash_one(key));
        if step == LAST {
            self.ended.insert(self.hash.hash_one(order));
        }
        json!({"ok": true, "step": step, "reference": String::from_utf8_lossy(key)})
    }
}
