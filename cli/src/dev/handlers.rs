//! The handlers of the agents: they can be started anew while everything else goes on.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use triad_runtime::agent::Remotes;
use triad_worker::Function;

use crate::machine::broker::Wired;

/// No sweep is made by agents: [`triad_worker::run`] asks for the time between two all the same.
const NO_SWEEP: Duration = Duration::from_secs(1);

/// The running handlers of the agents.
pub struct AgentHandlers {
    tasks: JoinSet<Result<()>>,
    /// Ends all handlers of the process.
    all: CancellationToken,
    /// Ends those of the agents.
    own: CancellationToken,
}

impl AgentHandlers {
    /// Starts the handlers of all agents that `remotes` has. They end with `all` at the latest.
    pub fn start(wiring: Wired, remotes: Remotes, all: CancellationToken) -> Self {
        let mut handlers = Self {
            tasks: JoinSet::new(),
            own: all.child_token(),
            all,
        };
        handlers.add(wiring, remotes);
        handlers
    }

    /// Starts those of further agents.
    pub fn add(&mut self, wiring: Wired, remotes: Remotes) {
        let own = self.own.clone();
        self.tasks.spawn(async move {
            triad_worker::run(wiring, remotes, &[Function::Agent], NO_SWEEP, own).await
        });
    }

    /// Stops all of them, and starts those of these agents. What is at a service is waited for, for 5 s at
    /// most; what has not ended then is asked for again, under the same key.
    ///
    /// # Errors
    /// That with which one of them ended.
    pub async fn start_anew(&mut self, wiring: Wired, remotes: Remotes) -> Result<()> {
        self.stop().await?;
        self.own = self.all.child_token();
        self.add(wiring, remotes);
        Ok(())
    }

    /// Why the handlers have ended by themselves; until then it waits.
    pub async fn ended(&mut self) -> anyhow::Error {
        let Some(ended) = self.tasks.join_next().await else {
            return std::future::pending().await;
        };
        let ended = ended.context("an agent's handler panicked");
        let error = ended.and_then(|ended| ended).err();
        let error = error.unwrap_or_else(|| anyhow!("nobody told them to stop"));
        error.context("the handlers of the agents have ended")
    }

    /// Stops them, and waits for their end.
    ///
    /// # Errors
    /// That with which the first of them ended.
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
