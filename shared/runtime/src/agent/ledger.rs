//! The call ledger: an attempt's allowance is claimed before its first call.
//!
//! A request may be delivered again after a crash, to a process that does not know what calls
//! were made. Where the definition declares a total of calls, or an effect that may not be
//! repeated, the attempt leaves a mark before its first call, and whoever finds the mark makes
//! no call.

use serde_json::json;
use triad_core::StepRequest;
use triad_workflow::Millis;

use crate::control::{ControlStore, ControlWrite};
use crate::ports::{Entropy, StoreError, Written};

/// How long a mark is kept after its request's complete-by; nobody calls after that.
const KEPT: Millis = Millis(24 * 3_600_000);

/// Claims the allowance of a request; false if it has been claimed before.
///
/// # Errors
/// The store's; no call may be made then.
pub(super) async fn claim<S: ControlStore, E: Entropy>(
    control: &S,
    entropy: &E,
    request: &StepRequest,
) -> Result<bool, StoreError> {
    let write = ControlWrite {
        key: format!(
            "call/{}/{}/{}",
            request.idempotency_key, request.direction, request.attempt
        ),
        value: json!({ "allowance": request.allowance }),
        expected: None,
        expires: Some(request.complete_by.plus(KEPT)),
        token: entropy.next_u64(),
    };
    Ok(control.write(write).await? == Written::Written)
}
