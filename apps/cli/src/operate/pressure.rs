//! Orders that are held back, and the reasons: the part of `triad downstreams` about load.

use triad_core::{Priority, Timestamp};
use triad_operator::downstreams::{Waiting, Why};
use triad_runtime::pressure::Pressure;

use crate::output;

/// Prints a table of the waiting orders, by downstream and lane, to standard output. Prints nothing if `all` is
/// empty. Ages are relative to `now`.
pub fn print(all: &[Waiting], now: Timestamp) {
    if all.is_empty() {
        return;
    }
    let mut table = output::table([
        "Orders wait for",
        "Lane",
        "Waiting",
        "Oldest",
        "Under way",
        "At most",
        "Requests wait",
        "Why",
    ]);
    for Waiting {
        waiting_for,
        pressure,
        why,
    } in all
    {
        table.add_row([
            waiting_for.clone(),
            lane(pressure).to_owned(),
            pressure.waiting.to_string(),
            pressure
                .oldest
                .map_or_else(String::new, |at| now.since(at).to_string()),
            pressure.under_way.to_string(),
            pressure.bound.to_string(),
            pressure.waited.to_string(),
            text(*why).to_owned(),
        ]);
    }
    println!();
    table.print();
    println!(
        "\nFurther orders wait in their topics. Nothing is lost by it, and nothing counted as failed."
    );
}

/// Prints waiting orders as JSON: one object of the kind `waiting`, with `waiting_for` and `pressure`.
///
/// # Errors
/// As [`output::print_line`].
pub fn print_json(waiting: &Waiting) -> anyhow::Result<()> {
    #[derive(serde::Serialize)]
    struct PressureRow<'a> {
        waiting_for: &'a str,
        pressure: &'a Pressure,
    }
    let line = PressureRow {
        waiting_for: &waiting.waiting_for,
        pressure: &waiting.pressure,
    };
    output::print("waiting", &line)
}

fn lane(pressure: &Pressure) -> &'static str {
    match pressure.lane {
        Priority::Normal => "normal",
        Priority::High => "high",
    }
}

fn text(why: Why) -> &'static str {
    match why {
        Why::NotToBeCalled => "not to be called for now",
        Why::Full => "as many as it answers in time",
        Why::NeedsOthers => "another service that these orders need",
    }
}
