//! The engine SQLite: pages, and a write-ahead log of pages.

use std::path::Path;

use anyhow::{Result, ensure};
use rusqlite::{Connection, OptionalExtension};

use crate::{Engine, Write};

pub struct Pages(Connection);

impl Pages {
    pub fn open(dir: &Path) -> Result<Self> {
        let db = Connection::open(dir.join("triad.sqlite"))?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "cache_size", -16 * 1024)?;
        db.pragma_update(None, "wal_autocheckpoint", 4_000)?;
        db.execute_batch(
            "CREATE TABLE records (Row INTEGER PRIMARY KEY, Id TEXT NOT NULL UNIQUE,
                Version INTEGER NOT NULL, Record BLOB NOT NULL, Shard INTEGER, Due INTEGER);
            CREATE INDEX due ON records (Shard, Due, Id) WHERE Shard IS NOT NULL;
            CREATE TABLE details (Id TEXT NOT NULL UNIQUE, Details BLOB NOT NULL);",
        )?;
        Ok(Self(db))
    }

    fn write(&self, write: &Write) -> Result<()> {
        let db = &self.0;
        let id = crate::id(write.order);
        let standing: Option<(i64, i64)> = db
            .prepare_cached("SELECT Row, Version FROM records WHERE Id = ?1")?
            .query_row([&id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (before, after) = write.due;
        let (version, shard) = (write.version as i64, after.map(|_| crate::shard(write.order)));
        match standing {
            None => {
                ensure!(write.version == 1, "{id} is not there");
                db.prepare_cached("INSERT INTO details VALUES (?1, ?2)")?
                    .execute((&id, &write.details))?;
                db.prepare_cached(
                    "INSERT INTO records (Id, Version, Record, Shard, Due) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute((&id, version, &write.record, shard, after.map(|at| at as i64)))?;
            }
            Some((row, stands)) => {
                ensure!(stands + 1 == version, "{id} has {stands}");
                if before == after {
                    db.prepare_cached("UPDATE records SET Version = ?1, Record = ?2 WHERE Row = ?3")?
                        .execute((version, &write.record, row))?;
                } else {
                    db.prepare_cached(
                        "UPDATE records SET Version = ?1, Record = ?2, Shard = ?3, Due = ?4 WHERE Row = ?5",
                    )?
                    .execute((version, &write.record, shard, after.map(|at| at as i64), row))?;
                }
            }
        }
        Ok(())
    }
}

impl Engine for Pages {
    fn commit(&mut self, group: &[Write]) -> Result<()> {
        self.0.execute_batch("BEGIN IMMEDIATE")?;
        for write in group {
            self.write(write)?;
        }
        self.0.execute_batch("COMMIT")?;
        Ok(())
    }
}
