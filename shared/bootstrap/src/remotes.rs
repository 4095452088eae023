//! The generic HTTP agents of a configuration.

use std::time::Duration;

use triad_http::{HttpService, HttpSettings};
use triad_runtime::agent::Remotes;

use crate::config::Config;
use crate::reader::ConfigError;

const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes an HTTP client for each agent in [`Config::agents`]. No service is called yet.
///
/// # Errors
/// [`ConfigError`] with one line for each agent whose URL or headers cannot be used.
pub fn http_remotes(config: &Config) -> Result<Remotes, ConfigError> {
    let mut remotes = Remotes::new();
    let mut problems = Vec::new();
    for (name, agent) in &config.agents {
        let settings = HttpSettings {
            base_url: agent.base_url.clone(),
            call_timeout: agent
                .call_timeout
                .map_or(DEFAULT_CALL_TIMEOUT, |t| t.as_duration()),
            headers: agent.headers.clone().into_iter().collect(),
        };
        match HttpService::new(&settings) {
            Ok(service) => remotes = remotes.with(name.clone(), service),
            Err(e) => problems.push(format!("TRIAD_AGENTS: agent {name}: {e}")),
        }
    }
    if problems.is_empty() {
        Ok(remotes)
    } else {
        Err(ConfigError(problems))
    }
}
