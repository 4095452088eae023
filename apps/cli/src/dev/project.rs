//! The file of a project, `triad.yaml`: what `triad dev` runs in its directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};
use triad_bootstrap::AgentConfig;
use triad_bootstrap::agents::{self, AgentErrors};
use triad_workflow::AgentName;

use crate::output::Usage;
use crate::user_files;

/// Name of the file that makes a directory a project.
pub const FILE: &str = "triad.yaml";

/// A project file as written. Paths are relative to its directory.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectFile {
    /// Workflow files.
    workflows: Vec<PathBuf>,
    /// Orders to submit on request, one JSON object a line.
    #[serde(default)]
    orders: Option<PathBuf>,
    /// Outputs of the reference service for agents without a service.
    #[serde(default)]
    answers: Option<PathBuf>,
    /// The services to start, by name.
    #[serde(default)]
    services: BTreeMap<String, ProjectService>,
    /// Settings by agent, as in `TRIAD_AGENTS`; `service` and `path` may take the place of `base_url`.
    #[serde(default)]
    agents: BTreeMap<String, Map<String, Value>>,
}

/// A service of a project.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectService {
    /// Command that starts the service, for `sh`. The variable `PORT` has the port to listen on, on 127.0.0.1, and
    /// `DATA_DIR` the directory for its data.
    pub command: String,
    /// The service's port. `None`: a free one.
    #[serde(default)]
    pub port: Option<u16>,
    /// Files whose change restarts the service.
    #[serde(default)]
    pub watch: Vec<PathBuf>,
}

/// A project: the content of its file, with paths that can be opened.
#[derive(Debug, Clone)]
pub struct Project {
    /// The project's directory, in which services are started; empty for the working directory.
    pub dir: PathBuf,
    /// The project's file.
    pub file: PathBuf,
    /// Workflow files, at least one.
    pub workflows: Vec<PathBuf>,
    /// Orders to submit on request.
    pub orders: Option<PathBuf>,
    /// Outputs of the reference service for agents without a service.
    pub answers: Option<PathBuf>,
    /// The services to start, by name.
    pub services: BTreeMap<String, ProjectService>,
    agents: BTreeMap<String, Map<String, Value>>,
}

impl Project {
    /// The project of this directory (an empty path is the working directory), or of this file; `None` for a
    /// directory without a [`FILE`].
    ///
    /// # Errors
    /// [`Usage`] naming every problem of the file.
    pub fn find(place: &Path) -> Result<Option<Self>, Usage> {
        let is_dir = place.as_os_str().is_empty() || place.is_dir();
        let file = if is_dir {
            place.join(FILE)
        } else {
            place.to_path_buf()
        };
        if is_dir && !file.exists() {
            return Ok(None);
        }
        Self::read(&file).map(Some)
    }

    /// Reads a project file.
    fn read(file: &Path) -> Result<Self, Usage> {
        let shown = file.display();
        let text = user_files::text(file)?;
        let written: ProjectFile =
            serde_saphyr::from_str(&text).map_err(|e| Usage(format!("{shown}: {e}")))?;
        let dir = file.parent().unwrap_or(Path::new("")).to_path_buf();
        let project = Self {
            workflows: written.workflows.iter().map(|p| dir.join(p)).collect(),
            orders: written.orders.map(|p| dir.join(p)),
            answers: written.answers.map(|p| dir.join(p)),
            services: written.services,
            agents: written.agents,
            file: file.to_path_buf(),
            dir,
        };
        let problems = project.problems();
        if problems.is_empty() {
            Ok(project)
        } else {
            let named = problems.iter().map(|why| format!("{shown}: {why}"));
            Err(Usage(named.collect::<Vec<_>>().join("\n")))
        }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.workflows.is_empty() {
            problems.push("workflows: names no file".to_owned());
        }
        for (name, service) in &self.services {
            if let Err(e) = AgentName::new(name) {
                problems.push(format!("services: {e}"));
            }
            if service.command.trim().is_empty() {
                problems.push(format!("services.{name}.command: is empty"));
            }
        }
        for (name, settings) in &self.agents {
            let address = ["base_url", "lambda", "sqs", "sns"];
            let address = address.iter().find_map(|name| settings.get(*name));
            match (settings.get("service"), address) {
                (Some(_), Some(_)) => problems.push(format!(
                    "agents.{name}: has both service and another address; one says where it is"
                )),
                (Some(Value::String(service)), None) if self.services.contains_key(service) => {}
                (Some(service), None) => {
                    let known: Vec<&str> = self.services.keys().map(String::as_str).collect();
                    problems.push(format!(
                        "agents.{name}.service: {service} is not one of services; there are {}",
                        known.join(", ")
                    ));
                }
                (None, _) if settings.contains_key("path") => problems.push(format!(
                    "agents.{name}.path: goes with service; a base_url has its own path"
                )),
                (None, _) => {}
            }
        }
        problems
    }

    /// The settings of one agent, at this address in place of its own if there is one; `None` if the project has none.
    ///
    /// # Errors
    /// [`Usage`] if a setting cannot be used, or the address is not known outside of `triad dev`.
    pub fn agent(&self, name: &AgentName, url: Option<&str>) -> Result<Option<AgentConfig>, Usage> {
        let Some(settings) = self.agents.get(name.as_str()) else {
            return Ok(None);
        };
        let mut settings = settings.clone();
        let service = settings
            .get("service")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let port = service
            .as_ref()
            .and_then(|service| self.services.get(service)?.port);
        match (url, service, port) {
            (Some(url), ..) => {
                settings.retain(|setting, _| {
                    !matches!(
                        setting.as_str(),
                        "service" | "path" | "lambda" | "sqs" | "sns"
                    )
                });
                settings.insert("base_url".to_owned(), url.into());
            }
            (None, Some(service), None) => {
                return Err(Usage(format!(
                    "the service {service} of agent {name} has the port that triad dev gives it: start triad dev, and give --agent {name}=URL with the address that it prints"
                )));
            }
            _ => {}
        }
        let only = Self {
            agents: [(name.to_string(), settings)].into(),
            ..self.clone()
        };
        let ports = self.services.iter();
        let ports = ports.filter_map(|(name, service)| Some((name.clone(), service.port?)));
        Ok(only.agents(&ports.collect())?.remove(name))
    }

    /// The settings of the agents, given the ports of the services.
    ///
    /// # Errors
    /// [`Usage`] naming every setting that cannot be used.
    pub fn agents(
        &self,
        ports: &BTreeMap<String, u16>,
    ) -> Result<BTreeMap<AgentName, AgentConfig>, Usage> {
        let mut all = Map::new();
        for (name, settings) in &self.agents {
            let mut settings = settings.clone();
            let port = settings
                .remove("service")
                .and_then(|service| ports.get(service.as_str()?));
            if let Some(port) = port {
                let path = settings.remove("path");
                let path = path.as_ref().and_then(Value::as_str);
                // Default path: the agent's name, which distinguishes the agents of a shared service.
                let path = path.map_or_else(
                    || name.clone(),
                    |path| path.trim_start_matches('/').to_owned(),
                );
                let url = format!("http://127.0.0.1:{port}/{path}");
                settings.insert("base_url".to_owned(), url.into());
            }
            all.insert(name.clone(), settings.into());
        }
        agents::read(all).map_err(|AgentErrors(problems)| {
            let shown = self.file.display();
            let named = problems.iter().map(|why| format!("{shown}: {why}"));
            Usage(named.collect::<Vec<_>>().join("\n"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(text: &str) -> Result<Project, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join(FILE);
        std::fs::write(&file, text).expect("a file");
        Project::read(&file).map_err(|e| e.to_string())
    }

    #[test]
    fn an_agent_of_a_service_is_at_its_port_below_its_name_or_its_path() {
        let project = project(
            "workflows: [w.yaml]
services: { shop: { command: ./shop } }
agents:
  bank: { service: shop, concurrency: 3 }
  hotel: { service: shop, path: /v1/rooms }
  taxi: { base_url: 'https://taxi.example' }
",
        )
        .expect("it is sound");
        let agents = project.agents(&[("shop".to_owned(), 81)].into());
        let agents = agents.expect("they are sound");
        let bank = &agents[&AgentName::new("bank").expect("a name")];
        assert_eq!(bank.base_url.as_deref(), Some("http://127.0.0.1:81/bank"));
        assert_eq!(bank.concurrency.map(std::num::NonZeroU16::get), Some(3));
        let at = |name| agents[&AgentName::new(name).expect("a name")].address();
        assert_eq!(at("hotel"), "http://127.0.0.1:81/v1/rooms");
        assert_eq!(at("taxi"), "https://taxi.example");
    }

    #[test]
    fn every_problem_is_named_with_its_place() {
        let problems = project(
            "workflows: []
services: { shop: { command: ' ' } }
agents:
  a: { service: shoop }
  b: { service: shop, base_url: 'http://h' }
  c: { base_url: 'http://h', path: x }
",
        )
        .expect_err("it is wrong");
        for part in [
            "workflows: names no file",
            "services.shop.command: is empty",
            "agents.a.service: \"shoop\" is not one of services; there are shop",
            "agents.b: has both",
            "agents.c.path: goes with service",
        ] {
            assert!(problems.contains(part), "{part} in {problems}");
        }
        let unknown = project("workflows: [w.yaml]\norder: o.jsonl\n").expect_err("no such key");
        assert!(unknown.contains("order"), "{unknown}");
    }
}
