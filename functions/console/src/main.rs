//! The console function: the operators' API and pages, for requests to its URL.

use triad_bootstrap::console::{self, AtUrl, ConsoleConfig};
use triad_bootstrap::{environment, lambda};
use triad_lambda::RunError;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), RunError> {
    let wiring = lambda::start().await?;
    let console = triad_lambda::init(async {
        let config = ConsoleConfig::read(&environment).map_err(|e| e.to_string())?;
        AtUrl::over(&wiring, config).map_err(|e| e.to_string())
    })
    .await?;
    console::run(wiring, console).await
}
