//! A load generator: orders over HTTP, each waited for until its end.
//!
//! Closed (the usual): so many clients, each of which submits its next order when the last one has ended.
//! Open (`--rate`): orders begin at a steady rate whatever becomes of them, up to a bound of unfinished
//! ones, and a latency counts from when the order should have begun.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use clap::Parser;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::task::LocalSet;
use tokio::time::timeout;

/// Longest wait for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// How often an order is sent again after an answer 429 (Too Many Requests).
const MAX_LATER: u64 = 20;
/// Number of errors whose text is kept.
const MAX_TOLD: usize = 5;

/// Submit orders over HTTP and measure until their ends
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  triad-bench-load --url http://127.0.0.1:7070/v1/orders?wait=60s --orders 5000
  triad-bench-load --url http://127.0.0.1:7070/v1/orders?wait=60s --rate 100 --orders 6000")]
struct Args {
    /// Where orders are posted; `{id}` stands for the order's id. Of several they take turns
    #[arg(long, required = true)]
    url: Vec<String>,
    /// How many orders
    #[arg(long, default_value_t = 2_000)]
    orders: u64,
    /// Orders that are unfinished at once, at most
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    in_flight: u64,
    /// Orders a second, begun steadily; without it each client begins its next when the last has ended
    #[arg(long)]
    rate: Option<f64>,
    /// The workflow of the orders
    #[arg(long, default_value = "three-steps")]
    workflow: String,
    /// What all ids begin with
    #[arg(long, default_value = "load")]
    prefix: String,
    /// About how long an order is, in bytes
    #[arg(long, default_value_t = 500)]
    bytes: usize,
    /// Write the ids of orders that had a good answer to this file, one a line; others are no failure then,
    /// and a client ends at its first
    #[arg(long, value_name = "FILE")]
    accepted: Option<PathBuf>,
}

impl Args {
    /// The id of an order.
    fn id(&self, number: u64) -> String {
        format!("{}-{number:08}", self.prefix)
    }
}

type Http = Client<HttpConnector, Full<Bytes>>;

/// State that all clients of this thread share.
struct Run {
    args: Args,
    http: Http,
    next: u64,
    began: Instant,
    /// Latencies in microseconds.
    latencies: Histogram<u64>,
    failed: u64,
    /// Number of answers 429.
    later: u64,
    told: Vec<String>,
    accepted: Option<BufWriter<File>>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let is_recorded = args.accepted.is_some();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let figures = runtime.block_on(LocalSet::new().run_until(run(args)))?;
    println!("{figures}");
    if figures["failed"] != 0 && !is_recorded {
        bail!(
            "{} orders had no good answer: {}",
            figures["failed"],
            figures["errors"]
        );
    }
    Ok(())
}

async fn run(args: Args) -> Result<Value> {
    let clients = args.in_flight.min(args.orders);
    let run = Rc::new(RefCell::new(Run {
        http: Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(10_000)
            .build_http(),
        next: 0,
        began: Instant::now(),
        latencies: Histogram::new(3)?,
        failed: 0,
        later: 0,
        told: Vec::new(),
        accepted: args
            .accepted
            .as_ref()
            .map(File::create)
            .transpose()?
            .map(BufWriter::new),
        args,
    }));
    let all: Vec<_> = (0..clients)
        .map(|_| tokio::task::spawn_local(client(run.clone())))
        .collect();
    for client in all {
        client.await.context("a client panicked")?;
    }
    let mut run = run.borrow_mut();
    if let Some(mut accepted) = run.accepted.take() {
        accepted.flush()?;
    }
    let seconds = run.began.elapsed().as_secs_f64();
    let of = |quantile| run.latencies.value_at_quantile(quantile) as f64 / 1_000.0;
    Ok(json!({
        "orders": run.latencies.len(), "failed": run.failed, "later": run.later, "errors": run.told, "seconds": seconds,
        "per_second": run.latencies.len() as f64 / seconds,
        "ms": {"p50": of(0.5), "p90": of(0.9), "p99": of(0.99), "p999": of(0.999), "max": of(1.0)},
    }))
}

/// One client: submits an order after the other until all are submitted.
async fn client(run: Rc<RefCell<Run>>) {
    loop {
        let (number, since) = {
            let mut run = run.borrow_mut();
            if run.next >= run.args.orders {
                return;
            }
            let number = run.next;
            run.next += 1;
            let rate = run.args.rate;
            let planned =
                rate.map(|rate| run.began + Duration::from_secs_f64(number as f64 / rate));
            (number, planned)
        };
        if let Some(planned) = since {
            tokio::time::sleep_until(planned.into()).await;
        }
        let since = since.unwrap_or_else(Instant::now);
        let (http, request) = {
            let run = run.borrow();
            (run.http.clone(), request(&run.args, number))
        };
        let answered = match request {
            Ok(request) => answer(&http, &request).await,
            Err(error) => Err(error),
        };
        let mut run = run.borrow_mut();
        match answered {
            Ok(later) => {
                run.later += later;
                let id = run.args.id(number);
                if let Some(accepted) = &mut run.accepted {
                    writeln!(accepted, "{id}").expect("the file can be written");
                }
                let took = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
                // The histogram resizes itself, so no latency is too long for it.
                if let Err(error) = run.latencies.record(took) {
                    run.told.push(error.to_string());
                }
            }
            Err(error) => {
                run.failed += 1;
                if run.told.len() < MAX_TOLD {
                    run.told.push(format!("{error:#}"));
                }
                if run.accepted.is_some() {
                    return;
                }
            }
        }
    }
}

/// Sends an order, and again after each answer 429; returns the number of those answers.
async fn answer(http: &Http, request: &Request<Full<Bytes>>) -> Result<u64> {
    for later in 0..=MAX_LATER {
        let answer = timeout(ANSWER_WITHIN, http.request(request.clone()))
            .await
            .context("no answer in time")??;
        let status = answer.status();
        let after = answer.headers().get("retry-after");
        let after = after.and_then(|after| after.to_str().ok()?.parse().ok());
        let body = answer.into_body().collect().await?.to_bytes();
        match after {
            _ if status.is_success() => return Ok(later),
            Some(after) if status == StatusCode::TOO_MANY_REQUESTS => {
                tokio::time::sleep(Duration::from_secs(after)).await;
            }
            _ => bail!("{status} {}", String::from_utf8_lossy(&body)),
        }
    }
    bail!("told {MAX_LATER} times to come later")
}

fn request(args: &Args, number: u64) -> Result<Request<Full<Bytes>>> {
    let id = args.id(number);
    let url = &args.url[usize::try_from(number)? % args.url.len()];
    let uri: Uri = url.replace("{id}", &id).parse()?;
    let mut order = json!({
        "order_id": id, "workflow": args.workflow,
        "details": {"customerID": number % 1_000, "amount": 7, "note": ""},
    });
    let missing = args.bytes.saturating_sub(order.to_string().len());
    order["details"]["note"] = "x".repeat(missing).into();
    let body = Full::new(Bytes::from(order.to_string()));
    let request = Request::post(uri).header("content-type", "application/json");
    Ok(request.body(body)?)
}
