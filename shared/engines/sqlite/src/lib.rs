//! The store and the topics of one machine: one SQLite file behind the ports of the runtime.
//!
//! One file holds everything that must outlive the process: `triad.sqlite` with its write-ahead log. By
//! `triad.sqlite.lock` beside it a second owner of the same directory is refused. A record has the same attributes as in DynamoDB ([`triad_core::stored`]),
//! one column each, so that any SQLite client can read, filter and back up the store.
//!
//! **Group commit.** One thread writes. It takes the waiting calls, up to a bound, executes all of them in one
//! transaction, syncs once, and then answers every caller. Under load many orders share a sync; without load an order
//! waits for its own sync only. A write is answered only after its sync: it survives `kill -9` and loss of power, as
//! far as the disk keeps what it has acknowledged. Another thread reads, from the last commit.
//!
//! **Guests.** One process owns the directory. Other processes may join it, to read and to write: SQLite's locks
//! order the writes of all of them, each writer takes the write lock before it reads what its write depends on, and
//! no process caches anything of the file except SQLite's own pages, which SQLite invalidates when another process
//! writes. Only the owner creates the tables and deletes what has expired.
//!
//! | module | contents |
//! |---|---|
//! | `schema` | tables, indexes, the version of both, how the file is opened |
//! | `engine` | the two threads, the groups, their bounds |
//! | `record` | a process record as a row, with its checksum |
//! | `orders`, `index`, `definitions`, `control` | the ports, as statements |
//! | `tally` | numbers of orders by state and version, in total and recently |
//! | `moving` | export of all stored items, page by page, and their import |
//! | `snapshot` | a copy of the file while others write |
//! | `expiry` | deletion of expired rows |
//! | `catalogue`, `topics` | the topics: tables, and queues in memory |
//! | `place` | whether the file is still there, its size, and why it cannot be written |
//! | `error` | classification of SQLite's errors |

mod catalogue;
mod control;
mod definitions;
mod engine;
mod error;
mod expiry;
mod index;
mod moving;
mod orders;
mod outputs;
mod place;
mod record;
mod schema;
mod snapshot;
mod tally;
pub mod topics;

use std::path::Path;
use std::time::Duration;

use triad_runtime::Clock;
use triad_workflow::Millis;

pub use engine::Counted;
use engine::Engine;
pub use error::{Foreign, OpenError};
pub use expiry::SWEEP_EVERY;
pub use place::Room;
use schema::Syncs;
pub use schema::{exists, file, is_taken};
pub use snapshot::{SnapshotError, check_file, snapshot};
use topics::{TopicSettings, Topics};

/// The state store, the definition store, the control store and the operators' store, in one SQLite
/// file. Clones share the file and its threads, which end with the last clone. `C` is the clock by which
/// records expire.
#[derive(Debug, Clone)]
pub struct SqliteStore<C> {
    engine: Engine,
    clock: C,
    retention: Millis,
    details_retention: Option<Millis>,
}

impl<C: Clock + Clone> SqliteStore<C> {
    /// Opens the store in a directory, which is created if it is not there. Finished records are
    /// deleted `retention` milliseconds after their end; details never, unless
    /// [`keeping_details`](Self::keeping_details) says otherwise.
    ///
    /// # Errors
    /// [`OpenError::Taken`] if another process has the directory, [`OpenError::Directory`] if it cannot be
    /// made or written, [`OpenError::File`] if SQLite cannot open the file, [`OpenError::Foreign`] if the
    /// file is of another program or of a later version, [`OpenError::Thread`] if no thread can be started.
    pub fn open(dir: &Path, clock: C, retention: Millis) -> Result<Self, OpenError> {
        Ok(Self {
            engine: Engine::open(dir, Syncs::Every)?,
            clock,
            retention,
            details_retention: None,
        })
    }

    /// Opens a store as [`open`](Self::open) does, but without syncs: writes survive the end of the process; if the
    /// machine stops, the whole store may be lost or damaged. Use it only for disposable stores.
    ///
    /// # Errors
    /// The same as those of [`open`](Self::open).
    pub fn scratch(dir: &Path, clock: C, retention: Millis) -> Result<Self, OpenError> {
        Ok(Self {
            engine: Engine::open(dir, Syncs::Never)?,
            clock,
            retention,
            details_retention: None,
        })
    }

    /// Opens the store as a guest, in a directory that another process may own at the same time. Opening creates and
    /// changes nothing. `retention` is as for [`open`](Self::open), and must be the owner's.
    ///
    /// A write of one process waits while another process syncs a group, for four to six seconds at most; then it
    /// fails with [`StoreError::Transient`](triad_runtime::StoreError::Transient).
    ///
    /// # Errors
    /// [`OpenError::Missing`] if there is no store in the directory, [`OpenError::File`] if SQLite cannot
    /// open the file, [`OpenError::Foreign`] if the file is of another program or of an earlier or later
    /// version, [`OpenError::Thread`] if no thread can be started.
    pub fn join(dir: &Path, clock: C, retention: Millis) -> Result<Self, OpenError> {
        Ok(Self {
            engine: Engine::join(dir)?,
            clock,
            retention,
            details_retention: None,
        })
    }

    /// The same store, whose calls fail with [`StoreError::Transient`](triad_runtime::StoreError::Transient)
    /// if they are not answered within `within`; without this the time is 8 s. A write that fails so may take
    /// effect all the same.
    #[must_use]
    pub fn answering_within(mut self, within: Duration) -> Self {
        self.engine = self.engine.answering_within(within);
        self
    }

    /// The same store, which lets an order's details expire too: `retention` milliseconds after the
    /// moment from which the retention of the record counts. `None`: never.
    ///
    /// An order that is submitted again once record and details are gone is a new one.
    #[must_use]
    pub fn keeping_details(mut self, retention: Option<Millis>) -> Self {
        self.details_retention = retention;
        self
    }

    /// The same store with another retention (in milliseconds) and another clock. Only what is written
    /// through the returned value is kept for this retention.
    #[must_use]
    pub fn keeping<D: Clock + Clone>(&self, retention: Millis, clock: D) -> SqliteStore<D> {
        SqliteStore {
            engine: self.engine.clone(),
            clock,
            retention,
            details_retention: self.details_retention,
        }
    }

    /// Rewrites a page of the file without a change, as durably as any other write: a test whether orders can be stored.
    ///
    /// # Errors
    /// [`StoreError`](triad_runtime::StoreError), as any other write. That of a full disk, a read-only directory or a
    /// file that is gone says what to do.
    pub async fn try_write(&self) -> Result<(), triad_runtime::StoreError> {
        self.engine.write(schema::rewrite_version).await
    }

    /// Fails if the file was removed or replaced since it was opened. From then on every write fails. Blocks for a
    /// look at the directory.
    ///
    /// # Errors
    /// [`StoreError::Configuration`](triad_runtime::StoreError::Configuration) with what to do.
    pub fn check_place(&self) -> Result<(), triad_runtime::StoreError> {
        self.engine.place().check()
    }

    /// The sizes of the files and the free space of their disk. Blocks for a look at the directory.
    ///
    /// # Errors
    /// The system's error, if the directory or the file cannot be looked at.
    pub fn room(&self) -> std::io::Result<Room> {
        self.engine.place().room()
    }

    /// Opens the topics of the file, with these settings. Only the process that owns the store may call it, once.
    ///
    /// # Errors
    /// [`StoreError`](triad_runtime::StoreError), as any other write.
    pub async fn open_topics(
        &self,
        settings: TopicSettings,
    ) -> Result<Topics, triad_runtime::StoreError> {
        Topics::open(self.engine.clone(), settings).await
    }

    /// How many calls have written since the store was opened, and in how many transactions, by all clones
    /// together.
    #[must_use]
    pub fn counted(&self) -> Counted {
        self.engine.counted()
    }

    /// The present time in seconds, the unit of expiry.
    fn now_s(&self) -> i64 {
        error::signed(self.clock.now().0 / 1000)
    }
}
