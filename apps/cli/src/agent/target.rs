//! The service that `triad agent call` and `check` call: the agent's settings, and the description of its service.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use triad_bootstrap::agents::{self, AgentErrors};
use triad_bootstrap::{AgentConfig, environment, http_service};
use triad_http::HttpService;
use triad_workflow::service::ServiceDefinition;
use triad_workflow::{AgentName, Limits, load};

use crate::commands::validate;
use crate::dev::agents::{agent_name, named_address};
use crate::dev::project::Project;
use crate::output::Usage;
use crate::user_files::{self, AGENTS};

/// Options that name the service to call.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// Name of the agent
    #[arg(value_name = "AGENT", value_parser = agent_name)]
    pub name: AgentName,
    /// Address of the agent's service, such as payment=http://127.0.0.1:8080. Default: the address in the project's
    /// triad.yaml or in TRIAD_AGENTS. Credentials come from these in any case
    #[arg(long, value_name = "NAME=URL", value_parser = named_address)]
    pub agent: Vec<(AgentName, String)>,
    /// Description of the service. Default: agents/NAME.yaml beside the workflows of the project, or in this directory
    #[arg(long, value_name = "FILE")]
    pub service: Option<PathBuf>,
    /// Project whose triad.yaml has the settings. Default: this directory
    #[arg(long, value_name = "DIR|FILE", default_value = ".")]
    pub project: PathBuf,
}

/// The service that a command calls.
pub struct Target {
    /// The settings of the agent.
    pub config: AgentConfig,
    /// The service.
    pub service: HttpService,
    /// The file with the description, as it is shown, and the description; `None` if there is none.
    pub described: Option<(String, ServiceDefinition)>,
}

impl TargetArgs {
    /// Reads settings and description. The service is not called yet.
    ///
    /// # Errors
    /// [`Usage`] if one of them is wrong, or there is no address.
    pub fn resolve(&self) -> Result<Target> {
        let name = &self.name;
        let project = Project::find(&self.project)?;
        let url = self.agent.iter().rfind(|(named, _)| named == name);
        let url = url.map(|(_, url)| url.as_str());
        if let Some((other, _)) = self.agent.iter().find(|(named, _)| named != name) {
            let why = format!(
                "--agent {other}=…: this command calls agent {name}: write --agent {name}=…"
            );
            return Err(Usage(why).into());
        }
        let mut config = match &project {
            Some(project) => project.agent(name, url)?,
            None => None,
        };
        if let Some(text) = environment("TRIAD_AGENTS") {
            let mut read = agents::parse(&text).map_err(|AgentErrors(problems)| {
                let named = problems.iter().map(|why| format!("TRIAD_AGENTS: {why}"));
                Usage(named.collect::<Vec<_>>().join("\n"))
            })?;
            config = read.remove(name).or(config);
        }
        if let Some(url) = url {
            let config = config.get_or_insert_with(|| AgentConfig::at(url.to_owned()));
            config.move_to(url.to_owned());
        }
        let config = config.ok_or_else(|| {
            Usage(format!(
                "agent {name} has no address: give --agent {name}=URL, or its settings in `agents` of triad.yaml or in TRIAD_AGENTS"
            ))
        })?;
        let service = http_service(&config, &crate::machine::aws())
            .map_err(|e| Usage(format!("agent {name}: {e}")))?;
        let described = match &self.service {
            Some(file) => Some(description(file)?),
            None => self.beside(project.as_ref())?,
        };
        Ok(Target {
            config,
            service,
            described,
        })
    }

    /// The description from a file beside the workflows or in this directory, else from a workflow itself.
    fn beside(&self, project: Option<&Project>) -> Result<Option<(String, ServiceDefinition)>> {
        let name = self.name.as_str();
        let workflows = project.map_or(&[][..], |project| &project.workflows);
        let beside = |folder: &Path| {
            let files =
                ["yaml", "yml"].map(|end| folder.join(AGENTS).join(format!("{name}.{end}")));
            files.into_iter().find(|file| file.is_file())
        };
        let folders = workflows.iter().filter_map(|file| file.parent());
        let here = Path::new("");
        if let Some(file) = folders.chain([here]).find_map(beside) {
            return Ok(Some(description(&file)?));
        }
        for file in workflows {
            let mut workflow = validate::read(file, &Limits::published())
                .map_err(|wrong| Usage(wrong.to_string()))?;
            if let Some(service) = workflow.definition.agents.remove(name) {
                return Ok(Some((file.display().to_string(), service)));
            }
        }
        Ok(None)
    }
}

fn description(file: &Path) -> Result<(String, ServiceDefinition)> {
    let shown = file.display().to_string();
    let service = load::service_from_yaml(&shown, &user_files::text(file)?)?;
    Ok((shown, service))
}
