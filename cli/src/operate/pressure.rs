//! What is held back, and why: the part of `triad downstreams` about load.

use anyhow::Result;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::{Value, json};
use triad_core::{Priority, Timestamp};
use triad_runtime::ControlStore;
use triad_runtime::pressure::{Pressure, present};

/// What every Scheduler that holds orders back says at present.
///
/// # Errors
/// The store's.
pub async fn read<S: ControlStore>(store: &S, now: Timestamp) -> Result<Vec<Pressure>> {
    Ok(present(store, now).await?)
}

/// Prints what is held back; nothing if nothing is.
pub fn print(all: &[Pressure], now: Timestamp) {
    let waiting: Vec<&Pressure> = all.iter().filter(|p| p.waiting > 0).collect();
    if waiting.is_empty() {
        return;
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header([
        "Orders wait for",
        "Lane",
        "Waiting",
        "Oldest",
        "Under way",
        "At most",
        "Requests wait",
        "Why",
    ]);
    for pressure in waiting {
        table.add_row([
            name(pressure),
            lane(pressure).to_owned(),
            pressure.waiting.to_string(),
            pressure
                .oldest
                .map_or_else(String::new, |at| now.since(at).to_string()),
            pressure.under_way.to_string(),
            pressure.bound.to_string(),
            pressure.waited.to_string(),
            why(pressure, now).to_owned(),
        ]);
    }
    println!("\n{table}");
    println!(
        "\nFurther orders wait in their topics. Nothing is lost by it, and nothing counted as failed."
    );
}

/// The same for programs.
#[must_use]
pub fn line(pressure: &Pressure) -> Value {
    json!({"waiting_for": name(pressure), "pressure": pressure})
}

fn name(pressure: &Pressure) -> String {
    let agent = pressure.agent.as_ref();
    agent.map_or_else(|| "(the Schedulers)".to_owned(), ToString::to_string)
}

fn lane(pressure: &Pressure) -> &'static str {
    match pressure.lane {
        Priority::Normal => "normal",
        Priority::High => "high",
    }
}

fn why(pressure: &Pressure, now: Timestamp) -> &'static str {
    if pressure.shut_until > now {
        "not to be called for now"
    } else if pressure.under_way >= pressure.bound {
        "as many as it answers in time"
    } else {
        "others that these orders need"
    }
}
