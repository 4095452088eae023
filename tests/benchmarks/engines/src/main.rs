//! Compares the cost of writing many orders in a page-based engine (SQLite) and in a log-based one (fjall), where a
//! group of writes shares a transaction and a sync.
//!
//! The work is that of the state store without its encoding. An order has a record of 1,100 bytes, details of 600
//! bytes, and a row in the due index. Then come seven further versions of the record, each on the condition that the
//! previous version is stored; the last one removes the row.
//!
//! Each measurement runs in a child process, whose processor time and memory are measured. Engines and group sizes
//! alternate in each round; the medians are printed.

mod log;
mod pages;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};

/// Versions of one order.
const VERSIONS: u64 = 8;
/// Bytes of a record, typical of a workflow of three steps.
const RECORD: usize = 1_100;
/// Bytes of an order's details.
const DETAILS: usize = 600;

/// One write of an order.
pub struct Write {
    pub order: u64,
    /// The version to write; the previous version must be stored.
    pub version: u64,
    pub record: Vec<u8>,
    /// The order's details, which only the first version has.
    pub details: Option<Vec<u8>>,
    /// The order's due time in the index, before and after this write.
    pub due: (Option<u64>, Option<u64>),
}

/// An engine that writes a group in one transaction with one sync.
pub trait Engine {
    /// Writes a group in one transaction, and syncs once.
    ///
    /// # Errors
    /// If a write does not find the previous version, or if the engine fails.
    fn commit(&mut self, group: &[Write]) -> Result<()>;
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// SQLite, with its write-ahead log.
    Pages,
    /// fjall, a log-structured merge tree.
    Log,
}

#[derive(Debug, Parser)]
#[command(about = "Compares storage engines under the writes of the state store")]
struct Args {
    /// Orders of each measurement
    #[arg(long, default_value_t = 20_000)]
    orders: u64,
    /// Rounds, of which the medians are shown
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Where the files are written; a directory for temporary files by default
    #[arg(long)]
    dir: Option<std::path::PathBuf>,
    /// Measure this engine alone, in this process, and print JSON
    #[arg(long, requires = "group", hide = true)]
    only: Option<Kind>,
    /// Writes that share a sync
    #[arg(long, hide = true)]
    group: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Measured {
    writes_per_second: f64,
    cpu_ms_per_1000_writes: f64,
    disk_bytes_per_order: f64,
    peak_memory_mib: f64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let (Some(kind), Some(group)) = (args.only, args.group) {
        let measured = measure(kind, group, args.orders, args.dir.as_deref())?;
        println!("{}", serde_json::to_string(&measured)?);
        return Ok(());
    }
    println!("| engine | writes a sync | writes/s | CPU ms a 1,000 writes | disk bytes an order | peak MiB |");
    println!("|---|---|---|---|---|---|");
    let places: Vec<(Kind, u64)> = [1, 8, 64]
        .into_iter()
        .flat_map(|group| [(Kind::Pages, group), (Kind::Log, group)])
        .collect();
    let mut all = vec![Vec::new(); places.len()];
    for _ in 0..args.rounds {
        for ((kind, group), measured) in places.iter().zip(&mut all) {
            measured.push(in_a_process(*kind, *group, &args)?);
        }
    }
    for ((kind, group), measured) in places.iter().zip(&all) {
        let median = |of: fn(&Measured) -> f64| {
            let mut values: Vec<f64> = measured.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let name = match kind {
            Kind::Pages => "SQLite",
            Kind::Log => "fjall",
        };
        println!(
            "| {name} | {group} | {:.0} | {:.1} | {:.0} | {:.0} |",
            median(|m| m.writes_per_second),
            median(|m| m.cpu_ms_per_1000_writes),
            median(|m| m.disk_bytes_per_order),
            median(|m| m.peak_memory_mib),
        );
    }
    Ok(())
}

fn in_a_process(kind: Kind, group: u64, args: &Args) -> Result<Measured> {
    let name = kind.to_possible_value().context("it has a name")?;
    // A group of one has a sync for each write: a tenth of the orders keeps a round at a few seconds.
    let orders = if group == 1 { args.orders / 10 } else { args.orders };
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--only", name.get_name()]);
    command.args(["--group", &group.to_string(), "--orders", &orders.to_string()]);
    if let Some(dir) = &args.dir {
        command.arg("--dir").arg(dir);
    }
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn measure(kind: Kind, group: u64, orders: u64, dir: Option<&Path>) -> Result<Measured> {
    let dir = match dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let mut engine: Box<dyn Engine> = match kind {
        Kind::Pages => Box::new(pages::Pages::open(dir.path())?),
        Kind::Log => Box::new(log::Log::open(dir.path())?),
    };
    let (began, cpu) = (Instant::now(), cpu_ms()?);
    // Writes all versions of one group's orders, then those of the next group.
    for first in (0..orders).step_by(usize::try_from(group)?) {
        for version in 1..=VERSIONS {
            let group: Vec<Write> = (first..(first + group).min(orders))
                .map(|order| write(order, version))
                .collect();
            engine.commit(&group)?;
        }
    }
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu_ms()? - cpu);
    drop(engine);
    let writes = (orders * VERSIONS) as f64;
    Ok(Measured {
        writes_per_second: writes / seconds,
        cpu_ms_per_1000_writes: cpu / writes * 1_000.0,
        disk_bytes_per_order: size_of(dir.path())? as f64 / orders as f64,
        peak_memory_mib: peak_memory_mib()?,
    })
}

fn write(order: u64, version: u64) -> Write {
    let due = 1_000_000 + order;
    Write {
        order,
        version,
        record: filled(order ^ version, RECORD),
        details: (version == 1).then(|| filled(order, DETAILS)),
        due: (
            (version > 1).then_some(due),
            (version < VERSIONS).then_some(due),
        ),
    }
}

/// An id like those of applications, which do not sort by creation time.
pub fn id(order: u64) -> String {
    format!("shop-{:016x}", order.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The shard of an order in the due index.
pub fn shard(order: u64) -> u8 {
    (order.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as u8
}

/// Text that compresses about as well as the JSON of records.
fn filled(seed: u64, bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 64);
    let mut state = seed;
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let part = format!("{{\"step\":\"reserve\",\"state\":\"{:08x}\",\"failures\":0}},", state >> 32);
        text.extend_from_slice(part.as_bytes());
    }
    text.truncate(bytes);
    text
}

fn cpu_ms() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit(") ").next().context("it has a name")?;
    let fields: Vec<&str> = after.split(' ').collect();
    // In hundredths of a second on Linux.
    let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks * 10.0)
}

fn peak_memory_mib() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.context("the peak")?.trim().trim_end_matches(" kB");
    Ok(kib.trim().parse::<f64>()? / 1024.0)
}

fn size_of(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => size_of(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}
