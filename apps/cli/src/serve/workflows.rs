//! The workflows of `triad serve`: published at the start, and again when their files change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use tokio_util::sync::CancellationToken;
use triad_bootstrap::{WholeStore, agents_of};
use triad_runtime::definitions::publish;
use triad_workflow::{AgentName, DefinitionHash, Limits, Workflow, WorkflowName, load};

use super::file::Workflows;
use crate::user_files::{FileStamp, stamp, stamp_with_descriptions};

/// Interval between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Most files of a directory.
const MAX_FILES: usize = 10_000;

/// Workflow files, and their published versions.
#[derive(Debug)]
pub struct Files {
    from: Workflows,
    limits: Limits,
    /// Stamp of each file when it was last read.
    seen: BTreeMap<PathBuf, FileStamp>,
    /// Stamp of a changed file at the last look: it may be half written.
    changing: BTreeMap<PathBuf, FileStamp>,
    /// Whether there was a look before.
    has_looked: bool,
    published: BTreeMap<WorkflowName, DefinitionHash>,
    /// The file of each workflow.
    homes: BTreeMap<WorkflowName, PathBuf>,
}

/// Result of one look.
#[derive(Debug, Default)]
pub struct Looked {
    /// Workflows that were published.
    pub published: Vec<WorkflowName>,
    /// Files that were refused, with their errors.
    pub refused: Vec<String>,
    /// Agents that valid workflows name and this process does not serve, each with one of the workflows.
    pub unserved: BTreeMap<AgentName, WorkflowName>,
}

impl Files {
    /// Nothing is read yet. `from` names the files or their folder, and `limits` is what their definitions are checked
    /// against.
    pub fn new(from: Workflows, limits: Limits) -> Self {
        Self {
            from,
            limits,
            seen: BTreeMap::new(),
            changing: BTreeMap::new(),
            has_looked: false,
            published: BTreeMap::new(),
            homes: BTreeMap::new(),
        }
    }

    /// Reads the files that have changed and are unchanged since the last look, and publishes the valid ones: the
    /// beginning of a file that is still being copied may be valid, too. The first look reads all files as they are.
    /// A refused file changes nothing: the published version stays the present one.
    ///
    /// # Errors
    /// If the store fails; the next look repeats the unpublished files.
    pub async fn publish(
        &mut self,
        store: &impl WholeStore,
        serves: impl Fn(&AgentName) -> bool,
    ) -> Result<Looked> {
        let mut looked = Looked::default();
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let paths = self.paths(&mut looked.refused);
        self.leave(|_, home| paths.iter().any(|path| path == home));
        for path in paths {
            let seen = stamp_with_descriptions(&path);
            if self.seen.get(&path) == Some(&seen) {
                continue;
            }
            if !is_first && !self.has_resolved(&path, &seen) {
                continue;
            }
            let read = read(&path, &self.limits);
            if let Ok(workflow) = &read {
                self.leave(|name, home| *home != path || *name == workflow.name);
            }
            match read.and_then(|workflow| at_home(&mut self.homes, workflow, &path)) {
                Ok(workflow) => {
                    self.store(&workflow, store, &mut looked).await?;
                    looked.note_unserved(&workflow, &serves);
                }
                Err(why) => looked.refused.push(why),
            }
            self.seen.insert(path, seen);
        }
        Ok(looked)
    }

    /// Reads all files and publishes none.
    pub fn check(&self, serves: impl Fn(&AgentName) -> bool) -> Looked {
        let mut looked = Looked::default();
        let mut homes = BTreeMap::new();
        for path in self.paths(&mut looked.refused) {
            match read(&path, &self.limits).and_then(|w| at_home(&mut homes, w, &path)) {
                Ok(workflow) => looked.note_unserved(&workflow, &serves),
                Err(why) => looked.refused.push(why),
            }
        }
        looked
    }

    /// Whether a changed file is as it was at the last look.
    fn has_resolved(&mut self, path: &Path, seen: &FileStamp) -> bool {
        let before = self.changing.insert(path.to_owned(), *seen);
        before.as_ref() == Some(seen)
    }

    /// Keeps the files of workflows that still exist. If one is gone, all files are read again: another file may have
    /// a workflow of the same name, which was refused.
    fn leave(&mut self, is_still: impl Fn(&WorkflowName, &Path) -> bool) {
        let known = self.homes.len();
        self.homes.retain(|name, home| is_still(name, home));
        if self.homes.len() < known {
            self.seen.clear();
        }
    }

    async fn store(
        &mut self,
        workflow: &Workflow,
        store: &impl WholeStore,
        looked: &mut Looked,
    ) -> Result<()> {
        if self.published.get(&workflow.name) == Some(&workflow.hash) {
            return Ok(());
        }
        publish(store, workflow).await?;
        self.published
            .insert(workflow.name.clone(), workflow.hash.clone());
        looked.published.push(workflow.name.clone());
        Ok(())
    }

    fn paths(&self, refused: &mut Vec<String>) -> Vec<PathBuf> {
        match &self.from {
            Workflows::Files(files) => files.clone(),
            Workflows::In(folder) => match files_in(folder) {
                Ok(files) => files,
                Err(e) => {
                    refused.push(format!("{}: cannot be read: {e}", folder.display()));
                    Vec::new()
                }
            },
        }
    }
}

/// Looks until `stop`, and logs the results. A change of the configuration file `config` is logged, too: it is read
/// only at the start.
pub async fn watch(
    mut files: Files,
    config: PathBuf,
    store: impl WholeStore,
    serves: impl Fn(&AgentName) -> bool,
    stop: CancellationToken,
) {
    let mut configured = stamp(&config);
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = stop.cancelled() => return,
        }
        match files.publish(&store, &serves).await {
            Ok(looked) => looked.log(),
            Err(error) => tracing::warn!("workflows cannot be published for now: {error:#}"),
        }
        let now = stamp(&config);
        if now != configured {
            configured = now;
            let file = config.display();
            tracing::warn!(
                %file,
                "the configuration has changed, and takes effect at the next start: check it with triad serve --check, then restart"
            );
        }
    }
}

impl Looked {
    fn note_unserved(&mut self, workflow: &Workflow, serves: impl Fn(&AgentName) -> bool) {
        for agent in agents_of(workflow).into_iter().filter(|a| !serves(a)) {
            self.unserved.insert(agent, workflow.name.clone());
        }
    }

    /// Logs the results of a look.
    pub fn log(&self) {
        for workflow in &self.published {
            tracing::info!(%workflow, "published");
        }
        for why in &self.refused {
            tracing::error!("a workflow is not published, and its present version stays: {why}");
        }
        for (agent, workflow) in &self.unserved {
            tracing::warn!(%agent, %workflow, "the configuration has no such agent: its steps wait");
        }
    }
}

fn files_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)?.take(MAX_FILES) {
        let path = entry?.path();
        let ending = path.extension().and_then(|e| e.to_str());
        if matches!(ending, Some("yaml" | "yml" | "json")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Refuses a workflow that another file has, so that the order of paths does not decide silently which one is
/// published.
fn at_home(
    homes: &mut BTreeMap<WorkflowName, PathBuf>,
    workflow: Workflow,
    path: &Path,
) -> Result<Workflow, String> {
    let home = homes
        .entry(workflow.name.clone())
        .or_insert_with(|| path.to_owned());
    match home == path {
        true => Ok(workflow),
        false => Err(format!(
            "{}: workflow {} is in {} already: give one of the two another name",
            path.display(),
            workflow.name,
            home.display()
        )),
    }
}

fn read(path: &Path, limits: &Limits) -> Result<Workflow, String> {
    let shown = path.display().to_string();
    let text = crate::user_files::text(path).map_err(|e| e.to_string())?;
    let describe = &mut |agent: &str| crate::user_files::description(path, agent);
    load::with_services(&shown, &text, limits, describe).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use triad_workflow::Millis;

    use super::*;

    #[test]
    fn a_file_is_taken_once_it_has_stayed_as_it_is_from_one_look_to_the_next() {
        let limits = Limits {
            agents: None,
            skew: Millis(1),
        };
        let mut files = Files::new(Workflows::Files(Vec::new()), limits);
        let mut look = |bytes| {
            let seen = Some((SystemTime::UNIX_EPOCH, bytes));
            files.has_resolved(Path::new("w.yaml"), &seen)
        };
        assert_eq!([1, 2, 3, 3].map(&mut look), [false, false, false, true]);
        assert_eq!([9, 9].map(&mut look), [false, true], "changed once more");
    }

    #[test]
    fn of_two_files_with_one_workflow_the_second_is_refused_by_name() {
        let folder = std::env::temp_dir().join(format!("triad-homes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a directory");
        let step = "steps: [{id: a, agent: x, action: go, compensation: none}]";
        for (file, workflow) in [("a.yaml", "w"), ("b.yaml", "w"), ("c.yaml", "v")] {
            let text = format!("workflow: {workflow}\n{step}");
            std::fs::write(folder.join(file), text).expect("a file");
        }
        let files = Files::new(Workflows::In(folder.clone()), Limits::published());
        let looked = files.check(|_| true);
        std::fs::remove_dir_all(&folder).expect("it is there");
        let [why] = &looked.refused[..] else {
            panic!("{looked:?}")
        };
        let is_named = ["b.yaml", "workflow w", "a.yaml"]
            .iter()
            .all(|part| why.contains(part));
        assert!(is_named, "{why}");
    }
}
