//! Tables of the figures of all loads.

use comfy_table::Table;
use comfy_table::presets::NOTHING;

use super::offered::{Figures, Lane};

/// Prints the figures of all loads to standard output, as tables. `best` is the best rate in orders per second.
pub fn print(best: f64, all: &[Figures]) {
    println!("Best rate, 64 orders in flight: {best:.0} orders/s\n");
    let mut table = Table::new();
    table.load_style(NOTHING).set_header([
        "Load",
        "offered/s",
        "goodput/s",
        "each tenth",
        "ideal/s",
        "drained/s",
        "open at end",
        "went wrong",
        "CPU s / 1,000",
        "peak MB",
    ]);
    for f in all {
        table.add_row([
            format!("{}", f.load),
            format!("{:.0}", f.offered_per_second),
            format!("{:.0}", f.goodput_per_second),
            range(&f.goodput_by_tenth),
            format!("{:.0}", f.load.min(1.0) * best),
            f.drained_per_second
                .map_or_else(String::new, |rate| format!("{rate:.0}")),
            format!("{}", f.normal.open() + f.high.open()),
            format!("{}", f.wrong.values().sum::<u32>()),
            format!("{:.2}", f.cpu_s),
            format!("{:.0}", f.peak_mb),
        ]);
    }
    println!("{table}\n");
    let mut table = Table::new();
    table.load_style(NOTHING).set_header([
        "Latency, ms",
        "high: done",
        "p50",
        "p99",
        "normal from its start: done",
        "p50",
        "p99",
        "from submission: done",
        "p50",
        "p99",
    ]);
    for f in all {
        let mut row = vec![format!("{}", f.load)];
        for lane in [&f.high, &f.started, &f.normal] {
            row.extend(cells(lane));
        }
        table.add_row(row);
    }
    println!("{table}");
    for f in all {
        for (what, count) in &f.wrong {
            println!("load {}: {count} times {what}", f.load);
        }
        if !f.good && f.wrong.is_empty() {
            let open = f.normal.open() + f.high.open();
            println!("load {}: {open} orders have not completed", f.load);
        }
    }
}

/// The range of the values without the first one, in which the pipeline was still filling.
fn range(tenths: &[f64]) -> String {
    let rest = tenths.get(1..).unwrap_or_default().iter().copied();
    let (least, most) = (
        rest.clone().fold(f64::INFINITY, f64::min),
        rest.fold(0.0, f64::max),
    );
    format!("{least:.0} to {most:.0}")
}

fn cells(lane: &Lane) -> [String; 3] {
    let ms = |ms: Option<u32>| ms.map_or_else(|| "-".to_owned(), |ms| ms.to_string());
    [
        format!("{} of {}", lane.completed, lane.orders),
        ms(lane.p50_ms),
        ms(lane.p99_ms),
    ]
}
