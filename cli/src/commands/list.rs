//! `triad list`: orders, by state.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use triad_core::ProcessState;
use triad_runtime::StateStore;

use super::connection::StoreArgs;
use super::get::as_json;
use crate::output::{moment, print_line};

/// List orders
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad list --state Error
  triad list --state Compensating --limit 20 --json

Reads the whole table of process records, page by page, until the limit is reached.")]
pub struct ListArgs {
    /// Only orders in this process state
    #[arg(long, value_name = "STATE", value_parser = clap::builder::PossibleValuesParser::new(ProcessState::NAMES))]
    state: Option<String>,
    /// Most orders to list
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Print a JSON line for each order
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub async fn run(args: ListArgs) -> Result<ExitCode> {
    let store = args.store.store().await?;
    let mut listed = 0;
    let mut more = false;
    let mut table = Table::new();
    table.load_style(NOTHING).set_header([
        "Order",
        "State",
        "Workflow",
        "Submitted",
        "Failures",
        "Cause",
    ]);
    let mut page = None;
    'pages: loop {
        let found = store.list(args.state.clone(), page).await?;
        for order in found.orders {
            if listed == args.limit {
                more = true;
                break 'pages;
            }
            listed += 1;
            if args.json {
                print_line(&as_json(&order))?;
            } else {
                table.add_row([
                    order.id.to_string(),
                    order.state.name().to_owned(),
                    order.workflow.name.to_string(),
                    moment(order.submitted_at),
                    order.failure_count().to_string(),
                    order
                        .state
                        .cause()
                        .map_or_else(String::new, ToString::to_string),
                ]);
            }
        }
        match found.next {
            Some(next) => page = Some(next),
            None => break,
        }
    }
    if !args.json {
        if listed == 0 {
            println!("no orders");
        } else {
            println!("{table}");
        }
        if more {
            println!("and more: raise --limit {}", args.limit);
        }
    }
    Ok(ExitCode::SUCCESS)
}
