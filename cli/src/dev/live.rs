//! What runs beside the engines: a project's services, the watch over its files, and what is told.

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
use triad_worker::Function;
use triad_workflow::{Millis, Workflow};

use super::agents::{Row, table};
use super::changes::changes;
use super::engines::{self, Engines};
use super::files::Files;
use super::project::Project;
use super::publisher::Publisher;
use super::say::Say;
use super::services::Services;
use super::setup::Setup;
use super::{beside, told};
use crate::commands::validate::read_all;
use crate::output::Usage;

/// Between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// The directory in a project for what a run leaves for other commands.
const FOLDER: &str = ".triad";

/// What runs beside the engines. It is to be stopped before they are.
pub struct Live {
    services: Option<Arc<Services>>,
    publisher: Publisher,
    project: Option<Project>,
    workflows: Vec<Arc<Workflow>>,
    say: Say,
    tasks: JoinSet<()>,
    stop: CancellationToken,
    _folder: Option<Folder>,
    _data: Option<TempDir>,
}

impl Live {
    /// Starts the project's services and the watches.
    ///
    /// # Errors
    /// If another `triad dev` runs this project, its directory cannot be written, or the broker does
    /// not answer.
    pub fn start(setup: &Setup, engines: &Engines, say: Say) -> Result<Self> {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let kafka = &engines.wiring.config.kafka;
        tasks.spawn(beside::watch(
            kafka.clone(),
            engines.publisher.ours(),
            setup.agents.external.clone(),
            say,
            stop.clone(),
        ));
        let mut live = Self {
            services: None,
            publisher: engines.publisher.clone(),
            project: setup.project.clone(),
            workflows: setup.workflows.clone(),
            say,
            tasks,
            stop,
            _folder: None,
            _data: None,
        };
        let Some(project) = &setup.project else {
            return Ok(live);
        };
        let (kafka_at, dynamodb_at, _) = engines.addresses();
        let mut lines = format!(
            "export TRIAD_BROKERS={kafka_at}\nexport TRIAD_DYNAMODB_ENDPOINT=http://{dynamodb_at}\n"
        );
        for (name, port) in &setup.ports {
            let name = name.to_uppercase().replace('-', "_");
            lines.push_str(&format!(
                "export TRIAD_SERVICE_{name}=http://127.0.0.1:{port}\n"
            ));
        }
        live._folder = Some(Folder::take(&project.dir, &lines)?);
        let replies = &engines.wiring.config.settings.reply_topics;
        let replies: Vec<&str> = replies.iter().map(String::as_str).collect();
        let statuses = told::open(kafka, &replies)?;
        live.tasks
            .spawn(told::tell(statuses, say, live.stop.clone()));
        let data = match &setup.data {
            Some(data) => data.join("services"),
            None => {
                // Orders begin anew with each run, so what services remember of them does, too.
                let scratch = TempDir::new().context("there is no place for temporary files")?;
                let path = scratch.path().to_path_buf();
                live._data = Some(scratch);
                path
            }
        };
        if !project.services.is_empty() {
            let services = Services::start(project, &setup.ports, &data, say)?;
            live.services = Some(Arc::new(services));
        }
        Ok(live)
    }

    /// The project's services, if it has some.
    pub fn services(&self) -> Option<Arc<Services>> {
        self.services.clone()
    }

    /// Follows the files of the project: publishes workflows anew, starts services anew. It does not end
    /// by itself.
    ///
    /// # Errors
    /// If a workflow cannot be published, or the handlers of an agent that it names have ended.
    pub async fn follow_files(&mut self, sweep_every: Millis) -> Result<ExitCode> {
        let Some(project) = self.project.clone() else {
            return std::future::pending().await;
        };
        let of_services: Vec<(String, PathBuf)> = project
            .services
            .iter()
            .flat_map(|(name, service)| {
                let watched = service.watch.iter();
                watched.map(|path| (name.clone(), project.dir.join(path)))
            })
            .collect();
        let mut workflows = Files::new(project.workflows.iter().cloned());
        let mut services = Files::new(of_services.iter().map(|(_, path)| path.clone()));
        let mut own = Files::new([project.file.clone()]);
        // Their handlers live as long as the watch.
        let mut workers: JoinSet<Result<()>> = JoinSet::new();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            while let Some(ended) = workers.try_join_next() {
                ended.context("a worker panicked")??;
            }
            for path in services.changed() {
                for (name, _) in of_services.iter().filter(|(_, p)| *p == path) {
                    if let Some(services) = &self.services {
                        services.restart(name);
                    }
                }
            }
            if !own.changed().is_empty() {
                let shown = project.file.display();
                self.say.warning(&format!(
                    "{shown} has changed: start triad dev anew to have it count"
                ));
            }
            for path in workflows.changed() {
                self.changed(&path, &mut workers, sweep_every).await?;
            }
        }
    }

    /// Publishes what a changed workflow file says, and says what is different.
    async fn changed(
        &mut self,
        path: &Path,
        workers: &mut JoinSet<Result<()>>,
        sweep_every: Millis,
    ) -> Result<()> {
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
            let rows: Vec<_> = new.rows.iter().map(Row::json).collect();
            let json = json!({"event": "agents", "agents": rows});
            self.say.event(&table(&new.rows).to_string(), &json);
            let (stop, every) = (self.stop.clone(), sweep_every.as_duration());
            workers.spawn(async move {
                triad_worker::run(new.wiring, new.remotes, &[Function::Agent], every, stop).await
            });
        }
        Ok(())
    }

    /// Stops the services and the watches.
    pub async fn stop(self) {
        self.stop.cancel();
        let Self {
            services,
            mut tasks,
            publisher,
            ..
        } = self;
        while let Some(ended) = tasks.join_next().await {
            if ended.is_err() {
                tracing::warn!("a watch had panicked");
            }
        }
        drop(publisher);
        if let Some(services) = services {
            services.stop().await;
        }
    }
}

/// The project's folder for a run: taken for this process, and with the addresses for other commands.
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
                "another triad dev runs this project ({shown} is in use)"
            ))
            .into());
        }
        let env = folder.join("env");
        std::fs::write(&env, lines)
            .with_context(|| format!("{} cannot be written", env.display()))?;
        Ok(Self { env, _lock: lock })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The addresses are nobody's any more.
        let _ = std::fs::remove_file(&self.env);
    }
}
