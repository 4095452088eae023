//! Revoking an attempt in the call ledger: see [`triad_core::ledger`].

use triad_core::ledger::{Mark, Unheard};

use crate::control::{ControlStore, ControlWrite};
use crate::ports::{Entropy, StoreError, Written};

/// Revokes an attempt. True if it is revoked, now or by an earlier sweep: no agent has taken it, or an agent has
/// given it back, and none can ever take it.
///
/// # Errors
/// Errors of the store; then it is unknown whether the attempt was taken.
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
    // A mark that has expired in between existed: an agent had taken the attempt.
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
