//! The export: batches out of the queue, posted one after the other.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry_proto::tonic::resource::v1::Resource;
use reqwest::{Client, StatusCode, Url};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use triad_runtime::traces::{TraceSink, TraceSpan};
use triad_workflow::Millis;

use crate::queue::Queue;
use crate::settings::{ExportError, ExportSettings};
use crate::wire;

/// Spans of one post.
const BATCH: usize = 512;
/// A smaller batch is sent after this.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// Posts of one batch before it is dropped.
const MAX_TRIES: u32 = 5;
/// After so many failures in a row the wait before the next post is the longest: [`SEND_EVERY`] times two
/// to the power of it, half a minute. It begins with twice [`SEND_EVERY`].
const MAX_DOUBLINGS: u32 = 5;
/// Least time between two lines of the log about dropped spans.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// Sends spans to an endpoint, in batches out of a queue of at most 8,192 spans. Clones share the queue. A
/// span for which the queue has no room, and a batch that the endpoint refuses for good or does not take in 5
/// posts, are dropped and counted.
#[derive(Clone)]
pub struct Exporter(Arc<Inner>);

struct Inner {
    queue: Queue,
    /// Told when a whole batch waits.
    is_full: Notify,
    sending: Mutex<Sending>,
    said: std::sync::Mutex<DropLog>,
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
    /// Posts that failed, or were broken off, since one was taken.
    failures: u32,
    /// Before this time, no batch is posted.
    not_before: Option<Instant>,
}

/// What the log says of dropped spans.
struct DropLog {
    dropped: u64,
    at: Option<Instant>,
}

impl Sending {
    /// Whether there is a batch to be posted now. It counts as failed until it is [`taken`](Self::taken).
    fn next(&mut self, queue: &Queue) -> bool {
        let now = Instant::now();
        if self.not_before.is_some_and(|at| now < at) {
            return false;
        }
        if self.tries >= MAX_TRIES {
            self.drop_batch(queue);
        }
        if self.batch.is_empty() {
            self.batch = queue.take(BATCH);
        }
        if self.batch.is_empty() {
            return false;
        }
        self.tries += 1;
        self.failures = self.failures.saturating_add(1);
        let doublings = self.failures.min(MAX_DOUBLINGS);
        self.not_before = Some(now + SEND_EVERY * 2_u32.pow(doublings));
        true
    }

    fn taken(&mut self) {
        *self = Self::default();
    }

    fn drop_batch(&mut self, queue: &Queue) {
        queue.drops(self.batch.len());
        self.batch.clear();
        self.tries = 0;
    }
}

/// Why a batch was not taken.
struct Refused {
    why: String,
    may_pass: bool,
}

impl TraceSink for Exporter {
    fn ended(&self, span: TraceSpan) {
        // Once for each batch: while the endpoint takes nothing, spans are only counted.
        if self.0.queue.push(span) == BATCH {
            self.0.is_full.notify_one();
        }
    }

    fn flush(&self, within: Millis) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            // What is broken off stays in the queue.
            let _ = tokio::time::timeout(within.as_duration(), self.0.send_all()).await;
        })
    }
}

impl Exporter {
    /// Makes an exporter. Nothing is sent before [`start`](Self::start) or a flush.
    ///
    /// # Errors
    /// [`ExportError::Endpoint`] if the endpoint is not an `http` or `https` URL, [`ExportError::Header`] if
    /// HTTP does not allow a header, [`ExportError::Client`] if no HTTP client can be made.
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
            said: std::sync::Mutex::new(DropLog {
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

    /// Starts the task that sends what is queued, once a second and as soon as 512 spans wait, and returns
    /// its handle. After posts that failed in a row it waits longer, for at most 32 s. The task never ends by
    /// itself; dropping the handle does not end it.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(&self) -> JoinHandle<()> {
        let inner = self.0.clone();
        tokio::spawn(async move { inner.run().await })
    }

    /// How many spans were dropped since the exporter was made, because the queue had no room or the endpoint
    /// did not take them.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.queue.dropped()
    }

    /// How many spans the endpoint has taken since the exporter was made.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.0.sent.load(Ordering::Relaxed)
    }
}

impl Inner {
    async fn run(&self) {
        loop {
            let _ = tokio::time::timeout(SEND_EVERY, self.is_full.notified()).await;
            self.send_all().await;
        }
    }

    /// Sends batch after batch until nothing waits, or the endpoint takes nothing for now. Bounded by what
    /// waits: each turn takes a batch from the queue, or ends. A post that is broken off counts as one
    /// that failed, and its batch is kept.
    async fn send_all(&self) {
        let mut sending = self.sending.lock().await;
        while sending.next(&self.queue) {
            let refused = self.post(&sending.batch).await.err();
            let count = sending.batch.len();
            match &refused {
                None => {
                    sending.taken();
                    let count = u64::try_from(count).unwrap_or(u64::MAX);
                    self.sent.fetch_add(count, Ordering::Relaxed);
                }
                Some(refused) if refused.may_pass && sending.tries < MAX_TRIES => {}
                Some(_) => sending.drop_batch(&self.queue),
            }
            self.log_drops(refused.map(|refused| refused.why).as_deref());
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
    fn log_drops(&self, why: Option<&str>) {
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
        *said = DropLog {
            dropped,
            at: Some(Instant::now()),
        };
    }
}

/// The statuses after which OTLP has a client try again.
fn may_pass(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}
