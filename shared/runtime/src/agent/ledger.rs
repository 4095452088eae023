//! Taking an attempt in the call ledger, before its first call: see [`triad_core::ledger`].

use triad_core::StepRequest;
use triad_core::ledger::{self, KEPT, Mark};

use crate::control::{ControlStore, ControlWrite};
use crate::ports::{Entropy, StoreError, Written};

/// Claims the allowance of a request; false if it has been claimed before.
///
/// # Errors
/// The store's; no call may be made then.
pub(super) async fn claim<S: ControlStore, E: Entropy>(
    control: &S,
    entropy: &E,
    request: &StepRequest,
) -> Result<bool, StoreError> {
    let mark = Mark {
        allowance: request.allowance,
        revoked: false,
    };
    let write = ControlWrite {
        key: ledger::key(&request.idempotency_key, request.direction, request.attempt),
        value: serde_json::to_value(mark).map_err(|e| StoreError::Item(e.to_string()))?,
        expected: None,
        expires: Some(request.complete_by.plus(KEPT)),
        token: entropy.next_u64(),
    };
    Ok(control.write(write).await? == Written::Written)
}
