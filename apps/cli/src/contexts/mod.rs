//! Named contexts: addresses of an installation under a name, so that they need not be typed, and production is not
//! addressed by mistake.
//!
//! A context's values are defaults of the options: the command line and the environment take precedence.
//! `crate::installation` merges them. On a context that is marked as production, every command that changes something
//! asks for the context's name first.

mod file;

use std::io::{BufRead, IsTerminal, Write as _};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use triad_bootstrap::Way;

pub use file::{Context, Contexts};

use crate::output::{self, Usage, command, count, print_line};

/// The option that names a context.
pub const OPTION: &str = "--context";
/// The variable that names a context.
pub const VARIABLE: &str = "TRIAD_CONTEXT";

/// Keep the addresses of installations under names, and choose one
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad context add dev --brokers 127.0.0.1:9092 --dynamodb http://127.0.0.1:8000
  triad context add shop --brokers b-1.shop:9098 --kafka-auth msk-iam --aws --region eu-west-1 --production
  triad context use dev
  triad list
  triad --context shop list

Without --context or TRIAD_CONTEXT the context chosen with `use` applies. Options and variables have
precedence over it. The file holds no secrets, only the names of those in Secrets Manager:
$XDG_CONFIG_HOME/triad/contexts.json, or what TRIAD_CONTEXTS names.
A command that changes something in a context marked with --production asks for the context's name on a
terminal, and needs --confirm NAME elsewhere.")]
pub struct ContextArgs {
    #[command(subcommand)]
    command: ContextCommand,
}

#[derive(Debug, Subcommand)]
enum ContextCommand {
    /// Add a context, or replace one
    Add(AddArgs),
    /// List the contexts
    List(ListArgs),
    /// Take a context from now on
    Use(NameArgs),
    /// Show a context; without a name, the one in use
    Show(ShowArgs),
    /// Remove a context
    Remove(NameArgs),
}

#[derive(Debug, Args)]
struct NameArgs {
    /// The context's name
    name: String,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The context's name
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print a JSON line for each
    #[arg(long)]
    json: bool,
}

// Distinct ids: these options describe the new context, and take no defaults from another one.
#[derive(Debug, Args)]
struct AddArgs {
    /// The context's name: letters, digits and - _ .
    name: String,
    /// Kafka bootstrap addresses, separated by commas
    #[arg(id = "its_brokers", long = "brokers", value_name = "HOST:PORT")]
    brokers: Option<String>,
    /// DynamoDB endpoint
    #[arg(
        id = "its_dynamodb",
        long = "dynamodb",
        value_name = "URL",
        conflicts_with = "its_aws"
    )]
    dynamodb: Option<String>,
    /// The tables are in AWS, in the account that the session is logged in to
    #[arg(id = "its_aws", long = "aws")]
    aws: bool,
    /// AWS region of the tables and of MSK
    #[arg(id = "its_region", long = "region", value_name = "REGION")]
    region: Option<String>,
    /// What the names of all four tables begin with
    #[arg(id = "its_prefix", long = "prefix", value_name = "TEXT")]
    prefix: Option<String>,
    /// How to log in to Kafka: none, tls, scram, mtls or msk-iam
    #[arg(id = "its_way", long = "kafka-auth", value_name = "WAY")]
    kafka_auth: Option<String>,
    /// Name or ARN of the secret in Secrets Manager with the credentials, for scram and mtls
    #[arg(id = "its_secret", long = "kafka-secret", value_name = "ARN")]
    kafka_secret: Option<String>,
    /// Name or ARN of the secret with the certificate of the brokers' private CA
    #[arg(id = "its_ca_secret", long = "kafka-ca-secret", value_name = "ARN")]
    kafka_ca_secret: Option<String>,
    /// Ask for the context's name before any change to its installation
    #[arg(id = "its_production", long = "production")]
    production: bool,
}

/// The context that a command is run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The context's name.
    pub name: String,
    /// Content of the context.
    pub context: Context,
}

/// The context of this name, or the one in use. `None`: there is none in use.
///
/// # Errors
/// [`Usage`] if there is no context of that name, or its file cannot be read.
pub fn chosen(name: Option<&String>) -> Result<Option<Chosen>, Usage> {
    let Some(path) = file::path() else {
        return match name {
            None => Ok(None),
            Some(_) => file::known_path().map(|_| None),
        };
    };
    let all = Contexts::read(&path)?;
    let Some(name) = name.or(all.current.as_ref()) else {
        return Ok(None);
    };
    Ok(Some(Chosen {
        name: name.clone(),
        context: all.named(name, &path)?.clone(),
    }))
}

impl Chosen {
    /// Confirms a change in this context. Nothing is needed unless it is marked as production. Then its name must
    /// have been `said`, or is asked for on the terminal.
    ///
    /// # Errors
    /// [`Usage`] if the name was not given, or is another one. Nothing was changed.
    pub fn confirm(&self, said: Option<&str>) -> Result<(), Usage> {
        let name = &self.name;
        if !self.context.production {
            return Ok(());
        }
        let given = match said {
            Some(said) => said.to_owned(),
            None if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() => {
                let mut err = std::io::stderr().lock();
                // If the question cannot be shown, the answer will not be the name.
                let _ = write!(
                    err,
                    "This changes the production context {name}. Type its name to go on: "
                );
                let _ = err.flush();
                let mut line = String::new();
                std::io::stdin()
                    .lock()
                    .read_line(&mut line)
                    .map_err(|e| Usage(format!("standard input: {e}")))?;
                line.trim().to_owned()
            }
            None => {
                return Err(Usage(format!(
                    "this changes the production context {name}: say that it is meant with --confirm {name}; nothing was done"
                )));
            }
        };
        if given == *name {
            return Ok(());
        }
        Err(Usage(format!(
            "the production context is {name:?}, not {given:?}: nothing was done"
        )))
    }
}

/// Runs `triad context`. The exit code is always 0.
///
/// # Errors
/// [`Usage`] if a name or a value cannot be used, there is no such context, or the file cannot be read;
/// if it cannot be written.
pub fn run(args: ContextArgs) -> Result<ExitCode> {
    let path = file::known_path()?;
    let mut all = Contexts::read(&path)?;
    match args.command {
        ContextCommand::Add(new) => add(&mut all, new, &path)?,
        ContextCommand::List(list) => print_all(&all, list.json)?,
        ContextCommand::Use(NameArgs { name }) => {
            all.named(&name, &path)?;
            all.current = Some(name.clone());
            all.write(&path)?;
            println!("{name} is used from now on");
        }
        ContextCommand::Show(show) => {
            let name = show.name.or_else(|| all.current.clone()).ok_or_else(|| {
                Usage(
                    "no context is in use: give a name, or choose one with triad context use NAME"
                        .into(),
                )
            })?;
            let context = all.named(&name, &path)?;
            if show.json {
                print_line(&line(&all, &name, context)?)?;
            } else {
                print_one(&name, context, &path);
            }
        }
        ContextCommand::Remove(NameArgs { name }) => {
            all.named(&name, &path)?;
            all.contexts.remove(&name);
            all.current = all.current.filter(|current| *current != name);
            all.write(&path)?;
            println!("{name} is removed");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn add(all: &mut Contexts, new: AddArgs, path: &std::path::Path) -> Result<()> {
    let name = new.name.clone();
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('-') || !name.chars().all(is_fit) {
        let text = format!("{name:?} is no name of a context: letters, digits and - _ . are");
        return Err(Usage(text).into());
    }
    let context = checked(new)?;
    let before = all.contexts.insert(name.clone(), context);
    all.write(path)?;
    let did = if before.is_some() {
        "replaced"
    } else {
        "added"
    };
    println!("{name} is {did} in {}", path.display());
    if all.current.is_none() {
        let use_it = command(["triad", "context", "use", &name]);
        println!("{use_it} takes it from now on; --context {name} for one command");
    }
    Ok(())
}

/// The context that the options describe. It must have an address and no secret.
fn checked(new: AddArgs) -> Result<Context, Usage> {
    if new.brokers.is_none() && new.dynamodb.is_none() && !new.aws && new.region.is_none() {
        let text = "a context needs --brokers, and --dynamodb or --aws for the tables";
        return Err(Usage(text.into()));
    }
    if let Some(url) = &new.dynamodb {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            let text = format!("--dynamodb {url:?} is not a URL: write http://HOST:PORT");
            return Err(Usage(text));
        }
        if url.contains('@') {
            let text = "--dynamodb: the file of contexts holds no secrets: leave the user and the password out of the URL";
            return Err(Usage(text.into()));
        }
    }
    if let Some(way) = &new.kafka_auth {
        let read: Result<Way, _> = way.parse();
        read.map_err(|e| Usage(format!("--kafka-auth {way:?}: {e}")))?;
    }
    Ok(Context {
        brokers: new.brokers,
        aws: new.aws || (new.dynamodb.is_none() && new.region.is_some()),
        dynamodb: new.dynamodb,
        region: new.region,
        prefix: new.prefix,
        kafka_auth: new.kafka_auth,
        kafka_secret: new.kafka_secret,
        kafka_ca_secret: new.kafka_ca_secret,
        production: new.production,
    })
}

fn line(all: &Contexts, name: &str, context: &Context) -> Result<Value> {
    let mut line = serde_json::to_value(context)?;
    line["kind"] = "context".into();
    line["name"] = name.into();
    line["current"] = (all.current.as_deref() == Some(name)).into();
    Ok(line)
}

fn tables(context: &Context) -> String {
    match (&context.dynamodb, context.aws) {
        (Some(url), _) => url.clone(),
        (None, true) => format!("AWS {}", context.region.as_deref().unwrap_or_default()),
        (None, false) => String::new(),
    }
}

fn print_all(all: &Contexts, as_json: bool) -> Result<()> {
    let mut table = output::table(["Context", "In use", "Kafka", "DynamoDB", "Production"]);
    let yes = |is: bool| if is { "yes" } else { "" }.to_owned();
    for (name, context) in &all.contexts {
        if as_json {
            print_line(&line(all, name, context)?)?;
        } else {
            table.add_row([
                name.clone(),
                yes(all.current.as_ref() == Some(name)),
                context.brokers.clone().unwrap_or_default(),
                tables(context),
                yes(context.production),
            ]);
        }
    }
    let number = all.contexts.len();
    if as_json {
        return output::summary(number, false, None, json!({}));
    }
    if number > 0 {
        table.print();
    }
    println!("{}", count(number as u64, "context", "contexts"));
    Ok(())
}

fn print_one(name: &str, context: &Context, path: &std::path::Path) {
    println!("Context     {name}");
    let shown = |title: &str, value: &Option<String>| {
        if let Some(value) = value {
            println!("{title:<11} {value}");
        }
    };
    shown("Kafka", &context.brokers);
    shown("Login", &context.kafka_auth);
    shown("Secret", &context.kafka_secret);
    shown("CA secret", &context.kafka_ca_secret);
    shown("DynamoDB", &Some(tables(context)).filter(|t| !t.is_empty()));
    shown("Region", &context.region);
    shown("Prefix", &context.prefix);
    println!(
        "Production  {}",
        if context.production { "yes" } else { "no" }
    );
    println!("File        {}", path.display());
}
