//! Taking an attempt in the call ledger before its first call, and giving it back: see [`triad_core::ledger`].

use triad_core::StepRequest;
use triad_core::ledger::{self, KEPT, Mark};

use crate::control::{ControlStore, ControlWrite};
use crate::ports::{Entropy, StoreError, Written};

/// Claims the allowance of a request; false if it was claimed before and not given back.
///
/// # Errors
/// Errors of the store; then no call may be made.
pub(super) async fn claim<S: ControlStore, E: Entropy>(
    control: &S,
    entropy: &E,
    request: &StepRequest,
) -> Result<bool, StoreError> {
    let mark = Mark {
        allowance: request.allowance,
        revoked: false,
    };
    if write(control, entropy, request, mark, None).await? {
        return Ok(true);
    }
    match control.read(key(request), true).await? {
        Some(found) if found.value == value(Mark::GIVEN_BACK)? => {
            write(control, entropy, request, mark, Some(found.version)).await
        }
        _ => Ok(false),
    }
}

/// Gives back the allowance of a request that this process has claimed, made no call for, and will make none for. If
/// it fails, the attempt counts as taken.
///
/// # Errors
/// Errors of the store.
pub(super) async fn give_back<S: ControlStore, E: Entropy>(
    control: &S,
    entropy: &E,
    request: &StepRequest,
) -> Result<(), StoreError> {
    if let Some(found) = control.read(key(request), true).await? {
        let version = Some(found.version);
        write(control, entropy, request, Mark::GIVEN_BACK, version).await?;
    }
    Ok(())
}

fn key(of: &StepRequest) -> String {
    ledger::key(&of.idempotency_key, of.direction, of.attempt)
}

fn value(mark: Mark) -> Result<serde_json::Value, StoreError> {
    serde_json::to_value(mark).map_err(|e| StoreError::Item(e.to_string()))
}

async fn write<S: ControlStore, E: Entropy>(
    control: &S,
    entropy: &E,
    request: &StepRequest,
    mark: Mark,
    expected: Option<u64>,
) -> Result<bool, StoreError> {
    let write = ControlWrite {
        key: key(request),
        value: value(mark)?,
        expected,
        expires: Some(request.complete_by.plus(KEPT)),
        token: entropy.next_u64(),
    };
    Ok(control.write(write).await? == Written::Written)
}
