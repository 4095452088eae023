//! `triad validate` and `triad schema`: check workflow files before they are published.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use triad_core::Timing;
use triad_core::worst_case::WorstCase;
use triad_workflow::check::MAX_INSTANCES;
use triad_workflow::load::{self, LoadError};
use triad_workflow::{Limits, Millis, Run, Step, Workflow};

use crate::output::{Usage, print_line};
use crate::user_files::{self, AGENTS};

/// Check workflow files as a whole
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad validate workflows/*.yaml
  triad validate --agents payment,inventory order.yaml
  triad validate agents/payment.yaml

Exit code 2 if anything is wrong; every problem of every file is listed, as FILE:LINE:COLUMN: REASON.")]
pub struct ValidateArgs {
    /// Workflow files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Agents that exist; a step of any other is a problem
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    agents: Vec<String>,
    /// Time between two sweeps of the Supervisor, for the worst case: a worker's is 10s, and the
    /// function's a minute
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = str::parse::<Millis>)]
    sweep_every: Millis,
    /// Largest clock difference between machines
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = str::parse::<Millis>)]
    skew: Millis,
    /// Print a JSON line for each sound file, and for each problem of the others: file, line, column,
    /// step, path, reason and hint
    #[arg(long)]
    json: bool,
}

/// Print the JSON Schema of workflow files, or of descriptions of services
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Print that of `agents/NAME.yaml`
    #[arg(long)]
    service: bool,
}

/// Runs `triad validate`. The exit code is 0 if all files are valid, else 2; every problem of every file is printed.
///
/// # Errors
/// A fault of standard output.
pub fn run(args: &ValidateArgs) -> Result<ExitCode> {
    let limits = Limits {
        agents: (!args.agents.is_empty()).then(|| args.agents.iter().cloned().collect()),
        skew: args.skew,
    };
    let mut is_sound = true;
    for file in &args.files {
        let is_description = file.parent().is_some_and(|folder| folder.ends_with(AGENTS));
        let read = match is_description {
            true => read_description(file).map(|()| None),
            false => read(file, &limits).map(Some),
        };
        match read {
            Ok(Some(workflow)) => show(file, &workflow, args)?,
            Ok(None) if args.json => print_line(&json!({"file": file.display().to_string()}))?,
            Ok(None) => println!("{}: a description of a service, is sound", file.display()),
            Err(wrong) => {
                is_sound = false;
                if args.json {
                    for problem in wrong.json() {
                        print_line(&problem)?;
                    }
                } else {
                    eprintln!("{wrong}");
                }
            }
        }
    }
    Ok(match is_sound {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(2),
    })
}

/// Prints the facts of a valid file.
fn show(file: &Path, workflow: &Workflow, args: &ValidateArgs) -> Result<()> {
    let timing = Timing {
        skew: args.skew,
        ..Timing::default()
    };
    let worst = WorstCase::of(workflow, &timing, args.sweep_every);
    let tight = workflow.order_timeout.filter(|at| *at < worst.processed);
    let warnings = workflow.warnings();
    if args.json {
        return print_line(&json!({
            "file": file.display().to_string(),
            "workflow": workflow.name.as_str(),
            "hash": workflow.hash.as_str(),
            "steps": workflow.steps.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(),
            "worst_case_calls": workflow.worst_case_calls_with_parts(),
            "worst_case_processed": worst.processed,
            "worst_case_compensated": worst.compensated,
            "detection": worst.detection,
            "order_timeout": workflow.order_timeout,
            "deadline_may_cut_retries_short": tight.is_some(),
            "warnings": warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }));
    }
    println!(
        "{}: {}@{} is sound",
        file.display(),
        workflow.name,
        workflow.hash
    );
    let others: Vec<&str> = workflow
        .others_run()
        .iter()
        .map(|name| name.as_str())
        .collect();
    let mut runs = workflow.steps.iter().filter_map(Step::run);
    let lists = match runs.any(|run| run.each.is_some()) {
        true => format!(", for lists of {MAX_INSTANCES} elements"),
        false => String::new(),
    };
    let without = match others.is_empty() {
        true => String::new(),
        false => format!(", without the orders of {}", others.join(", ")),
    };
    println!(
        "  {} steps; at worst {} calls an order{lists}{without}",
        workflow.steps.len(),
        workflow.worst_case_calls_with_parts()
    );
    for step in &workflow.steps {
        if let Some(run) = step.run() {
            println!("  {}: {}", step.id, in_words(step, run));
        }
    }
    println!(
        "  at worst {} until it is processed, {} more to compensate it{lists}{without}; waits for a service that may not be called come on top",
        worst.processed, worst.compensated
    );
    println!(
        "  an attempt that is not answered is noticed {} after its complete-by, with sweeps every {}",
        worst.detection, args.sweep_every
    );
    if let Some(within) = tight {
        println!(
            "  warning: order_timeout {within} is less than the worst case{lists}: an order that needs its retries may be compensated before it has had them"
        );
    }
    for warning in warnings {
        println!("  warning: {warning}");
    }
    Ok(())
}

/// What a step runs: `for each element of details.lines, at most 10 at once, tolerates 0`, and the workflow if it has a
/// name of its own. `express/book, else road/book` of a step that has several ways to do its work.
fn in_words(step: &Step, run: &Run) -> String {
    let Some(each) = &run.each else {
        return step.kind.to_string();
    };
    let list = each.list.expressions();
    let list = list.first().map_or("a list", |list| list.source());
    let what = match run.own.version {
        // A part of the workflow, which Triad has named.
        Some(_) => String::new(),
        None => format!("an order of {} ", run.own.workflow),
    };
    format!(
        "{what}for each element of {list}, at most {} at once, tolerates {}",
        each.at_once, each.tolerate
    )
}

/// Runs `triad schema`: prints the JSON Schema of workflow files, or of descriptions. The exit code is always 0.
///
/// # Errors
/// Never: the schema is JSON.
pub fn schema(args: &SchemaArgs) -> Result<ExitCode> {
    let schema = match args.service {
        true => load::service_json_schema(),
        false => load::json_schema(),
    };
    println!("{}", serde_json::to_string_pretty(&schema)?);
    Ok(ExitCode::SUCCESS)
}

/// Reads and checks a description of a service.
fn read_description(file: &Path) -> Result<(), LoadError> {
    let shown = file.display().to_string();
    let text = user_files::text_or_why(file).map_err(|why| LoadError::whole_file(&shown, why))?;
    load::service_from_yaml(&shown, &text).map(drop)
}

/// Reads, checks and compiles a workflow file. `limits` are what the definition is checked against.
///
/// # Errors
/// Every problem of the file; a file that cannot be read has one.
pub fn read(file: &Path, limits: &Limits) -> Result<Workflow, LoadError> {
    let shown = file.display().to_string();
    let text = user_files::text_or_why(file).map_err(|why| LoadError::whole_file(&shown, why))?;
    let describe = &mut |agent: &str| user_files::description(file, agent);
    load::with_services(&shown, &text, limits, describe)
}

/// Reads, checks and compiles workflow files. `limits` are what the definitions are checked
/// against.
///
/// # Errors
/// [`Usage`] with the problems of all files, a line or more for each: those that cannot be read,
/// and those that are not sound.
pub fn read_all(files: &[PathBuf], limits: &Limits) -> Result<Vec<Workflow>, Usage> {
    let mut workflows = Vec::new();
    let mut wrong = Vec::new();
    for file in files {
        match read(file, limits) {
            Ok(workflow) => workflows.push(workflow),
            Err(e) => wrong.push(e.to_string()),
        }
    }
    if wrong.is_empty() {
        return Ok(workflows);
    }
    let count = match (wrong.len(), files.len()) {
        (1, 1) => "the workflow file is not sound".to_owned(),
        (wrong, all) => format!("{wrong} of {all} workflow files are not sound"),
    };
    Err(Usage(format!("{count}\n{}", wrong.join("\n"))))
}
