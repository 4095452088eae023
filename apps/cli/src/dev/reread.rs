//! Differences between two versions of a project file, in the words of that file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use triad_bootstrap::AgentConfig;
use triad_workflow::AgentName;

use super::agents::{AgentRow, Agents};
use super::project::Project;

/// Advice for a change that needs a new start.
const NEXT_START: &str = "restart triad dev for it to take effect";

/// Changes of the file, a line each: services, workflow files, and settings that need a new start.
pub fn of_file(before: &Project, after: &Project) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, service) in &after.services {
        match before.services.get(name) {
            None => lines.push(format!("added    service {name}")),
            Some(old) if old != service => {
                lines.push(format!("changed  service {name}: it is restarted"));
            }
            Some(_) => {}
        }
    }
    let gone = before.services.keys();
    let gone = gone.filter(|name| !after.services.contains_key(*name));
    lines.extend(gone.map(|name| format!("removed  service {name}: it is stopped")));
    let new = after.workflows.iter();
    let new = new.filter(|file| !before.workflows.contains(file));
    lines.extend(new.map(|file| format!("added    workflow file {}", file.display())));
    let gone = before.workflows.iter();
    let gone = gone.filter(|file| !after.workflows.contains(file));
    lines.extend(gone.map(|file| {
        let file = file.display();
        format!("removed  workflow file {file}: its published versions stay")
    }));
    let others: [(&str, &Option<PathBuf>, &Option<PathBuf>); 2] = [
        ("orders", &before.orders, &after.orders),
        ("answers", &before.answers, &after.answers),
    ];
    let others = others.iter().filter(|(_, before, after)| before != after);
    lines.extend(others.map(|(key, ..)| format!("changed  {key}: {NEXT_START}")));
    lines
}

/// Addresses and settings of the agents.
pub struct Places {
    rows: BTreeMap<AgentName, String>,
    settings: BTreeMap<AgentName, AgentConfig>,
}

impl Places {
    /// The addresses in these rows, and the settings of these agents.
    pub fn of(rows: &[AgentRow], agents: &Agents) -> Self {
        let place = |row: &AgentRow| (row.agent.clone(), row.place.to_string());
        Self {
            rows: rows.iter().map(place).collect(),
            settings: agents.addressed.clone(),
        }
    }

    /// The differences, a line for each agent.
    pub fn changes(&self, after: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (agent, place) in &after.rows {
            match self.rows.get(agent) {
                None => lines.push(format!("added    agent {agent}: {place}")),
                Some(before) if before != place => {
                    lines.push(format!("changed  agent {agent}: {place}, before {before}"));
                }
                Some(_) if self.settings.get(agent) != after.settings.get(agent) => {
                    lines.push(format!("changed  agent {agent}: its settings"));
                }
                Some(_) => {}
            }
        }
        let gone = self.rows.keys();
        let gone = gone.filter(|agent| !after.rows.contains_key(*agent));
        lines.extend(gone.map(|agent| format!("removed  agent {agent}")));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::super::agents::ServiceAddress;
    use super::*;

    fn project(text: &str) -> Project {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join(super::super::project::FILE), text).expect("a file");
        let found = Project::find(dir.path()).expect("it is sound");
        let mut project = found.expect("it is there");
        // Two projects in the same directory.
        let relative = |path: &PathBuf| PathBuf::from(path.file_name().expect("a name"));
        project.workflows = project.workflows.iter().map(relative).collect();
        project.orders = project.orders.as_ref().map(relative);
        project
    }

    #[test]
    fn what_differs_is_said_in_the_words_of_the_file() {
        let before = project(
            "workflows: [a.yaml, b.yaml]
services: { one: { command: ./one }, two: { command: ./two }, three: { command: ./three } }
",
        );
        let after = project(
            "workflows: [b.yaml, c.yaml]
orders: o.jsonl
services: { two: { command: ./two }, three: { command: ./three, port: 4711 }, four: { command: ./4 } }
",
        );
        assert_eq!(of_file(&before, &before), Vec::<String>::new());
        assert_eq!(
            of_file(&before, &after),
            [
                "added    service four",
                "changed  service three: it is restarted",
                "removed  service one: it is stopped",
                "added    workflow file c.yaml",
                "removed  workflow file a.yaml: its published versions stay",
                "changed  orders: restart triad dev for it to take effect",
            ]
        );
    }

    #[test]
    fn an_agent_that_is_elsewhere_or_set_otherwise_is_said() {
        let name = |name: &str| AgentName::new(name).expect("a name");
        let places = |agents: &[(&str, Option<&str>)], concurrency| {
            let mut all = Agents::default();
            let mut rows = Vec::new();
            for (agent, url) in agents {
                let place = match url {
                    None => ServiceAddress::Reference,
                    Some(url) => {
                        let mut config = AgentConfig::at((*url).to_owned());
                        config.concurrency = std::num::NonZeroU16::new(concurrency);
                        all.addressed.insert(name(agent), config);
                        ServiceAddress::At((*url).to_owned())
                    }
                };
                rows.push(AgentRow {
                    agent: name(agent),
                    place,
                    workflows: [].into(),
                });
            }
            Places::of(&rows, &all)
        };
        let before = places(
            &[
                ("bank", Some("http://h/b")),
                ("mail", None),
                ("old", Some("http://h/o")),
            ],
            1,
        );
        assert_eq!(before.changes(&before), Vec::<String>::new());
        let after = places(
            &[
                ("bank", Some("http://h/b")),
                ("mail", Some("http://h/m")),
                ("new", None),
            ],
            2,
        );
        assert_eq!(
            before.changes(&after),
            [
                "changed  agent bank: its settings",
                "changed  agent mail: http://h/m, before the reference service",
                "added    agent new: the reference service",
                "removed  agent old",
            ]
        );
    }
}
