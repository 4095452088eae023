//! `triad new`: creates a small project.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use triad_workflow::names::check_name;

use crate::output::{self, Usage};

/// Placeholder in the templates for the project's name.
const NAME: &str = "trip-template";
/// Placeholder for the command that starts the service.
const COMMAND: &str = "start-command";
/// Placeholder for the service's file.
const SOURCE: &str = "source-file";

/// Write a small project: a workflow, orders, and a service that honours the contract
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad new trip
  triad new trip --language node

The directory must not exist, or be empty. In it, triad dev runs everything.")]
pub struct NewArgs {
    /// Name of the project, of its workflow and of its directory; or the path of the directory
    #[arg(value_name = "NAME")]
    path: PathBuf,
    /// Language of the service
    #[arg(long, value_enum, default_value_t = Language::Python)]
    language: Language,
}

/// The languages of the service template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Language {
    /// Python 3.9 or later, only with its standard library.
    Python,
    /// Node 20 or later, only with its standard library.
    Node,
    /// Rust, with axum.
    Rust,
}

impl Language {
    /// The start command of the service, its source, and the files of this language with their templates.
    fn parts(
        self,
    ) -> (
        &'static str,
        &'static str,
        &'static [(&'static str, &'static str)],
    ) {
        match self {
            Self::Python => (
                "python3 service.py",
                "service.py",
                &[("service.py", include_str!("templates/python/service.py"))],
            ),
            Self::Node => (
                "node service.mjs",
                "service.mjs",
                &[("service.mjs", include_str!("templates/node/service.mjs"))],
            ),
            Self::Rust => (
                "cargo run --quiet",
                "src/main.rs",
                &[
                    ("Cargo.toml", include_str!("templates/rust/Cargo.toml")),
                    ("src/main.rs", include_str!("templates/rust/src/main.rs")),
                ],
            ),
        }
    }
}

/// The files that every project has.
const FILES: [(&str, &str); 5] = [
    ("workflow.yaml", include_str!("templates/workflow.yaml")),
    ("orders.jsonl", include_str!("templates/orders.jsonl")),
    ("triad.yaml", include_str!("templates/triad.yaml")),
    ("README.md", include_str!("templates/README.md")),
    (".gitignore", include_str!("templates/gitignore")),
];

/// Runs `triad new`, and prints what to type next. The exit code is always 0.
///
/// # Errors
/// [`Usage`] if the name cannot be a workflow's, or the directory is not empty; if a file cannot be
/// written, and then others may be.
pub fn run(args: &NewArgs) -> Result<ExitCode> {
    let name = args.path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| {
        let shown = args.path.display();
        Usage(format!("{shown} has no name: write a name, such as trip"))
    })?;
    check_name(name).map_err(|e| Usage(e.to_string()))?;
    empty(&args.path)?;
    let (command, source, own) = args.language.parts();
    for (file, template) in FILES.iter().chain(own) {
        let text = template
            .replace(NAME, name)
            .replace(COMMAND, command)
            .replace(SOURCE, source);
        let path = args.path.join(file);
        let folder = path.parent().unwrap_or(&args.path);
        std::fs::create_dir_all(folder)
            .with_context(|| format!("the directory {} cannot be made", folder.display()))?;
        std::fs::write(&path, text)
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let shown = args.path.display();
    println!("{shown}: a workflow of three steps, three orders, and their service ({source})");
    println!();
    println!("  {}", output::command(["cd", &shown.to_string()]));
    println!("  triad dev --until-done     run the three orders and sum up");
    println!("  triad dev                  run until Ctrl-C; change the files meanwhile");
    Ok(ExitCode::SUCCESS)
}

/// Refuses a directory that is not empty.
fn empty(path: &Path) -> Result<(), Usage> {
    let shown = path.display();
    match std::fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(Usage(format!(
                "{shown} is not empty: give the name of a directory that is not there yet"
            ))),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Usage(format!("{shown}: {e}"))),
    }
}
