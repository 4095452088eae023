//! The handlers of the agents, which can be restarted while everything else runs.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use triad_runtime::agent::Remotes;
use triad_worker::Function;

use crate::machine::Wired;

/// Required by [`triad_worker::run`]; agents make no sweep.
const NO_SWEEP: Duration = Duration::from_secs(1);

/// The running handlers of the agents.
pub struct AgentHandlers {
    tasks: JoinSet<Result<()>>,
    /// Ends all handlers of the process.
    all: CancellationToken,
    /// Ends the handlers of the agents.
    own: CancellationToken,
}

impl AgentHandlers {
    /// Starts the handlers of all agents in `remotes`. They end with `all` at the latest.
    pub fn start(wiring: Wired, remotes: Remotes, all: CancellationToken) -> Self {
        let mut handlers = Self {
            tasks: JoinSet::new(),
            own: all.child_token(),
            all,
        };
        handlers.add(wiring, remotes);
        handlers
    }

    /// Starts the handlers of further agents.
    pub fn add(&mut self, wiring: Wired, remotes: Remotes) {
        let own = self.own.clone();
        self.tasks.spawn(async move {
            triad_worker::run(wiring, remotes, &[Function::Agent], NO_SWEEP, own).await
        });
    }

    /// Stops all agents' handlers, and starts those of these agents. Waits at most 5 s for running calls; unfinished
    /// ones are repeated with the same key.
    ///
    /// # Errors
    /// The error of a handler that failed.
    pub async fn start_anew(&mut self, wiring: Wired, remotes: Remotes) -> Result<()> {
        self.stop().await?;
        self.own = self.all.child_token();
        self.add(wiring, remotes);
        Ok(())
    }

    /// Waits until a handler ends without a stop; returns the reason.
    pub async fn ended(&mut self) -> anyhow::Error {
        let Some(ended) = self.tasks.join_next().await else {
            return std::future::pending().await;
        };
        let ended = ended.context("an agent's handler panicked");
        let error = ended.and_then(|ended| ended).err();
        let error = error.unwrap_or_else(|| anyhow!("they ended without a request to stop"));
        error.context("the handlers of the agents have ended")
    }

    /// Stops the handlers, and waits for their end.
    ///
    /// # Errors
    /// The error of the first handler that failed.
    pub async fn stop(&mut self) -> Result<()> {
        self.own.cancel();
        let mut result = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            let ended = ended.context("an agent's handler panicked");
            let ended = ended.and_then(|ended| ended);
            if result.is_ok() {
                result = ended;
            }
        }
        result
    }
}
