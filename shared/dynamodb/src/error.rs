//! Classification of the SDK's errors, once, here.

use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use triad_runtime::StoreError;

/// Service errors that may pass. The SDK has retried them a few times already.
const TRANSIENT: [&str; 9] = [
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "InternalServerError",
    "ServiceUnavailable",
    "TransactionConflictException",
    "TransactionInProgressException",
    "LimitExceededException",
    "ReplicatedWriteConflictException",
];

/// Classifies an error that is not one of the outcomes the caller knows.
pub(crate) fn classify<E, R>(error: &SdkError<E, R>) -> StoreError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    match error {
        SdkError::ServiceError(s) => {
            let code = s.err().code().unwrap_or("unknown");
            let message = s.err().message().unwrap_or("no message");
            let text = format!("{code}: {message}");
            if TRANSIENT.contains(&code) {
                StoreError::Transient(text)
            } else {
                StoreError::Permanent(text)
            }
        }
        SdkError::ConstructionFailure(_) => {
            StoreError::Permanent(DisplayErrorContext(error).to_string())
        }
        // Sent or not, answered or not: nobody knows, so the same write is tried again and
        // recognises itself by its token.
        other => StoreError::Transient(DisplayErrorContext(other).to_string()),
    }
}
