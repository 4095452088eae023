//! `triad agent import`: writes the description of a service from its OpenAPI file.

mod action;
mod answers;
mod document;
mod key;
mod parameters;
mod schema;
mod yaml;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;
use triad_workflow::{AgentName, load};

use crate::dev::agents::agent_name;
use crate::output::{self, Usage};
use crate::user_files::AGENTS;
use action::Action;
use document::Document;
use key::Key;
use yaml::comment;

/// Write the description of a service from its OpenAPI file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad agent import openapi.yaml --operation createCharge --agent payment
  triad agent import openapi.yaml --operation charge=createCharge --operation refund=createRefund --agent payment
  triad agent import openapi.json --operation 'POST /v1/charges' --out -

It reads OpenAPI 3.0 and 3.1, in YAML or JSON, of at most 16 MB; references to other files are not followed. The
description has comments that begin with DECIDE where the file does not say enough. It has no hosts and no credentials,
which are settings of the agent: see triad docs reference/agents.

Exit codes: 0 written, 2 the command or the file is wrong.")]
pub struct ImportArgs {
    /// OpenAPI file
    #[arg(value_name = "OPENAPI")]
    file: PathBuf,
    /// Operation to describe, by its operationId or as 'METHOD /path'; ACTION= before it gives the action's name. May
    /// be given several times
    #[arg(long, value_name = "[ACTION=]OPERATION", required = true)]
    operation: Vec<String>,
    /// Name of the agent. Default: made from the file's title
    #[arg(long, value_name = "NAME", value_parser = agent_name)]
    agent: Option<AgentName>,
    /// File to write; - is standard output. Default: agents/NAME.yaml
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs `triad agent import`, and prints the next commands. The exit code is always 0.
///
/// # Errors
/// [`Usage`] if the OpenAPI file cannot be read, has no such operation, or describes a call that a description cannot
/// have; if the file to write exists already.
pub fn run(args: &ImportArgs) -> Result<ExitCode> {
    let document = Document::read(&args.file)?;
    let actions = actions(args, &document)?;
    let agent = match &args.agent {
        Some(agent) => agent.clone(),
        None => AgentName::new(slug(document.title())).map_err(|_| {
            Usage("the file has no title that can name an agent: give --agent NAME".to_owned())
        })?,
    };
    let text = description(&args.file, &document, &actions);
    let file = args
        .out
        .clone()
        .unwrap_or_else(|| Path::new(AGENTS).join(format!("{agent}.yaml")));
    // A description that is not sound is not written.
    load::service_from_yaml(&file.display().to_string(), &text).map_err(|wrong| {
        Usage(format!(
            "{} describes a call that a description cannot have; name fewer operations, or write the description by hand\n{wrong}",
            args.file.display()
        ))
    })?;
    if file.as_os_str() == "-" {
        println!("{}", text.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    write(&file, &text)?;
    show(&file, &agent, &document, &actions, &text);
    Ok(ExitCode::SUCCESS)
}

/// The actions for the operations of the command line.
fn actions(args: &ImportArgs, document: &Document) -> Result<Vec<Action>, Usage> {
    let shown = args.file.display();
    let mut actions: Vec<Action> = Vec::new();
    for named in &args.operation {
        let (name, operation) = match named.split_once('=') {
            Some((name, operation)) if !name.contains([' ', '/']) => (Some(name), operation),
            _ => (None, named.as_str()),
        };
        let found = document
            .find(operation)
            .map_err(|why| Usage(format!("{shown}: {why}")))?;
        let name = name.map_or_else(|| action_name(&found.id), str::to_owned);
        if actions.iter().any(|action| action.name == name) {
            let why = format!(
                "--operation {named}: two actions have the name {name}: write NAME={operation} for one of them"
            );
            return Err(Usage(why));
        }
        let action = Action::of(document, &found, name)
            .map_err(|why| Usage(format!("{shown}: {operation}: {why}")))?;
        actions.push(action);
    }
    Ok(actions)
}

/// The text of the description.
fn description(file: &Path, document: &Document, actions: &[Action]) -> String {
    let name = file
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut text = comment(
        "",
        &format!(
            "From {name} ({}) by `triad agent import`. A comment with DECIDE is a question that the file does not answer: decide, then remove the comment. Remove from each `keep` the names that no later step reads.",
            document.title_and_version()
        ),
    );
    text.push_str(&format!("description: {}\n", yaml::text(document.title())));
    let keys: Vec<_> = actions.iter().map(Action::key).collect();
    match Key::of_all(&keys) {
        Some(key) => text.push_str(&key.line()),
        None => text.push_str(&comment(
            "",
            "DECIDE The file names no idempotency key. Triad sends one in the header Idempotency-Key. Does the service honour it, or take it in another header or in a field? Then write that in `key`. If it honours no key, give the steps `at_most_once: true`.",
        )),
    }
    let absent = actions
        .iter()
        .filter_map(Action::absent)
        .collect::<Vec<_>>();
    let absent = match absent.as_slice() {
        [] => "no 404 or 410 is documented".to_owned(),
        some => format!("documented are {}", some.join(", ")),
    };
    text.push_str(&comment("", &format!(
        "DECIDE What does it answer to a compensation when there is nothing to compensate? ({absent}) If it is 404: answers: [{{ status: 404, direction: compensate, means: absent }}]"
    )));
    let conflict: Vec<String> = actions.iter().filter_map(Action::conflict).collect();
    let conflict = match conflict.as_slice() {
        [] => "Triad gives a 409 to a repeated call this meaning; another status needs a row with `means: in-progress`.".to_owned(),
        some => format!(
            "Triad gives a 409 to a repeated call this meaning; the file says of it: {}.",
            some.join("; ")
        ),
    };
    text.push_str(&comment("", &format!(
        "DECIDE What does it answer while it works on an earlier call under the same key? {conflict}"
    )));
    text.push_str("actions:\n");
    for action in actions {
        text.push_str(&action.text());
    }
    text
}

fn write(file: &Path, text: &str) -> Result<()> {
    let shown = file.display();
    if file.exists() {
        let why = format!(
            "{shown} exists already: name another file with --out, or - for standard output"
        );
        return Err(Usage(why).into());
    }
    if let Some(folder) = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("the directory {} cannot be made", folder.display()))?;
    }
    std::fs::write(file, text).with_context(|| format!("{shown} cannot be written"))
}

/// Prints what was written, the agent's settings and the next commands.
fn show(file: &Path, agent: &AgentName, document: &Document, actions: &[Action], text: &str) {
    let shown = file.display().to_string();
    println!("{shown}:");
    for action in actions {
        println!("  {} is {}", action.name, action.operation);
    }
    let decide = text
        .lines()
        .filter(|line| line.trim_start().starts_with("# DECIDE"))
        .count();
    println!("{decide} comments begin with DECIDE: the file does not say enough there");
    println!();
    println!("Settings of the agent, in `agents` of triad.yaml or in TRIAD_AGENTS:");
    let base = document.server();
    println!("  {agent}:");
    println!("    base_url: {}", base.as_deref().unwrap_or("https://…"));
    for line in document.auth(agent.as_str()) {
        println!("    {line}");
    }
    println!();
    println!("Next:");
    if file.parent().is_some_and(|folder| folder.ends_with(AGENTS)) {
        println!("  {}", output::command(["triad", "validate", &shown]));
    }
    if let Some(action) = actions.first() {
        let agent = agent.as_str();
        println!(
            "  {}",
            output::command([
                "triad",
                "agent",
                "call",
                agent,
                &action.name,
                "--service",
                &shown,
                "--input",
                "-"
            ])
        );
    }
}

/// The name of an action: that of the operation, with `-` in place of characters that an action's name cannot have.
fn action_name(id: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    let name: String = id.chars().map(plain).collect();
    let name = name
        .trim_matches('-')
        .split("--")
        .collect::<Vec<_>>()
        .join("-");
    name.chars()
        .take(triad_workflow::check::MAX_ACTION_BYTES)
        .collect()
}

/// The name of an agent, from a title such as `Payments API`.
fn slug(title: &str) -> String {
    let lower = title.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words
        .filter(|word| !word.is_empty() && !matches!(*word, "api" | "the" | "rest"))
        .collect();
    words.join("-").chars().take(32).collect()
}

/// The text of a JSON value; `None` if it is not a text or is empty.
fn text_of(value: &Value) -> Option<&str> {
    value
        .as_str()
        .map(str::trim)
        .filter(|text| !text.is_empty())
}
