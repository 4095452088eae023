//! Imports a file into a store.

use std::io::BufRead;

use serde::Serialize;
use triad_core::Envelope;
use triad_runtime::moving::{Keeping, MovingStore, StoredItem};
use triad_runtime::{Bus, BusError, Clock, StoreError};

use super::export::MAX_NAMED;
use super::export_line::MovedCounts;
use super::file::{FileError, Item, Reader};
use super::retry::each_patiently;

/// Most items in one call to the store.
const BATCH: usize = 100;
/// Bytes of lines in one call to the store; the last line may exceed it.
const BATCH_BYTES: usize = 4 << 20;

/// Why an import ended before it was complete. What was put into the store stays there. Running the import
/// again is safe: it counts what is there as [`Tally::same`], and goes on.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read, or is damaged.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bus has not acknowledged a message.
    #[error(transparent)]
    Bus(#[from] BusError),
}

/// How many things of one kind came to which result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Things that were not in the store, and were written; in a dry run: would have been written.
    pub new: u64,
    /// Things that were in the store already, with the same content.
    pub same: u64,
    /// Things that were in the store with another content, which was left as it is.
    pub different: u64,
    /// Things that the store refused: they are larger than it takes, or what stands in their place cannot be
    /// read.
    pub refused: u64,
    /// Things that had expired, and were left out.
    pub expired: u64,
}

/// What came of an import, counted by kind of thing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// What came of the orders.
    pub orders: Tally,
    /// What came of the versions of workflows, and of the entries that say which version is the present one.
    pub workflows: Tally,
    /// What came of the control records.
    pub control: Tally,
    /// How many messages the file has that no process had handled: submissions, replies and announcements.
    /// They were sent, unless this was a dry run or an import without a bus.
    pub messages: u64,
    /// The first things that are [different](Tally::different) or [refused](Tally::refused), at most
    /// [`MAX_NAMED`]: the name of each, and why, for people.
    #[serde(skip)]
    pub named: Vec<(String, String)>,
}

impl Imported {
    /// Whether everything that the file has for the store and that has not expired is in the store now; in a
    /// dry run: would be. Messages are not looked at.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let tallies = [self.orders, self.workflows, self.control];
        tallies.iter().all(|t| t.different == 0 && t.refused == 0)
    }

    fn tally(&mut self, kept: &StoredItem) -> &mut Tally {
        match kept {
            StoredItem::Workflow(_) | StoredItem::Present(_) => &mut self.workflows,
            StoredItem::Control(_) => &mut self.control,
            StoredItem::Order(_) => &mut self.orders,
        }
    }

    fn note(
        &mut self,
        kept: &StoredItem,
        result: Result<Keeping, StoreError>,
    ) -> Result<(), StoreError> {
        let why = match result {
            Ok(Keeping::New) => {
                self.tally(kept).new += 1;
                return Ok(());
            }
            Ok(Keeping::Same) => {
                self.tally(kept).same += 1;
                return Ok(());
            }
            Ok(Keeping::Different) => {
                self.tally(kept).different += 1;
                "is there with another content, and was left as it is".to_owned()
            }
            Err(StoreError::Item(why)) => {
                self.tally(kept).refused += 1;
                why
            }
            Err(other) => return Err(other),
        };
        if self.named.len() < MAX_NAMED {
            self.named.push((kept.name(), why));
        }
        Ok(())
    }
}

/// Puts the things that were not read from a file yet into a store, in batches, and sends its messages over
/// the bus. Nothing that is in the store is replaced. After each batch `progress` is called with how much has
/// been read. One batch is in memory at a time. What fails with [`StoreError::Transient`] or
/// [`BusError::Transient`] is tried six times in all, with about six seconds of waiting.
///
/// With `dry_run` nothing is written or sent, and the answer says what would come of the import. Without a
/// bus (`None`) the messages are counted, but not sent. To do an import twice does no harm: what is there
/// already is counted as such, Submission knows an order that is submitted again, and a reply is handled
/// once.
///
/// # Errors
/// [`ImportError::File`] if the file cannot be read or is damaged, [`ImportError::Store`] if the store fails,
/// [`ImportError::Bus`] if the bus does. What was put into the store before stays there.
pub async fn import<S: MovingStore, B: Bus, R: BufRead>(
    (store, bus, clock): (&S, Option<&B>, &impl Clock),
    file: &mut Reader<R>,
    dry_run: bool,
    mut progress: impl FnMut(MovedCounts),
) -> Result<Imported, ImportError> {
    let mut imported = Imported::default();
    let (mut batch, mut bytes) = (Batch::default(), 0);
    while let Some((item, size)) = file.read()? {
        if batch.len() >= BATCH || bytes >= BATCH_BYTES || !batch.takes(&item) {
            flush((store, bus, clock), &mut batch, &mut imported, dry_run).await?;
            progress(file.counts());
            bytes = 0;
        }
        bytes += size;
        batch.add(item, clock, &mut imported)?;
    }
    flush((store, bus, clock), &mut batch, &mut imported, dry_run).await?;
    progress(file.counts());
    Ok(imported)
}

/// Items for one call to the store, all of one kind: items of other kinds depend on them.
#[derive(Default)]
struct Batch {
    kept: Vec<StoredItem>,
    messages: Vec<Envelope>,
}

impl Batch {
    fn len(&self) -> usize {
        self.kept.len() + self.messages.len()
    }

    fn takes(&self, item: &Item) -> bool {
        match item {
            Item::Message(_) => self.kept.is_empty(),
            Item::Kept(kept) => self
                .kept
                .last()
                .is_none_or(|last| std::mem::discriminant(last) == std::mem::discriminant(kept)),
        }
    }

    fn add(
        &mut self,
        item: Item,
        clock: &impl Clock,
        imported: &mut Imported,
    ) -> Result<(), FileError> {
        match item {
            Item::Message(message) => {
                let message = message.envelope();
                self.messages.push(message.map_err(std::io::Error::other)?);
            }
            Item::Kept(kept) => match not_expired(kept, clock) {
                Ok(kept) => self.kept.push(kept),
                Err(expired) => imported.tally(&expired).expired += 1,
            },
        }
        Ok(())
    }
}

/// The unexpired part of an item; the item as an error if nothing is left.
fn not_expired(kept: StoredItem, clock: &impl Clock) -> Result<StoredItem, StoredItem> {
    let now = clock.now();
    match kept {
        StoredItem::Order(order) => match order.clone().at(now) {
            Some(left) => Ok(StoredItem::Order(Box::new(left))),
            None => Err(StoredItem::Order(order)),
        },
        StoredItem::Control(control) if control.expires.is_some_and(|at| at <= now) => {
            Err(StoredItem::Control(control))
        }
        other => Ok(other),
    }
}

async fn flush<S: MovingStore, B: Bus>(
    (store, bus, clock): (&S, Option<&B>, &impl Clock),
    batch: &mut Batch,
    imported: &mut Imported,
    dry_run: bool,
) -> Result<(), ImportError> {
    let Batch { kept, messages } = std::mem::take(batch);
    if !kept.is_empty() {
        let put = async |items| store.keep(items, dry_run).await;
        let may_pass = |e: &StoreError| matches!(e, StoreError::Transient(_));
        let results = each_patiently(clock, &kept, put, may_pass).await;
        for (kept, result) in kept.iter().zip(results) {
            imported.note(kept, result)?;
        }
    }
    if messages.is_empty() {
        return Ok(());
    }
    let sent = messages.len() as u64;
    if let Some(bus) = bus.filter(|_| !dry_run) {
        let send = async |messages| bus.publish(messages).await;
        let may_pass = |e: &BusError| matches!(e, BusError::Transient(_));
        let results = each_patiently(clock, &messages, send, may_pass).await;
        results.into_iter().collect::<Result<Vec<()>, _>>()?;
    }
    imported.messages += sent;
    Ok(())
}
