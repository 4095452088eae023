//! The generic HTTP agents of a configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use triad_http::{AwsAccount, Destination, HttpService, HttpSettings, HttpSettingsError};
use triad_runtime::agent::Remotes;
use triad_workflow::AgentName;

use crate::agents::{AgentConfig, AgentErrors};
use crate::config::Config;
use crate::reader::ConfigError;

const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes an HTTP client for each agent in [`Config::agents`], with this account of AWS. No service is called yet.
///
/// # Errors
/// [`ConfigError`] with one line for each agent whose settings cannot be used, or for which no HTTP client can be made.
/// No secret is in it.
pub fn http_remotes(config: &Config, aws: &AwsAccount) -> Result<Remotes, ConfigError> {
    remotes_of(&config.agents, aws).map_err(|AgentErrors(problems)| {
        let named = problems.iter().map(|why| format!("TRIAD_AGENTS: {why}"));
        ConfigError(named.collect())
    })
}

/// Makes an HTTP client for each of these agents, with this account of AWS. No service is called yet.
///
/// # Errors
/// [`AgentErrors`] with one line for each agent whose settings cannot be used, or for which no HTTP client can be made.
/// No secret is in it.
pub fn remotes_of(
    agents: &BTreeMap<AgentName, AgentConfig>,
    aws: &AwsAccount,
) -> Result<Remotes, AgentErrors> {
    let mut remotes = Remotes::new();
    let mut problems = Vec::new();
    for (name, agent) in agents {
        match http_service(agent, aws) {
            Ok(service) => remotes = remotes.with(name.clone(), service),
            Err(e) => problems.push(format!("agent {name}: {e}")),
        }
    }
    if problems.is_empty() {
        Ok(remotes)
    } else {
        Err(AgentErrors(problems))
    }
}

/// Makes the client of an agent. The service is not called yet.
///
/// # Errors
/// The setting that cannot be used.
pub fn http_service(
    agent: &AgentConfig,
    aws: &AwsAccount,
) -> Result<HttpService, HttpSettingsError> {
    HttpService::new(&HttpSettings {
        destination: destination(agent),
        call_timeout: agent
            .call_timeout
            .map_or(DEFAULT_CALL_TIMEOUT, |t| t.as_duration()),
        headers: agent.headers.clone().into_iter().collect(),
        auth: agent.auth.clone(),
        tls: agent.tls.clone(),
        aws: aws.clone(),
        statuses: agent.statuses.clone(),
        callback_url: agent.callback_url.clone(),
    })
}

fn destination(agent: &AgentConfig) -> Destination {
    match agent.clone() {
        AgentConfig {
            lambda: Some(name), ..
        } => Destination::Lambda(name),
        AgentConfig { sqs: Some(url), .. } => Destination::Sqs(url),
        AgentConfig { sns: Some(arn), .. } => Destination::Sns(arn),
        AgentConfig { base_url, .. } => Destination::BaseUrl(base_url.unwrap_or_default()),
    }
}
