//! The CPU time and memory that this process has used, from `/proc`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// Clock ticks per second in which the kernel counts CPU time (`USER_HZ`).
const TICKS: f64 = 100.0;

/// The CPU time of each thread of this process at one time, with the part of the system that the thread belongs to.
pub struct CpuTime(BTreeMap<String, (String, f64)>);

impl CpuTime {
    /// Reads the CPU time of all threads from `/proc/self/task`, in ticks of 10 ms. A thread that ends during the
    /// read is left out.
    ///
    /// # Errors If `/proc` cannot be read, as on any system but Linux.
    pub fn now() -> Result<Self> {
        let mut all = BTreeMap::new();
        for task in std::fs::read_dir("/proc/self/task").context("needs Linux")? {
            let dir = task?.path();
            let Ok(stat) = std::fs::read_to_string(dir.join("stat")) else {
                continue; // The thread has ended meanwhile.
            };
            let (Some(open), Some(close)) = (stat.find('('), stat.rfind(')')) else {
                continue;
            };
            let name = &stat[open + 1..close];
            let fields: Vec<&str> = stat[close + 1..].split_whitespace().collect();
            // utime and stime, fields 14 and 15 of proc(5); the slice begins with field 3, the state.
            let ticks: f64 = fields[11..13]
                .iter()
                .filter_map(|t| t.parse::<f64>().ok())
                .sum();
            all.insert(dir.display().to_string(), (part(name), ticks));
        }
        Ok(Self(all))
    }

    /// CPU seconds that the threads used between `before` and `self`, by part of the system. Threads that had ended
    /// by then are left out.
    pub fn since(&self, before: &Self) -> BTreeMap<String, f64> {
        let mut parts: BTreeMap<String, f64> = BTreeMap::new();
        for (thread, (part, ticks)) in &self.0 {
            let used = ticks - before.0.get(thread).map_or(0.0, |(_, t)| *t);
            *parts.entry(part.clone()).or_default() += used / TICKS;
        }
        parts
    }
}

/// The part of the system that a thread belongs to, by the thread's name.
fn part(thread: &str) -> String {
    let part = match thread {
        t if t.starts_with("store-") => "store (SQLite)",
        t if t.starts_with("triad-broker") || t.starts_with("broker") => "broker (embedded)",
        t if t.starts_with("rdk:") => "Kafka client (librdkafka)",
        "reference" => "remote service",
        _ => "handlers, SDK, HTTP client",
    };
    part.to_owned()
}

/// Largest resident memory of the process since its start, in MB of 1,024 KiB.
///
/// # Errors
/// If `/proc/self/status` cannot be read or does not hold the figure, as on any system but Linux.
pub fn peak_mb() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kb: f64 = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .and_then(|l| l.trim().trim_end_matches("kB").trim().parse().ok())
        .context("no peak memory in /proc/self/status")?;
    Ok(kb / 1024.0)
}
