//! Exports a store into a file.

use std::io::Write;

use triad_runtime::moving::{MovingStore, StorePart, StoredItem};
use triad_runtime::ports::Unreadable;
use triad_runtime::{Clock, StoreError};

use super::export_line::MovedCounts;
use super::file::{FileError, Writer};
use super::retry::patiently;

/// Most things that an export or an import names because they cannot be moved, inclusive; the others are only
/// counted.
pub const MAX_NAMED: usize = 100;

/// Key prefixes of control records that hold for seconds only: rate limits, reports of pressure.
const PASSING: [&str; 2] = ["rate/", "pressure/"];

/// Why an export ended before it was complete.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be written, or a line would be too long.
    #[error("the file cannot be written: {0}")]
    File(#[from] FileError),
}

/// What was left out of an export because it cannot be read. The default is that nothing was left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    /// How many things were left out.
    pub unreadable: u64,
    /// The first of these things, at most [`MAX_NAMED`].
    pub named: Vec<Unreadable>,
}

/// Writes everything that a store keeps into a file, except control records that hold only for seconds (rate
/// limits and reports of pressure) and things that cannot be read, which are named in the answer. After each
/// page `progress` is called with how much has been written. One page is in memory at a time. A read that
/// fails with [`StoreError::Transient`] is tried six times in all, with about six seconds of waiting. The
/// caller then writes the messages, and [finishes](Writer::finish) the file.
///
/// # Errors
/// [`ExportError::Store`] if the store cannot be read, [`ExportError::File`] if the file cannot be written or
/// a line would be too long. The file is not whole then.
pub async fn export<S: MovingStore, W: Write>(
    store: &S,
    clock: &impl Clock,
    file: &mut Writer<W>,
    mut progress: impl FnMut(MovedCounts),
) -> Result<Exported, ExportError> {
    let mut exported = Exported::default();
    for part in StorePart::ALL {
        let mut page: Option<String> = None;
        loop {
            let found = patiently(clock, async || store.kept(part, page.clone()).await).await?;
            for kept in found.items.iter().filter(|kept| is_moved(kept)) {
                file.keep(kept)?;
            }
            exported.unreadable += found.unreadable.len() as u64;
            let room = MAX_NAMED - exported.named.len();
            exported
                .named
                .extend(found.unreadable.into_iter().take(room));
            progress(file.counts());
            match found.next {
                Some(next) => page = Some(next),
                None => break,
            }
        }
    }
    Ok(exported)
}

fn is_moved(kept: &StoredItem) -> bool {
    match kept {
        StoredItem::Control(control) => !PASSING.iter().any(|of| control.key.starts_with(of)),
        StoredItem::Workflow(_) | StoredItem::Present(_) | StoredItem::Order(_) => true,
    }
}
