//! The export: batches out of the queue, posted one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry_proto::tonic::resource::v1::Resource;
use reqwest::{Client, StatusCode, Url};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use triad_runtime::traces::{TraceSink, TraceSpan};

use crate::queue::Queue;
use crate::settings::{ExportError, ExportSettings};
use crate::wire;

/// Spans of one post.
const BATCH: usize = 512;
/// A smaller batch is sent after this.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// Posts of one batch before it is dropped.
const MAX_TRIES: u32 = 5;
/// Longest wait between two of them; the first waits [`SEND_EVERY`], and each twice as long as the last.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Least time between two lines of the log about dropped spans.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// Sends spans to an endpoint. Its clones send through the same queue.
#[derive(Clone)]
pub struct Exporter(Arc<Inner>);

struct Inner {
    queue: Queue,
    /// Told when a whole batch waits.
    is_full: Notify,
    sending: Mutex<Sending>,
    said: std::sync::Mutex<Said>,
    sent: AtomicU64,
    client: Client,
    endpoint: Url,
    resource: Resource,
    timeout: Duration,
}

/// The batch that is being sent. It outlives a send that is broken off.
#[derive(Default)]
struct Sending {
    batch: Vec<TraceSpan>,
    tries: u32,
}

/// What the log says of dropped spans.
struct Said {
    dropped: u64,
    at: Option<Instant>,
}

/// Why a batch was not taken.
struct Refused {
    why: String,
    may_pass: bool,
}

impl TraceSink for Exporter {
    fn ended(&self, span: TraceSpan) {
        if self.0.queue.push(span) >= BATCH {
            self.0.is_full.notify_one();
        }
    }
}

impl Exporter {
    /// Makes an exporter. Nothing is sent before [`run`](Self::run) or [`flush`](Self::flush).
    ///
    /// # Errors
    /// [`ExportError`], by the setting that is wrong.
    pub fn new(settings: &ExportSettings) -> Result<Self, ExportError> {
        let endpoint = Url::parse(&settings.endpoint).map_err(|_| ExportError::Endpoint)?;
        if !matches!(endpoint.scheme(), "http" | "https") || endpoint.host().is_none() {
            return Err(ExportError::Endpoint);
        }
        let client = triad_http::client_builder()
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(settings.headers.map()?)
            .pool_max_idle_per_host(1)
            .build()
            .map_err(|e| ExportError::Client(e.to_string()))?;
        Ok(Self(Arc::new(Inner {
            queue: Queue::default(),
            is_full: Notify::new(),
            sending: Mutex::default(),
            said: std::sync::Mutex::new(Said {
                dropped: 0,
                at: None,
            }),
            sent: AtomicU64::new(0),
            client,
            endpoint,
            resource: wire::resource(settings),
            timeout: settings.timeout,
        })))
    }

    /// Starts the task that sends what is queued, for as long as the process runs. To be called within a
    /// Tokio runtime.
    pub fn start(&self) -> JoinHandle<()> {
        let inner = self.0.clone();
        tokio::spawn(async move { inner.run().await })
    }

    /// Sends all that waits, for at most `within`. What is not sent by then stays in the queue.
    pub async fn flush(&self, within: Duration) {
        // What it was about to say is said with the next flush, or by the task.
        let _ = tokio::time::timeout(within, self.0.send_all()).await;
    }

    /// Spans that were dropped since the start: for want of room, or because the endpoint did not take
    /// them.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.queue.dropped()
    }

    /// Spans that the endpoint has taken since the start.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.0.sent.load(Ordering::Relaxed)
    }
}

impl Inner {
    async fn run(&self) {
        let mut wait = SEND_EVERY;
        loop {
            // While the endpoint refuses, a full queue is no reason to ask sooner.
            if wait > SEND_EVERY {
                tokio::time::sleep(wait).await;
            } else {
                let _ = tokio::time::timeout(wait, self.is_full.notified()).await;
            }
            wait = match self.send_all().await {
                true => SEND_EVERY,
                false => (wait * 2).min(LONGEST_WAIT),
            };
        }
    }

    /// Sends batch after batch until nothing waits; false if the endpoint takes nothing for now.
    /// Bounded by what waits: each turn takes a batch from the queue, or ends.
    async fn send_all(&self) -> bool {
        let mut sending = self.sending.lock().await;
        loop {
            // Posts that were broken off count as tries.
            if sending.tries >= MAX_TRIES {
                self.queue.drops(sending.batch.len());
                sending.batch.clear();
            }
            if sending.batch.is_empty() {
                sending.batch = self.queue.take(BATCH);
                sending.tries = 0;
            }
            if sending.batch.is_empty() {
                self.say(None);
                return true;
            }
            sending.tries += 1;
            let refused = self.post(&sending.batch).await.err();
            let count = sending.batch.len();
            match refused {
                None => {
                    sending.batch.clear();
                    let count = u64::try_from(count).unwrap_or(u64::MAX);
                    self.sent.fetch_add(count, Ordering::Relaxed);
                }
                Some(refused) if refused.may_pass && sending.tries < MAX_TRIES => {
                    self.say(Some(&refused.why));
                    return false;
                }
                Some(refused) => {
                    sending.batch.clear();
                    self.queue.drops(count);
                    self.say(Some(&refused.why));
                    return !refused.may_pass;
                }
            }
        }
    }

    async fn post(&self, batch: &[TraceSpan]) -> Result<(), Refused> {
        let body = wire::request(&self.resource, batch);
        let post = self.client.post(self.endpoint.clone());
        let post = post.header("content-type", "application/x-protobuf");
        let answer = post.timeout(self.timeout).body(body).send().await;
        let answer = answer.map_err(|e| Refused {
            why: e.without_url().to_string(),
            may_pass: true,
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        Err(Refused {
            why: status.to_string(),
            may_pass: may_pass(status),
        })
    }

    /// Says how many spans were dropped since it was last said, at most once a minute.
    fn say(&self, why: Option<&str>) {
        let mut said = self
            .said
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let dropped = self.queue.dropped();
        let is_news = dropped > said.dropped;
        let is_early = said.at.is_some_and(|at| at.elapsed() < SAY_EVERY);
        if !is_news || is_early {
            return;
        }
        let count = dropped - said.dropped;
        tracing::warn!(
            count,
            why,
            "spans of traces were dropped; orders are not affected"
        );
        *said = Said {
            dropped,
            at: Some(Instant::now()),
        };
    }
}

/// The statuses after which OTLP has a client try again.
fn may_pass(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}
