//! The engine fjall: an append-only log, and LSM trees that are merged in the background.

use std::path::Path;

use anyhow::{Result, ensure};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::{Engine, Write};

pub struct Log {
    db: Database,
    records: Keyspace,
    details: Keyspace,
    due: Keyspace,
}

impl Log {
    pub fn open(dir: &Path) -> Result<Self> {
        let db = Database::builder(dir).open()?;
        let keyspace = |name: &str| db.keyspace(name, KeyspaceCreateOptions::default);
        Ok(Self {
            records: keyspace("records")?,
            details: keyspace("details")?,
            due: keyspace("due")?,
            db,
        })
    }
}

fn due_key(order: u64, at: u64) -> Vec<u8> {
    let mut key = vec![crate::shard(order)];
    key.extend_from_slice(&at.to_be_bytes());
    key.extend_from_slice(crate::id(order).as_bytes());
    key
}

impl Engine for Log {
    fn commit(&mut self, group: &[Write]) -> Result<()> {
        let mut batch = self.db.batch().durability(Some(PersistMode::SyncData));
        for write in group {
            let id = crate::id(write.order);
            let standing = self.records.get(&id)?;
            let stands = standing.map_or(0, |record| {
                u64::from_be_bytes(record[..8].try_into().unwrap_or_default())
            });
            ensure!(stands + 1 == write.version, "{id} has {stands}");
            let mut record = write.version.to_be_bytes().to_vec();
            record.extend_from_slice(&write.record);
            batch.insert(&self.records, id.as_bytes(), record);
            if let Some(details) = &write.details {
                batch.insert(&self.details, id.as_bytes(), details.as_slice());
            }
            let (before, after) = write.due;
            if before != after {
                if let Some(at) = before {
                    batch.remove(&self.due, due_key(write.order, at));
                }
                if let Some(at) = after {
                    batch.insert(&self.due, due_key(write.order, at), id.as_bytes());
                }
            }
        }
        batch.commit()?;
        Ok(())
    }
}
