//! Supervision of the store's file while `triad serve` runs: figures of the disk, the watchdog of the service manager, and
//! the end of the process when the file is gone.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior, interval};
use triad_runtime::system::SystemClock;
use triad_runtime::{StoreError, metric};
use triad_sqlite::SqliteStore;

use crate::machine::writable::sentence;

/// Interval between two looks whether the file is still there. Writes look for themselves.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks from one measurement of the disk to the next: 15 s.
const MEASURE_EVERY: u32 = 15;

/// Sends a state to the service manager, if the process has one (`NOTIFY_SOCKET`).
pub fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "a state could not be sent to the service manager");
    }
}

/// Checks the file each second until it is gone, and returns why. If the service manager has a watchdog, sends
/// `WATCHDOG=1` at half its interval, if the store has answered a write: also with the error of a disk that is full or
/// read-only, because a restart does not mend that and would repeat calls. A disk that hangs gives no answer.
pub async fn watch(store: SqliteStore<SystemClock>) -> anyhow::Error {
    let every = |span| {
        let mut every = interval(span);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        every
    };
    let mut look = every(LOOK_EVERY);
    let watchdog = sd_notify::watchdog_enabled().map(|within| within / 2);
    let mut watchdog = watchdog.filter(|half| !half.is_zero()).map(every);
    let (mut looks, mut failed) = (0_u32, 0);
    loop {
        tokio::select! {
            _ = look.tick() => {
                let is_due = looks.is_multiple_of(MEASURE_EVERY);
                looks = looks.wrapping_add(1);
                let looked = store.clone();
                let looking = tokio::task::spawn_blocking(move || {
                    looked.check_place()?;
                    if is_due {
                        measure(&looked);
                    }
                    Ok::<_, StoreError>(())
                });
                if let Ok(Err(gone)) = looking.await {
                    return anyhow::Error::msg(sentence(gone));
                }
                let counted = store.counted().failed;
                metric::write_groups_failed(counted - failed);
                failed = counted;
            }
            () = tick(&mut watchdog) => match store.try_write().await {
                Ok(()) | Err(StoreError::Configuration(_)) => notify(NotifyState::Watchdog),
                Err(error) => tracing::error!(error = sentence(error), "no WATCHDOG=1 was sent to the service manager"),
            },
        }
    }
}

async fn tick(every: &mut Option<Interval>) {
    match every {
        Some(every) => drop(every.tick().await),
        None => std::future::pending().await,
    }
}

fn measure(store: &SqliteStore<SystemClock>) {
    match store.room() {
        Ok(room) => metric::disk(room.free, room.file, room.log),
        Err(error) => tracing::warn!(%error, "the data directory cannot be measured"),
    }
}
