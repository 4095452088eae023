//! The agent function: takes batches of the topics `agent.<name>` and `agent.<name>.high` for
//! the HTTP agents of its configuration.

use std::sync::Arc;

use triad_bootstrap::{Account, http_remotes, lambda};
use triad_lambda::RunError;
use triad_runtime::agent::Remotes;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), RunError> {
    let wiring = lambda::start().await?;
    let remotes: Remotes = triad_lambda::init(async {
        let account = Account::of_function().into();
        let remotes = http_remotes(&wiring.config, &account).map_err(|e| e.to_string())?;
        if remotes.names().next().is_none() {
            return Err("TRIAD_AGENTS: is missing; name at least one agent".to_owned());
        }
        Ok(remotes)
    })
    .await?;
    let agent = Arc::new(wiring.agent(remotes));
    lambda::run_batches(wiring, move |records, turn| {
        let agent = agent.clone();
        Box::pin(async move {
            let done = |index| turn.done(index);
            agent.handle_each(&records, Some(turn.until), &done).await
        })
    })
    .await
}
