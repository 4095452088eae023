//! Publishes workflow files whose texts are in the request.

use std::collections::BTreeMap;

use triad_core::Timing;
use triad_runtime::DefinitionStore;
use triad_runtime::definitions::publish;
use triad_workflow::{Limits, Workflow, load};

/// The folder of the descriptions of services.
const AGENTS: &str = "agents/";

/// Checks all files, then publishes one after the other. Returns the published versions.
///
/// # Errors
/// Every problem of the files, and then none is published; or the failure of the store.
pub async fn all(
    store: &impl DefinitionStore,
    files: &BTreeMap<String, String>,
    agents: &[String],
    timing: &Timing,
) -> Result<Vec<String>, String> {
    let workflows = read(files, agents, timing)?;
    let mut published = Vec::new();
    for workflow in workflows {
        let definition = publish(store, &workflow)
            .await
            .map_err(|e| format!("{}@{} was not published: {e}", workflow.name, workflow.hash))?;
        published.push(definition.to_string());
    }
    Ok(published)
}

fn read(
    files: &BTreeMap<String, String>,
    agents: &[String],
    timing: &Timing,
) -> Result<Vec<Workflow>, String> {
    let limits = Limits {
        agents: Some(agents.iter().cloned().collect()),
        skew: timing.skew,
    };
    let describe = &mut |agent: &str| {
        let named = ["yaml", "yml"].map(|ending| format!("{AGENTS}{agent}.{ending}"));
        let found = named.into_iter().find_map(|name| {
            let text = files.get(&name)?.clone();
            Some((name, text))
        });
        Ok(found)
    };
    let (mut workflows, mut wrong) = (Vec::new(), Vec::new());
    for (name, text) in files.iter().filter(|(name, _)| !name.starts_with(AGENTS)) {
        match load::with_services(name, text, &limits, describe) {
            Ok(workflow) => workflows.push(workflow),
            Err(e) => wrong.push(e.to_string()),
        }
    }
    match wrong.is_empty() {
        true => Ok(workflows),
        false => Err(format!("no file was published:\n{}", wrong.join("\n"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_become_a_part_of_the_workflows_beside_them() {
        let workflow =
            "workflow: w\nsteps: [{id: a, agent: payment, action: charge, compensation: none}]";
        let files = |text: &str| {
            let files = [
                ("w.yaml", text),
                ("agents/payment.yaml", "actions: { charge: { path: /v1 } }"),
            ];
            files
                .map(|(name, text)| (name.to_owned(), text.to_owned()))
                .into()
        };
        let agents = || vec!["payment".to_owned()];
        let read_all = |text: &str| read(&files(text), &agents(), &Timing::default());
        let workflows = read_all(workflow).unwrap();
        assert!(workflows[0].definition.agents.contains_key("payment"));
        let why = read_all(&workflow.replace("payment", "paymint")).unwrap_err();
        assert!(why.contains("w.yaml:2"), "{why}");
    }
}
