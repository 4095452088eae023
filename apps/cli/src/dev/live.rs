//! Tasks beside the engines: the agents' handlers, a project's services, the watch over its files, and the reports of
//! orders.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use triad_operator::changes::changes;
use triad_workflow::Workflow;

use super::agents::{AgentArgs, AgentRow, Agents, table};

use super::engines::{self, Engines};
use super::files::Files;
use super::handlers::AgentHandlers;
use super::output::Say;
use super::project::Project;
use super::publisher::Publisher;
use super::reread::{self, Places};
use super::services::{self, Services};
use super::setup::Setup;
use super::{order_news, other_workers};
use crate::commands::validate::read_all;
use crate::output::Usage;

/// Interval between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Directory in a project for the files that a run writes for other commands.
const FOLDER: &str = ".triad";

/// Tasks beside the engines; stop it before the engines.
pub struct Live {
    handlers: AgentHandlers,
    services: Option<Arc<Services>>,
    publisher: Publisher,
    project: Option<Project>,
    ports: BTreeMap<String, u16>,
    agent_args: AgentArgs,
    workflows: Vec<Arc<Workflow>>,
    /// Shell lines with the addresses of Kafka and the store.
    engines_at: String,
    say: Say,
    tasks: JoinSet<()>,
    stop: CancellationToken,
    folder: Option<Folder>,
    _data: Option<TempDir>,
}

/// The watched files of a project.
struct Watched {
    own: Files,
    workflows: Files,
    services: Files,
    /// The service of each file.
    of_services: Vec<(String, PathBuf)>,
}

impl Watched {
    fn of(project: &Project) -> Self {
        let mut watched = Self {
            own: Files::new([project.file.clone()]),
            workflows: Files::of_workflows(),
            services: Files::new([]),
            of_services: Vec::new(),
        };
        watched.follow(project);
        watched
    }

    /// Watches the files that the project names now.
    fn follow(&mut self, project: &Project) {
        let services = project.services.iter();
        let of_services = services.flat_map(|(name, service)| {
            let watched = service.watch.iter();
            watched.map(|path| (name.clone(), project.dir.join(path)))
        });
        self.of_services = of_services.collect();
        let paths = self.of_services.iter().map(|(_, path)| path.clone());
        self.services.watch(paths);
        self.workflows.watch(project.workflows.iter().cloned());
    }
}

impl Live {
    /// Starts the agents' handlers, which end with `all`, the project's services and the watches.
    ///
    /// # Errors
    /// If another `triad dev` runs this project, its directory cannot be written, or the broker does
    /// not answer.
    pub fn start(
        setup: &Setup,
        engines: &Engines,
        say: Say,
        all: CancellationToken,
    ) -> Result<Self> {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let kafka = &engines.wiring.config.kafka;
        tasks.spawn(other_workers::watch(
            kafka.clone(),
            engines.publisher.ours(),
            setup.agents.external.clone(),
            say,
            stop.clone(),
        ));
        let addresses = engines.addresses();
        let (wiring, remotes) = (engines.wiring.clone(), engines.remotes.clone());
        let mut live = Self {
            handlers: AgentHandlers::start(wiring, remotes, all),
            services: None,
            publisher: engines.publisher.clone(),
            project: setup.project.clone(),
            ports: setup.ports.clone(),
            agent_args: setup.agent_args.clone(),
            workflows: setup.workflows.clone(),
            engines_at: addresses.variables(),
            say,
            tasks,
            stop,
            folder: None,
            _data: None,
        };
        let Some(project) = &setup.project else {
            return Ok(live);
        };
        live.folder = Some(Folder::take(&project.dir, &live.addresses())?);
        let replies = &engines.wiring.config.settings.reply_topics;
        let replies: Vec<&str> = replies.iter().map(String::as_str).collect();
        let statuses = order_news::open(kafka, &replies)?;
        live.tasks.spawn(order_news::follow_statuses(
            statuses,
            say,
            live.stop.clone(),
        ));
        let data = match &setup.data {
            Some(data) => data.join("services"),
            None => {
                // Each run begins with new orders, so the services begin with empty data, too.
                let scratch = TempDir::new().context("there is no place for temporary files")?;
                let path = scratch.path().to_path_buf();
                live._data = Some(scratch);
                path
            }
        };
        let services = Services::start(project, &setup.ports, &data, say)?;
        live.services = Some(Arc::new(services));
        Ok(live)
    }

    /// Shell lines with the addresses of the engines and the services.
    fn addresses(&self) -> String {
        let mut lines = self.engines_at.clone();
        for (name, port) in &self.ports {
            let name = name.to_uppercase().replace('-', "_");
            lines.push_str(&format!(
                "export TRIAD_SERVICE_{name}=http://127.0.0.1:{port}\n"
            ));
        }
        lines
    }

    /// The project's services; `None` without a project.
    pub fn services(&self) -> Option<Arc<Services>> {
        self.services.clone()
    }

    /// Follows the files of the project: publishes changed workflows, restarts changed services, and applies a
    /// changed project file. Never returns without an error.
    ///
    /// # Errors
    /// If the handlers of the agents have ended; if a workflow cannot be published, or a changed project file cannot
    /// be applied.
    pub async fn follow(&mut self) -> Result<ExitCode> {
        let Some(project) = &self.project else {
            return Err(self.handlers.ended().await);
        };
        let mut watched = Watched::of(project);
        loop {
            tokio::select! {
                error = self.handlers.ended() => return Err(error),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            for path in watched.services.changed() {
                for (name, _) in watched.of_services.iter().filter(|(_, p)| *p == path) {
                    if let Some(services) = &self.services {
                        services.restart(name);
                    }
                }
            }
            if !watched.own.changed().is_empty() {
                self.project_changed(&mut watched).await?;
            }
            for path in watched.workflows.changed() {
                self.changed(&path).await?;
            }
        }
    }

    /// Applies the changed project file, and prints the differences.
    async fn project_changed(&mut self, watched: &mut Watched) -> Result<()> {
        let Some(before) = self.project.clone() else {
            return Ok(());
        };
        let shown = before.file.display();
        let (after, ports, agents) = match self.read_again(&before) {
            Ok(read) => read,
            Err(Usage(problems)) => {
                let text = format!(
                    "{problems}\n{shown}: nothing of it counts until it is mended; what was read before does"
                );
                let json = json!({"event": "project-not-read", "file": shown.to_string(), "problems": problems});
                self.say.event(&text, &json);
                return Ok(());
            }
        };
        let places = Places::of(&self.publisher.rows(), &self.publisher.agents);
        let moved = agents.addressed != self.publisher.agents.addressed;
        self.ports = ports;
        if moved {
            let (wiring, remotes) = self.publisher.move_to(agents).await?;
            self.handlers.start_anew(wiring, remotes).await?;
        }
        if let Some(services) = &self.services {
            services.change(&after, &self.ports).await?;
        }
        if let Some(folder) = &self.folder {
            folder.write(&self.addresses())?;
        }
        let mut lines = reread::of_file(&before, &after);
        let now = Places::of(&self.publisher.rows(), &self.publisher.agents);
        lines.extend(places.changes(&now));
        self.say_project(&before, &lines);
        watched.follow(&after);
        let new = after.workflows.iter();
        let new: Vec<PathBuf> = new
            .filter(|file| !before.workflows.contains(file))
            .cloned()
            .collect();
        self.project = Some(after);
        for path in new {
            self.changed(&path).await?;
        }
        Ok(())
    }

    fn say_project(&self, project: &Project, lines: &[String]) {
        let shown = project.file.display();
        if lines.is_empty() {
            let text = format!("{shown}: nothing has changed that counts");
            let json = json!({"event": "unchanged", "file": shown.to_string()});
            self.say.event(&text, &json);
            return;
        }
        let mut text = format!("{shown} has changed");
        for line in lines {
            text.push_str(&format!("\n  {line}"));
        }
        let json = json!({"event": "project-changed", "file": shown.to_string(), "changes": lines});
        self.say.event(&text, &json);
    }

    /// Reads the project file again: the project, the ports of its services, and the addresses of its agents.
    fn read_again(
        &self,
        before: &Project,
    ) -> Result<(Project, BTreeMap<String, u16>, Agents), Usage> {
        let gone = || Usage(format!("{}: is not there any more", before.file.display()));
        let after = Project::find(&before.file)?.ok_or_else(gone)?;
        let ports = services::ports(&after, &self.ports)?;
        let of_project = after.agents(&ports)?;
        let agents = self.agent_args.resolve(of_project, after.answers.clone())?;
        Ok((after, ports, agents))
    }

    /// Publishes a changed workflow file, and prints the differences.
    async fn changed(&mut self, path: &Path) -> Result<()> {
        let shown = path.display();
        let read = read_all(&[path.to_path_buf()], &engines::limits());
        let read = read.and_then(|mut read| match read.pop() {
            Some(workflow) => Ok(workflow),
            None => Err(Usage(format!("{shown}: has no workflow"))),
        });
        let workflow = match read {
            Ok(workflow) => workflow,
            Err(Usage(problems)) => {
                let text = format!(
                    "{problems}\n{shown} is not published; the version before stays the present one"
                );
                let json = json!({"event": "not-published", "file": shown.to_string(), "problems": problems});
                self.say.event(&text, &json);
                return Ok(());
            }
        };
        let at = self.workflows.iter().position(|w| w.name == workflow.name);
        let before = at.map(|at| &self.workflows[at]);
        if before.is_some_and(|before| before.hash == workflow.hash) {
            let text = format!("{shown}: nothing has changed that counts");
            self.say.event(
                &text,
                &json!({"event": "unchanged", "file": shown.to_string()}),
            );
            return Ok(());
        }
        let lines = before.map_or_else(Vec::new, |before| changes(before, &workflow));
        let old = before.map(|before| before.hash.to_string());
        let new = self.publisher.publish(&workflow).await?;
        let mut text = format!("published {}@{}", workflow.name, workflow.hash);
        match &old {
            Some(old) => text.push_str(&format!(", before {old}")),
            None => text.push_str(", a new workflow"),
        }
        for line in &lines {
            text.push_str(&format!("\n  {line}"));
        }
        self.say.event(
            &text,
            &json!({
                "event": "published",
                "file": shown.to_string(),
                "workflow": workflow.name.as_str(),
                "hash": workflow.hash.as_str(),
                "before": old,
                "changes": lines,
            }),
        );
        match at {
            Some(at) => self.workflows[at] = Arc::new(workflow),
            None => self.workflows.push(Arc::new(workflow)),
        }
        if let Some(new) = new {
            let rows: Vec<_> = new.rows.iter().map(AgentRow::json).collect();
            let json = json!({"event": "agents", "agents": rows});
            self.say.event(&table(&new.rows).to_string(), &json);
            self.handlers.add(new.wiring, new.remotes);
        }
        Ok(())
    }

    /// Stops the agents' handlers, the services and the watches.
    ///
    /// # Errors
    /// The error of a handler that failed.
    pub async fn stop(self) -> Result<()> {
        self.stop.cancel();
        let Self {
            services,
            mut tasks,
            publisher,
            mut handlers,
            ..
        } = self;
        let ended = handlers.stop().await;
        while let Some(ended) = tasks.join_next().await {
            if ended.is_err() {
                tracing::warn!("a watch had panicked");
            }
        }
        drop(publisher);
        if let Some(services) = services {
            services.stop().await;
        }
        ended
    }
}

/// The project's folder for a run: locked by this process, with the addresses for other commands.
struct Folder {
    env: PathBuf,
    _lock: File,
}

impl Folder {
    fn take(project: &Path, lines: &str) -> Result<Self> {
        let folder = project.join(FOLDER);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("the directory {} cannot be made", folder.display()))?;
        let path = folder.join("lock");
        let lock =
            File::create(&path).with_context(|| format!("{} cannot be written", path.display()))?;
        if lock.try_lock().is_err() {
            let shown = folder.display();
            return Err(Usage(format!(
                "another triad dev runs this project ({shown} is in use): stop that one first"
            ))
            .into());
        }
        let env = folder.join("env");
        let folder = Self { env, _lock: lock };
        folder.write(lines)?;
        Ok(folder)
    }

    /// Writes the file of addresses.
    fn write(&self, lines: &str) -> Result<()> {
        let env = &self.env;
        std::fs::write(env, lines).with_context(|| format!("{} cannot be written", env.display()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The addresses are no longer valid.
        let _ = std::fs::remove_file(&self.env);
    }
}
