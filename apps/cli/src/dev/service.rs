//! The reference service on its own thread, as it stands for a separate process.

use std::net::SocketAddr;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use tokio::sync::oneshot;
use triad_reference_service::{Config, ReferenceService};

/// The reference service, running on its own thread. It stops when this is dropped.
pub struct EmbeddedReferenceService {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    questions: tokio::sync::mpsc::Sender<oneshot::Sender<triad_reference_service::Summary>>,
    thread: Option<JoinHandle<()>>,
}

impl EmbeddedReferenceService {
    /// Starts the service and blocks until it listens.
    ///
    /// # Errors
    /// If the address is taken, the ledger file cannot be used, or no thread can be started.
    pub fn start(config: Config) -> Result<Self> {
        let (stop, mut stopped) = oneshot::channel::<()>();
        let (questions, mut asked) = tokio::sync::mpsc::channel::<oneshot::Sender<_>>(1);
        let (started, addr) = std::sync::mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("the reference service has no runtime")?;
        let serve = async move {
            let handle = match ReferenceService::start(config).await {
                Ok(handle) => handle,
                Err(e) => {
                    let _ = started.send(Err(e));
                    return;
                }
            };
            let _ = started.send(Ok(handle.addr()));
            loop {
                tokio::select! {
                    _ = &mut stopped => break,
                    Some(answer) = asked.recv() => {
                        let _ = answer.send(handle.summary());
                    }
                }
            }
            handle.shutdown().await;
        };
        let thread = std::thread::Builder::new()
            .name("reference".to_owned())
            .spawn(move || runtime.block_on(serve))?;
        let addr = addr
            .recv()
            .map_err(|_| anyhow!("the reference service ended at its start"))??;
        Ok(Self {
            addr,
            stop: Some(stop),
            questions,
            thread: Some(thread),
        })
    }

    /// The address that the service listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The counts of the service's ledger.
    ///
    /// # Errors
    /// If the service has ended.
    pub async fn summary(&self) -> Result<triad_reference_service::Summary> {
        let (ask, answer) = oneshot::channel();
        self.questions
            .send(ask)
            .await
            .map_err(|_| anyhow!("the reference service has ended"))?;
        answer.await.context("the reference service has ended")
    }

    /// Stops the service and blocks until it has stopped.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the reference service had panicked");
        }
    }
}

impl Drop for EmbeddedReferenceService {
    fn drop(&mut self) {
        self.end();
    }
}
