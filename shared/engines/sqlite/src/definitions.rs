//! Published workflow definitions: every version, and the current version of each name.

use rusqlite::{Connection, OptionalExtension};
use triad_core::{InvalidWorkflowRef, Timestamp, WorkflowRef};
use triad_runtime::ports::StoredVersion;
use triad_runtime::{Clock, DefinitionStore, StoreError};
use triad_workflow::{DefinitionHash, InvalidHash, WorkflowName};

use crate::SqliteStore;
use crate::error::signed;

impl<C: Clock + Clone> DefinitionStore for SqliteStore<C> {
    async fn publish(
        &self,
        definition: WorkflowRef,
        canonical_json: String,
    ) -> Result<(), StoreError> {
        let at = signed(self.clock.now().0);
        let put = move |db: &Connection| {
            let (name, hash) = (definition.name.as_str(), definition.hash.as_str());
            if current(db, &definition.name)?.as_deref() == Some(hash) {
                return Ok(());
            }
            db.execute(
                "INSERT INTO workflows (Name, Hash, Definition, PublishedAt) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT DO UPDATE SET PublishedAt = excluded.PublishedAt",
                (name, hash, &canonical_json, at),
            )?;
            db.execute(
                "INSERT INTO current_workflows (Name, Hash) VALUES (?1, ?2)
                ON CONFLICT DO UPDATE SET Hash = excluded.Hash",
                (name, hash),
            )?;
            Ok(())
        };
        self.engine.write(put).await
    }

    async fn current(&self, name: WorkflowName) -> Result<Option<DefinitionHash>, StoreError> {
        let read = self.engine.read(move |db| current(db, &name)).await?;
        let hash = read.map(|hash| hash.parse()).transpose();
        hash.map_err(|e: InvalidHash| StoreError::Item(e.to_string()))
    }

    async fn definition(&self, wanted: WorkflowRef) -> Result<Option<String>, StoreError> {
        let read = move |db: &Connection| {
            db.query_row(
                "SELECT Definition FROM workflows WHERE Name = ?1 AND Hash = ?2",
                (wanted.name.as_str(), wanted.hash.as_str()),
                |row| row.get(0),
            )
            .optional()
        };
        self.engine.read(read).await
    }
}

fn current(db: &Connection, name: &WorkflowName) -> rusqlite::Result<Option<String>> {
    db.prepare_cached("SELECT Hash FROM current_workflows WHERE Name = ?1")?
        .query_row([name.as_str()], |row| row.get(0))
        .optional()
}

/// All versions of all workflows.
pub(crate) fn versions(
    db: &Connection,
) -> rusqlite::Result<Result<Vec<StoredVersion>, StoreError>> {
    let mut read = db.prepare(
        "SELECT w.Name || '@' || w.Hash, w.PublishedAt, c.Hash IS NOT NULL
        FROM workflows w LEFT JOIN current_workflows c ON c.Name = w.Name AND c.Hash = w.Hash
        ORDER BY w.Name, w.PublishedAt",
    )?;
    let rows = read.query_map([], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, i64>(1)?,
            row.get::<_, bool>(2)?,
        ))
    })?;
    let mut versions = Vec::new();
    for row in rows {
        let (definition, at, is_current) = row?;
        match definition.parse() {
            Ok(definition) => versions.push(StoredVersion {
                definition,
                is_current,
                published_at: Timestamp(at.cast_unsigned()),
            }),
            Err(why) => return Ok(Err(StoreError::Item(InvalidWorkflowRef::to_string(&why)))),
        }
    }
    Ok(Ok(versions))
}

/// Removes a version that is not the current one.
pub(crate) fn remove(
    db: &Connection,
    definition: &WorkflowRef,
) -> rusqlite::Result<Result<(), StoreError>> {
    if current(db, &definition.name)?.as_deref() == Some(definition.hash.as_str()) {
        let why = format!("{definition} is the present version");
        return Ok(Err(StoreError::Item(why)));
    }
    db.execute(
        "DELETE FROM workflows WHERE Name = ?1 AND Hash = ?2",
        (definition.name.as_str(), definition.hash.as_str()),
    )?;
    Ok(Ok(()))
}
