//! Classification of DynamoDB's errors; no other module classifies them.
//!
//! An error is transient, or needs a repair of the installation, or concerns this item only. Only the last may
//! dead-letter a record. An unknown code counts as the second: waiting loses nothing.
//!
//! Sources: "Error handling with DynamoDB" and "Common errors" of the developer guide and the API
//! reference; "Troubleshooting" of IAM and KMS for the codes of rights, credentials and keys.

use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::CancellationReason;
use triad_runtime::StoreError;

/// Class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// The same request may succeed later.
    Transient,
    /// The same request succeeds only after an operator has repaired the installation.
    Configuration,
    /// The item cannot be stored or read.
    Item,
}

use Meaning::{Configuration, Item, Transient};

/// Every documented code of the service and of the layers before it, except those that callers take as outcomes.
const MEANINGS: [(&str, Meaning); 48] = [
    // Throttling, or a fault of the service. The SDK has retried these a few times already.
    ("ProvisionedThroughputExceededException", Transient),
    ("ThrottlingException", Transient),
    ("Throttling", Transient),
    ("ThrottledException", Transient),
    ("RequestThrottled", Transient),
    ("RequestThrottledException", Transient),
    ("TooManyRequestsException", Transient),
    ("RequestLimitExceeded", Transient),
    ("BandwidthLimitExceeded", Transient),
    ("SlowDown", Transient),
    ("PriorRequestNotComplete", Transient),
    ("LimitExceededException", Transient),
    ("InternalServerError", Transient),
    ("InternalServerException", Transient),
    ("InternalFailure", Transient),
    ("InternalError", Transient),
    ("ServiceUnavailable", Transient),
    ("ServiceUnavailableException", Transient),
    ("RequestTimeout", Transient),
    ("RequestTimeoutException", Transient),
    // Another writer has changed the same item concurrently.
    ("TransactionConflictException", Transient),
    ("TransactionInProgressException", Transient),
    ("ReplicatedWriteConflictException", Transient),
    // A table that is being created or changed.
    ("ResourceInUseException", Transient),
    // Rights.
    ("AccessDeniedException", Configuration),
    ("AccessDenied", Configuration),
    ("NotAuthorized", Configuration),
    ("OptInRequired", Configuration),
    ("SubscriptionRequiredException", Configuration),
    // Credentials, and a wrong clock: a signature is valid for five minutes.
    ("UnrecognizedClientException", Configuration),
    ("InvalidClientTokenId", Configuration),
    ("InvalidAccessKeyId", Configuration),
    ("MissingAuthenticationTokenException", Configuration),
    ("MissingAuthenticationToken", Configuration),
    ("IncompleteSignatureException", Configuration),
    ("IncompleteSignature", Configuration),
    ("InvalidSignatureException", Configuration),
    ("SignatureDoesNotMatch", Configuration),
    ("ExpiredTokenException", Configuration),
    ("ExpiredToken", Configuration),
    ("RequestExpired", Configuration),
    // Tables and their key.
    ("ResourceNotFoundException", Configuration),
    ("KMSAccessDeniedException", Configuration),
    ("KMSDisabledException", Configuration),
    ("KMSInvalidStateException", Configuration),
    ("KMSNotFoundException", Configuration),
    ("UnknownOperationException", Configuration),
    // Items.
    ("ItemCollectionSizeLimitExceededException", Item),
];

/// Parts of the text of a `ValidationException` about the written item. Other texts concern the request, the table's
/// keys or its indexes: the installation.
const ITEM_IS_INVALID: [&str; 8] = [
    "Item size has exceeded the maximum allowed size",
    "Item size to update has exceeded the maximum allowed size",
    "Nesting Levels have exceeded supported limits",
    "Number overflow",
    "Number underflow",
    "more than 38 significant digits",
    "Size of hashkey has exceeded the maximum size limit",
    "may not contain an empty string",
];

/// Part of the text of a `ValidationException` for a query of a missing index.
const NO_INDEX: &str = "does not have the specified index";

/// The code of an answer without a code.
const UNKNOWN: &str = "unknown";

fn meaning(code: &str, message: &str) -> Meaning {
    if code == "ValidationException" || code == "ValidationError" {
        let is_of_item = ITEM_IS_INVALID.iter().any(|text| message.contains(text));
        return if is_of_item { Item } else { Configuration };
    }
    let known = MEANINGS.iter().find(|(known, _)| *known == code);
    known.map_or(Configuration, |(_, meaning)| *meaning)
}

/// Advice for an operator about an error of the installation, if the error's text gives none.
fn advice(code: &str) -> &'static str {
    if code.contains("AccessDenied") || code == "NotAuthorized" {
        "; the process needs that right: see the roles in infra/"
    } else if code.contains("Token") || code.contains("Signature") || code.contains("AccessKey") {
        "; renew the credentials, and check that the clock is right"
    } else if code == "ResourceNotFoundException" {
        "; are the prefix of the tables and the region right? `triad init` makes the tables"
    } else if code == UNKNOWN {
        "; is DynamoDB at this address?"
    } else {
        ""
    }
}

fn error(meaning: Meaning, text: String) -> StoreError {
    match meaning {
        Transient => StoreError::Transient(text),
        Configuration => StoreError::Configuration(text),
        Item => StoreError::Item(text),
    }
}

/// Classifies an error that is not one of the caller's outcomes. The text names `table`, the table of the request;
/// the SDK's full text goes to the log, at the level `debug`.
pub(crate) fn classify<E, R>(error_of_sdk: &SdkError<E, R>, table: &str) -> StoreError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    match error_of_sdk {
        SdkError::ServiceError(s) => {
            let code = s.err().code().unwrap_or(UNKNOWN);
            let message = s.err().message().unwrap_or("no message");
            let text = format!("table {table}: {code}: {message}{}", advice(code));
            error(meaning(code, message), text)
        }
        other => {
            let whole = DisplayErrorContext(other);
            tracing::debug!(table, error = %whole, "DynamoDB has not answered");
            let text = format!("table {table}: {}", unanswered(other));
            if is_of_set_up(other) {
                StoreError::Configuration(text)
            } else {
                // It is unknown whether the request was carried out, so the same write is tried again and recognised
                // by its token.
                StoreError::Transient(text)
            }
        }
    }
}

/// Classifies an error of a query of a search index, as [`classify`] does. If the table does not have the index,
/// because an earlier version of Triad created it, the text says what to do.
pub(crate) fn of_search_index<E, R>(
    error_of_sdk: &SdkError<E, R>,
    index: &str,
    table: &str,
) -> StoreError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    let told = error_of_sdk.as_service_error().and_then(|e| e.message());
    if told.is_some_and(|message| message.contains(NO_INDEX)) {
        return StoreError::Configuration(format!(
            "table {table} has no index {index}: to find orders by search keys, add it by `terraform apply` with the module of this version; DynamoDB then adds the orders that have keys already"
        ));
    }
    classify(error_of_sdk, table)
}

/// The error of an unreadable stored item, with its table.
pub(crate) fn in_table(error: StoreError, table: &str) -> StoreError {
    match error {
        StoreError::Item(why) => StoreError::Item(format!("table {table}: {why}")),
        other => other,
    }
}

/// Whether no request was sent because of a wrong setting: no credentials, no region, an endpoint that is not a URL.
/// The SDK reports missing credentials of all providers as a dispatch failure.
pub(crate) fn is_of_set_up<E, R>(error: &SdkError<E, R>) -> bool {
    match error {
        SdkError::ConstructionFailure(_) => true,
        SdkError::DispatchFailure(failure) => failure.is_user(),
        _ => false,
    }
}

/// Why the service did not answer, in a few words: the SDK's text has a page.
pub(crate) fn unanswered<E, R>(error: &SdkError<E, R>) -> String
where
    E: std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    let what = match error {
        SdkError::TimeoutError(_) => return "no answer in time".to_owned(),
        SdkError::DispatchFailure(failure) if failure.is_timeout() => {
            return "no connection in time".to_owned();
        }
        SdkError::ConstructionFailure(_) => "the call cannot be made",
        SdkError::DispatchFailure(failure) if failure.is_user() => "the call cannot be signed",
        SdkError::DispatchFailure(_) => "no connection",
        _ => "the answer is not one of DynamoDB",
    };
    let mut deepest: &dyn std::error::Error = error;
    // The loop ends: a chain of causes is finite.
    while let Some(next) = deepest.source() {
        deepest = next;
    }
    let deepest = deepest.to_string();
    format!("{what}: {}", deepest.trim_end_matches('.'))
}

/// Why a transaction was cancelled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cancelled {
    /// A condition did not hold, and there is no other reason.
    Condition,
    /// Another reason, alone or beside a failed condition.
    Error(StoreError),
}

/// Classifies the reasons for a cancelled transaction, one per item.
///
/// A failed condition counts only if there is no other reason: beside a conflict with another writer it was checked
/// against an item that may be changing, and the answer may lack that item. The text names `tables`, the tables of
/// the transaction.
pub(crate) fn cancelled(reasons: &[CancellationReason], tables: &str) -> Cancelled {
    let against = reasons.iter().filter_map(|reason| {
        let code = reason.code().filter(|code| *code != "None")?;
        let message = reason.message().unwrap_or("no message");
        Some(format!("{code}: {message}{}", advice(code)))
    });
    let against: Vec<String> = against.collect();
    let told = format!(
        "tables {tables}: the transaction was cancelled: {}",
        against.join("; ")
    );
    let mut worst = None;
    let mut is_condition = false;
    for reason in reasons {
        let found = match reason.code().unwrap_or("None") {
            "None" => continue,
            "ConditionalCheckFailed" => {
                is_condition = true;
                continue;
            }
            "TransactionConflict" | "ProvisionedThroughputExceeded" | "ThrottlingError" => {
                Transient
            }
            "ItemCollectionSizeLimitExceeded" => Item,
            "AccessDenied" => Configuration,
            code => meaning(code, reason.message().unwrap_or_default()),
        };
        // Transient errors rank first, because they are retried; errors of the item rank last.
        let rank = |m: Meaning| {
            [Transient, Configuration, Item]
                .iter()
                .position(|k| *k == m)
        };
        worst = match worst {
            Some(before) if rank(before) <= rank(found) => Some(before),
            _ => Some(found),
        };
    }
    match worst {
        Some(meaning) => Cancelled::Error(error(meaning, told)),
        None if is_condition => Cancelled::Condition,
        None => Cancelled::Error(StoreError::Transient(told)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(code: &str, message: &str) -> CancellationReason {
        CancellationReason::builder()
            .code(code)
            .message(message)
            .build()
    }

    #[test]
    fn every_code_is_told_once() {
        let mut codes: Vec<&str> = MEANINGS.iter().map(|(code, _)| *code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), MEANINGS.len());
    }

    /// Expired credentials, a lost right, a wrong table, a KMS key: no record is dead-lettered.
    #[test]
    fn nothing_but_the_item_costs_a_record_its_place() {
        for (code, expected) in MEANINGS {
            assert_eq!(meaning(code, ""), expected, "{code}");
        }
        let of_item: Vec<&str> = MEANINGS
            .iter()
            .filter_map(|(code, meaning)| (*meaning == Item).then_some(*code))
            .collect();
        assert_eq!(of_item, ["ItemCollectionSizeLimitExceededException"]);
        assert_eq!(meaning("NeverHeardOfException", ""), Configuration);
    }

    #[test]
    fn a_validation_error_is_about_the_item_only_where_it_says_so() {
        let item = "Item size has exceeded the maximum allowed size";
        assert_eq!(meaning("ValidationException", item), Item);
        for of_the_request in [
            "The provided key element does not match the schema",
            "One or more parameter values were invalid: Type mismatch for Index Key Due",
            "The table does not have the specified index: due",
            "",
        ] {
            assert_eq!(
                meaning("ValidationException", of_the_request),
                Configuration
            );
        }
    }

    #[test]
    fn a_condition_beside_a_conflict_is_no_answer() {
        let none = || reason("None", "");
        let failed = || reason("ConditionalCheckFailed", "The conditional request failed");
        let conflict = || reason("TransactionConflict", "Transaction is ongoing for the item");
        assert_eq!(
            cancelled(&[failed(), none()], "a and b"),
            Cancelled::Condition
        );
        assert_eq!(
            cancelled(&[failed(), failed()], "a and b"),
            Cancelled::Condition
        );
        for both in [
            [failed(), conflict()],
            [conflict(), failed()],
            [none(), conflict()],
        ] {
            let found = cancelled(&both, "a and b");
            assert!(
                matches!(found, Cancelled::Error(StoreError::Transient(_))),
                "{found:?}"
            );
        }
        let large = reason(
            "ValidationError",
            "Item size has exceeded the maximum allowed size",
        );
        let found = cancelled(&[large.clone(), none()], "a and b");
        assert!(
            matches!(found, Cancelled::Error(StoreError::Item(_))),
            "{found:?}"
        );
        let found = cancelled(&[large, conflict()], "a and b");
        assert!(
            matches!(found, Cancelled::Error(StoreError::Transient(_))),
            "{found:?}"
        );
        let found = cancelled(
            &[reason("ValidationError", "Type mismatch for key"), failed()],
            "a and b",
        );
        let Cancelled::Error(error) = &found else {
            panic!("{found:?}")
        };
        let said = error.to_string();
        for part in ["tables a and b", "ValidationError: Type mismatch for key"] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert!(
            matches!(found, Cancelled::Error(StoreError::Configuration(_))),
            "{found:?}"
        );
    }
}
