//! A Lambda Runtime API, so that tests can run the real function binaries.
//!
//! One [`RuntimeApi`] stands for one execution environment: it starts a function as a child process, passes it one
//! invocation after the other and returns its answers. As on Lambda, a function that exits during an invocation fails
//! it, and one that passes its deadline is killed.
//!
//! Each process gets its own free loopback port. With one port for all, a poll that a killed process had sent could
//! be mistaken for its successor's and receive an invocation.
//!
//! Source of the protocol: AWS Lambda Developer Guide, "Using the Lambda runtime API for custom runtimes".

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

mod routes;

/// Largest payload and largest response of a synchronous invocation, in bytes: 6 MB.
pub const MAX_PAYLOAD: usize = 6 * 1024 * 1024;

/// Most invocations that may wait for the function at once.
const MAX_QUEUED: usize = 1_000;

/// Answer of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A response; the event source mapping reads it.
    Response(Bytes),
    /// A function error; the event source mapping retries the whole batch.
    FunctionError {
        /// `errorType` of the answer.
        error_type: String,
        /// `errorMessage` of the answer.
        message: String,
    },
}

impl Answer {
    /// The response as JSON.
    ///
    /// # Panics
    /// When it is a function error, or not JSON.
    pub fn json(&self) -> Value {
        match self {
            Self::Response(body) => serde_json::from_slice(body).expect("a response is JSON"),
            Self::FunctionError { .. } => panic!("expected a response, found {self:?}"),
        }
    }
}

/// The reasons for which a function gives no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvokeError {
    /// It reported a failed start.
    #[error("the function did not start: {error_type}: {message}")]
    Init {
        /// `errorType` of its report.
        error_type: String,
        /// `errorMessage` of its report.
        message: String,
    },
    /// The process ended.
    #[error("the function's process ended: {0}")]
    Exited(ExitStatus),
    /// It did not answer in time; its process is killed.
    #[error("the function did not answer in time")]
    TimedOut,
    /// The payload is larger than [`MAX_PAYLOAD`].
    #[error("the payload is larger than {MAX_PAYLOAD} bytes")]
    TooLarge,
    /// More invocations wait than are allowed.
    #[error("the invocation cannot be queued")]
    NotQueued,
}

/// The state of a function's process.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Process {
    /// The process runs, or none was started.
    Alive,
    Exited(ExitStatus),
}

struct Queued {
    id: String,
    payload: Bytes,
    deadline_ms: u64,
}

struct Shared {
    queue: tokio::sync::Mutex<mpsc::Receiver<Queued>>,
    /// Invocations without an answer, by request id.
    waiting: Mutex<HashMap<String, oneshot::Sender<Answer>>>,
    init_error: watch::Sender<Option<InvokeError>>,
    /// Number of the process that gets invocations; polls of other processes are refused.
    served: watch::Sender<u64>,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Answer>>> {
        self.waiting
            .lock()
            .expect("nothing panics while it holds the map")
    }

    /// Refuses the polls of process `number` from now on.
    fn retire(&self, number: u64) {
        self.served.send_if_modified(|served| {
            let current = *served == number;
            *served += u64::from(current);
            current
        });
    }

    fn answer(&self, id: &str, answer: Answer) -> StatusCode {
        let waiter = self.waiting().remove(id);
        match waiter.map(|waiter| waiter.send(answer)) {
            Some(Ok(())) => StatusCode::ACCEPTED,
            // The invocation is unknown, was answered before, or its invoker no longer waits.
            None | Some(Err(_)) => StatusCode::BAD_REQUEST,
        }
    }
}

/// The state behind the routes of one process.
#[derive(Clone)]
struct Served {
    shared: Arc<Shared>,
    number: u64,
}

/// A Runtime API. The processes that it starts stop when their [`Function`] is dropped.
pub struct RuntimeApi {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Queued>,
    process: watch::Sender<Process>,
    kill: watch::Sender<u64>,
    next_id: AtomicU64,
}

impl RuntimeApi {
    /// A Runtime API without a process.
    pub fn start() -> Self {
        let (queue, queued) = mpsc::channel(MAX_QUEUED);
        let shared = Arc::new(Shared {
            queue: tokio::sync::Mutex::new(queued),
            waiting: Mutex::default(),
            init_error: watch::Sender::new(None),
            served: watch::Sender::new(0),
        });
        Self {
            shared,
            queue,
            process: watch::Sender::new(Process::Alive),
            kill: watch::Sender::new(0),
            next_id: AtomicU64::new(1),
        }
    }

    /// Listens for one process on a free loopback port.
    fn listen(&self, number: u64) -> io::Result<(SocketAddr, JoinHandle<()>)> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let listener = TcpListener::from_std(listener)?;
        let shared = self.shared.clone();
        let routes = routes::routes(Served { shared, number });
        let server = tokio::spawn(async move {
            // Ends when `drop` aborts the task. After an error, invocations time out.
            let _ = axum::serve(listener, routes).await;
        });
        Ok((addr, server))
    }

    /// Starts a function binary with the variables that Lambda sets and the given ones. Its output goes to the test's
    /// output. From now on only this process gets invocations.
    ///
    /// # Errors
    /// If no port can be listened on, or the binary cannot be started.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn spawn<'a>(
        &self,
        binary: &Path,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> io::Result<Function> {
        let number = *self.shared.served.borrow() + 1;
        let (addr, server) = self.listen(number)?;
        let name = binary.file_stem().unwrap_or_default();
        let mut child = Command::new(binary)
            .env("AWS_LAMBDA_RUNTIME_API", addr.to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", name)
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", "local")
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "local")
            .env("AWS_REGION", "eu-west-1")
            .envs(variables)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id();
        self.shared.served.send_replace(number);
        self.shared.init_error.send_replace(None);
        self.process.send_replace(Process::Alive);
        let (process, mut killed) = (self.process.clone(), self.kill.subscribe());
        let shared = self.shared.clone();
        let waiter = tokio::spawn(async move {
            let status = tokio::select! {
                status = child.wait() => status,
                // An invocation has timed out, or the Runtime API was dropped.
                _ = killed.changed() => {
                    // An error means that the process has just ended.
                    let _ = child.start_kill();
                    child.wait().await
                }
            };
            // The exit status of a replaced process does not concern the process after it.
            if let Ok(status) = status
                && *shared.served.borrow() == number
            {
                process.send_replace(Process::Exited(status));
            }
        });
        Ok(Function {
            pid,
            number,
            shared: self.shared.clone(),
            server,
            waiter,
            process: self.process.subscribe(),
        })
    }

    /// Sends `payload` to the function and waits for its answer, for at most `within`, which is also the function's
    /// deadline.
    ///
    /// # Errors
    /// [`InvokeError`]; a function error is an answer, not an error.
    pub async fn invoke(
        &self,
        payload: impl Into<Bytes>,
        within: Duration,
    ) -> Result<Answer, InvokeError> {
        let payload = payload.into();
        if payload.len() > MAX_PAYLOAD {
            return Err(InvokeError::TooLarge);
        }
        let number = self.next_id.fetch_add(1, Ordering::Relaxed);
        let id = format!("00000000-0000-4000-8000-{number:012}");
        let (sender, answered) = oneshot::channel();
        self.shared.waiting().insert(id.clone(), sender);
        let _forget = Forget {
            shared: &self.shared,
            id: &id,
        };
        let queued = Queued {
            id: id.clone(),
            payload,
            deadline_ms: wall_ms() + within.as_millis() as u64,
        };
        self.queue
            .try_send(queued)
            .map_err(|_| InvokeError::NotQueued)?;
        let (mut process, mut init) =
            (self.process.subscribe(), self.shared.init_error.subscribe());
        tokio::select! {
            // `biased`: an answer counts even if the process ended just after it, and an init error is more precise
            // than the process's end.
            biased;
            Ok(answer) = answered => Ok(answer),
            Ok(error) = init.wait_for(Option::is_some) => {
                Err(error.clone().unwrap_or(InvokeError::NotQueued))
            }
            Ok(state) = process.wait_for(|state| *state != Process::Alive) => match &*state {
                Process::Exited(status) => Err(InvokeError::Exited(*status)),
                Process::Alive => Err(InvokeError::NotQueued),
            },
            () = tokio::time::sleep(within) => {
                self.kill.send_modify(|kills| *kills += 1);
                Err(InvokeError::TimedOut)
            }
        }
    }
}

/// On drop, removes an invocation whose caller no longer waits.
struct Forget<'a> {
    shared: &'a Shared,
    id: &'a str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.shared.waiting().remove(self.id);
    }
}

/// A function's process. Dropping it kills the process, by its id.
pub struct Function {
    pid: Option<u32>,
    number: u64,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
    waiter: JoinHandle<()>,
    process: watch::Receiver<Process>,
}

impl Function {
    /// The process id.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Waits until the process has ended.
    ///
    /// # Errors
    /// If it has not ended within `within`.
    pub async fn ended(&mut self, within: Duration) -> Result<ExitStatus, InvokeError> {
        let ended = self.process.wait_for(|state| *state != Process::Alive);
        match tokio::time::timeout(within, ended).await {
            Ok(Ok(state)) => match &*state {
                Process::Exited(status) => Ok(*status),
                Process::Alive => Err(InvokeError::TimedOut),
            },
            Ok(Err(_)) | Err(_) => Err(InvokeError::TimedOut),
        }
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        self.shared.retire(self.number);
        // The task owns the child process, which is killed when the task is dropped.
        self.waiter.abort();
        self.server.abort();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a Runtime API states its deadline on the wall clock"
)]
fn wall_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
