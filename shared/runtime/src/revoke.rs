//! Revoking an attempt in the call ledger: see [`triad_core::ledger`].

use triad_core::ledger::{Mark, Unheard};

use crate::control::{ControlStore, ControlWrite};
use crate::ports::{Entropy, StoreError, Written};

/// Revokes an attempt; whether it was revoked, now or by an earlier sweep: then no agent has taken
/// it, or one has given it back, and none ever can take it.
///
/// # Errors
/// The store's; nothing is known of the attempt then.
pub(crate) async fn revoke<S: ControlStore, E: Entropy>(
    control: &S,
    entropy: &E,
    attempt: &Unheard,
) -> Result<bool, StoreError> {
    let unreadable = |e: serde_json::Error| StoreError::Item(e.to_string());
    let revoked = serde_json::to_value(Mark::REVOKED).map_err(unreadable)?;
    let write = |expected| ControlWrite {
        key: attempt.key.clone(),
        value: revoked.clone(),
        expected,
        expires: Some(attempt.expires),
        token: entropy.next_u64(),
    };
    if control.write(write(None)).await? == Written::Written {
        return Ok(true);
    }
    let found = control.read(attempt.key.clone(), true).await?;
    // A mark that has gone in between was there: somebody had taken the attempt.
    let Some(record) = found else {
        return Ok(false);
    };
    let mark: Mark = serde_json::from_value(record.value).map_err(unreadable)?;
    if mark == Mark::GIVEN_BACK {
        let written = control.write(write(Some(record.version))).await?;
        return Ok(written == Written::Written);
    }
    Ok(mark.revoked)
}
