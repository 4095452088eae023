//! The data directory of an installation on one machine: the place of its store, and its connection file.
//!
//! While `triad dev` or `triad serve` runs on SQLite, the file [`FILE`] in the directory has the brokers' address and
//! the time spans of the process. Commands with `--data` use these for options that are not given, and open the
//! store's file directly.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use triad_bootstrap::Config;

use crate::output::{Usage, command, quoted};
use crate::values::Values;
use crate::{moved_mark, user_files};

/// Origin of values from a data directory, as shown before its path.
pub const WORDS: &str = "the data directory";
/// The variable that names a data directory.
pub const VARIABLE: &str = "TRIAD_DATA";
/// Name of the connection file in a data directory.
const FILE: &str = "running.json";
/// Name of the file in a data directory that its process has locked.
pub const LOCK: &str = "lock";
/// Id of the option with the brokers' address.
const BROKERS: &str = "brokers";
/// Settings of a Kafka client, each as `NAME=VALUE`, with the login if the brokers need one.
const KAFKA_SETTING: &str = "kafka_setting";

/// Whether a data directory has the tables of the embedded DynamoDB engine.
pub fn has_tables(data: &Path) -> bool {
    data.join("dynamodb.sqlite").exists()
}

/// Whether a data directory has a SQLite store.
pub fn has_store(data: &Path) -> bool {
    triad_sqlite::exists(data)
}

/// The command that last ran on a data directory, as typed.
pub fn last_command(data: &Path) -> &'static str {
    match std::fs::read_to_string(data.join(LOCK)).as_deref() {
        Ok("triad dev") => "triad dev",
        _ => "triad serve",
    }
}

/// Text that no process runs on a data directory, and the command to start one; `None` if a process runs.
pub fn nobody_runs(data: &Path) -> Option<String> {
    if triad_sqlite::is_taken(data) {
        return None;
    }
    let shown = quoted(&data.display().to_string());
    let next = format!("{} --data {shown}", last_command(data));
    Some(moved_away(data).unwrap_or_else(|| {
        format!("no process runs in this data directory, so its orders do not progress: {next}")
    }))
}

/// Text that the orders of a data directory were moved away, where they continue, and what to type if they do not;
/// `None` if they were not moved, or the mark cannot be read.
pub fn moved_away(data: &Path) -> Option<String> {
    let moved = moved_mark::read_mark(data).ok().flatten()?;
    let dir = data.display().to_string();
    let revert = command(["triad", "export", "--data", &dir, "--revert"]);
    Some(format!(
        "the orders of this data directory were moved to {} on {}, and go on where that was imported; if it was imported nowhere: {revert}",
        moved.to, moved.at
    ))
}

/// Connection values of a running process, by option id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningProcess(BTreeMap<String, Vec<String>>);

/// Ids of the options in a connection file.
const SAID: [&str; 7] = [
    BROKERS,
    KAFKA_SETTING,
    "retention",
    "details_retention",
    "skew",
    "queue_within",
    "announce_within",
];

/// The connection file; removed when this is dropped.
#[derive(Debug)]
pub struct ConnectionFile(PathBuf);

impl Drop for ConnectionFile {
    fn drop(&mut self) {
        // If the removal fails, other processes ignore the file, because no process holds the store any more.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl RunningProcess {
    /// The connection values of a process with this configuration.
    pub fn of(config: &Config) -> Self {
        let timing = &config.settings.timing;
        let spans = [
            ("retention", Some(config.retention)),
            ("details_retention", config.details_retention),
            ("skew", Some(timing.skew)),
            ("queue_within", Some(timing.queue_within)),
            ("announce_within", Some(timing.announce_within)),
        ];
        let spans = spans.into_iter();
        let spans = spans.filter_map(|(id, span)| Some((id.to_owned(), vec![span?.to_string()])));
        let brokers = (BROKERS.to_owned(), vec![config.kafka.brokers.clone()]);
        let settings = config.kafka.extra.iter();
        let settings = settings.map(|(name, value)| format!("{name}={value}"));
        let settings = (KAFKA_SETTING.to_owned(), settings.collect());
        Self(spans.chain([brokers, settings]).collect())
    }

    /// Writes the connection file of a data directory atomically.
    ///
    /// # Errors
    /// Naming the file, if it cannot be written.
    pub fn write_connection_file(&self, data: &Path) -> Result<ConnectionFile> {
        let path = data.join(FILE);
        let named = || format!("{} cannot be written", path.display());
        let mut new = tempfile::NamedTempFile::new_in(data).with_context(named)?;
        serde_json::to_writer_pretty(new.as_file_mut(), self)?;
        new.as_file_mut().flush().with_context(named)?;
        new.persist(&path).with_context(named)?;
        Ok(ConnectionFile(path))
    }

    /// The values as defaults of options. If no process runs, the address of the brokers is empty. DynamoDB has no
    /// values.
    pub fn values(mut self) -> Values {
        let brokers = self.0.entry(BROKERS.to_owned()).or_default();
        if brokers.is_empty() {
            brokers.push(String::new());
        }
        let said = SAID.into_iter();
        let said = said.filter_map(|id| Some((id, self.0.remove(id)?)));
        said.chain([("dynamodb", Vec::new()), ("prefix", vec![String::new()])])
            .collect()
    }

    /// Reads the connection file of the process that owns the store; `None` if no process does, or it has not written
    /// the file yet.
    ///
    /// # Errors
    /// [`Usage`] naming the file, if it cannot be read.
    pub fn read_connection_file(data: &Path) -> Result<Option<Self>, Usage> {
        // Checked first: a stale file is removed before the store has a new owner.
        if !triad_sqlite::is_taken(data) {
            return Ok(None);
        }
        let path = data.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => {
                let why = user_files::why(&path, &e);
                return Err(Usage(format!("{}: {why}", path.display())));
            }
        };
        let read = serde_json::from_str(&text);
        read.map(Some)
            .map_err(|e| Usage(format!("{}: {e}", path.display())))
    }
}

/// Removes the connection file of a killed process. Call it before taking the store.
pub fn forget(data: &Path) {
    let _ = std::fs::remove_file(data.join(FILE));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_there_until_it_is_dropped_and_believed_while_somebody_has_the_store() {
        let dir = tempfile::tempdir().expect("a directory");
        let running = RunningProcess(BTreeMap::from([(
            BROKERS.to_owned(),
            vec!["h:1".to_owned()],
        )]));
        let said = running
            .write_connection_file(dir.path())
            .expect("it can be written");
        let looked = || RunningProcess::read_connection_file(dir.path()).expect("it can be read");
        assert_eq!(looked(), None, "nobody has the store");
        let clock = triad_runtime::system::SystemClock;
        let store = triad_sqlite::SqliteStore::open(dir.path(), clock, triad_workflow::Millis(0));
        let store = store.expect("a store");
        assert_eq!(looked(), Some(running));
        let values = looked().expect("somebody runs").values();
        assert_eq!(values[BROKERS], ["h:1"]);
        drop(said);
        assert_eq!(looked(), None, "it has been removed");
        drop(store);
    }
}
