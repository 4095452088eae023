//! What a consumer has stored, and what of it its group knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use triad_broker::{Committing, Flush, InProcessClient, LineError, Position};
use triad_consume::COMMIT_WITHIN;

/// The offsets of one group in one topic.
#[derive(Debug)]
pub(crate) struct Offsets {
    line: InProcessClient,
    group: Arc<str>,
    topic: Arc<str>,
    /// Before which offset all is done, by partition.
    stored: BTreeMap<i32, i64>,
    /// What of it was sent to be committed.
    sent: BTreeMap<i32, i64>,
    /// What was sent last, and not answered yet.
    committing: Option<Committing>,
}

impl Offsets {
    pub(crate) fn new(line: InProcessClient, group: Arc<str>, topic: Arc<str>) -> Self {
        Self {
            line,
            group,
            topic,
            stored: BTreeMap::new(),
            sent: BTreeMap::new(),
            committing: None,
        }
    }

    /// Commits for partitions of which the group has committed nothing that nothing of them is done.
    pub(crate) fn begin_at_start(
        &self,
        partitions: impl Iterator<Item = i32>,
    ) -> Result<(), LineError> {
        let positions = partitions.map(|partition| Position {
            partition,
            offset: 0,
        });
        let positions: Vec<Position> = positions.collect();
        if positions.is_empty() {
            return Ok(());
        }
        let begun = self
            .line
            .commit(&self.group, &self.topic, positions, Flush::Soon);
        begun.map(drop)
    }

    /// All before `next` is done.
    pub(crate) fn store(&mut self, partition: i32, next: i64) {
        self.stored.insert(partition, next);
    }

    /// Begins to commit what is stored and was not committed; one that failed before is made up for.
    pub(crate) fn commit(&mut self) {
        self.commit_by(Flush::Soon);
    }

    fn commit_by(&mut self, flush: Flush) {
        self.look_back();
        let new: Vec<Position> = self.new_ones().collect();
        if new.is_empty() {
            return;
        }
        match self.begin(new, flush) {
            Ok(committing) => self.committing = Some(committing),
            Err(error) => log_failed_commit(error),
        }
    }

    /// Commits what is stored and was not committed, and waits for it.
    pub(crate) fn commit_and_wait(&mut self) {
        self.commit_by(Flush::Now);
        if let Some(committing) = self.committing.take() {
            self.record_commit(committing.wait(COMMIT_WITHIN));
        }
    }

    fn new_ones(&self) -> impl Iterator<Item = Position> {
        let is_new = |(partition, next): &(&i32, &i64)| self.sent.get(partition) != Some(next);
        let new = self.stored.iter().filter(is_new);
        new.map(|(partition, next)| Position {
            partition: *partition,
            offset: *next,
        })
    }

    fn begin(&mut self, positions: Vec<Position>, flush: Flush) -> Result<Committing, LineError> {
        for position in &positions {
            self.sent.insert(position.partition, position.offset);
        }
        let begun = self.line.commit(&self.group, &self.topic, positions, flush);
        begun.inspect_err(|_| self.sent.clear())
    }

    /// What has become of the last commit.
    fn look_back(&mut self) {
        let Some(committing) = self.committing.take() else {
            return;
        };
        // A commit without an answer yet is completed before the next one, whose answer covers both.
        if let Some(done) = committing.at_hand() {
            self.record_commit(done);
        }
    }

    fn record_commit(&mut self, done: Result<(), LineError>) {
        if let Err(error) = done {
            self.sent.clear();
            log_failed_commit(error);
        }
    }
}

fn log_failed_commit(error: LineError) {
    tracing::warn!(%error, "offsets could not be committed; records may come again");
}
