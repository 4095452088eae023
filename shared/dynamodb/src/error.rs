//! What DynamoDB's errors mean, once, here.
//!
//! Three things an error may mean: it may pass; somebody must mend the installation; this item cannot
//! be stored. Only the last may cost a record its place in its topic. A code that nobody has heard of is
//! taken for the second: nothing is lost by waiting.
//!
//! Sources: "Error handling with DynamoDB" and "Common errors" of the developer guide and the API
//! reference; "Troubleshooting" of IAM and KMS for the codes of rights, credentials and keys.

use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::CancellationReason;
use triad_runtime::StoreError;

/// What an error means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// The error may pass by itself.
    Transient,
    /// The error passes when somebody mends the installation.
    Configuration,
    /// The error is about the item.
    Item,
}

use Meaning::{Configuration, Item, Transient};

/// Every code that the service and what stands before it are documented to answer with, but for those
/// that the caller takes as outcomes.
const MEANINGS: [(&str, Meaning); 48] = [
    // Too much at once, or the service's own trouble. The SDK has retried these a few times already.
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
    // Others are writing the same item.
    ("TransactionConflictException", Transient),
    ("TransactionInProgressException", Transient),
    ("ReplicatedWriteConflictException", Transient),
    // A table that is being made or changed.
    ("ResourceInUseException", Transient),
    // Rights.
    ("AccessDeniedException", Configuration),
    ("AccessDenied", Configuration),
    ("NotAuthorized", Configuration),
    ("OptInRequired", Configuration),
    ("SubscriptionRequiredException", Configuration),
    // Credentials, and a clock that is wrong: a signature lives five minutes.
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
    // The item.
    ("ItemCollectionSizeLimitExceededException", Item),
];

/// What the texts of a `ValidationException` say where it is about the item that is written. Others are
/// about the request, the table's keys or its indexes: the installation.
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

/// What the text of a `ValidationException` says where a query names an index that is not there.
const NO_INDEX: &str = "does not have the specified index";

/// The code of an answer that has none.
const UNKNOWN: &str = "unknown";

fn meaning(code: &str, message: &str) -> Meaning {
    if code == "ValidationException" || code == "ValidationError" {
        let is_of_item = ITEM_IS_INVALID.iter().any(|text| message.contains(text));
        return if is_of_item { Item } else { Configuration };
    }
    let known = MEANINGS.iter().find(|(known, _)| *known == code);
    known.map_or(Configuration, |(_, meaning)| *meaning)
}

/// What is to be done about an error of the installation, where its own words do not say it.
fn advice(code: &str) -> &'static str {
    if code.contains("AccessDenied") || code == "NotAuthorized" {
        "; who runs this needs that right: see the roles in infra/"
    } else if code.contains("Token") || code.contains("Signature") || code.contains("AccessKey") {
        "; log in again, and see that the clock is right"
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

/// Classifies an error that is not one of the outcomes the caller knows. The text names `table`, which
/// was asked for; the SDK's own words as a whole go to the log, at the level `debug`.
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
                // Sent or not, answered or not: nobody knows, so the same write is tried again and
                // recognises itself by its token.
                StoreError::Transient(text)
            }
        }
    }
}

/// Classifies an error of a query of a search index, as [`classify`] does, and says what to do where the
/// table does not have the index: an earlier version of Triad has made the table.
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
            "table {table} has no index {index}: orders are found by search keys when it has been added, by `terraform apply` with the module of this version; those that have keys already come into it by themselves"
        ));
    }
    classify(error_of_sdk, table)
}

/// The error of a stored item that cannot be read, with the table in which it is.
pub(crate) fn in_table(error: StoreError, table: &str) -> StoreError {
    match error {
        StoreError::Item(why) => StoreError::Item(format!("table {table}: {why}")),
        other => other,
    }
}

/// Whether nothing was sent because of what only a person can mend: no credentials, no region, an
/// endpoint that is no URL. That no provider of credentials had any is told as a failure to send.
pub(crate) fn is_of_set_up<E, R>(error: &SdkError<E, R>) -> bool {
    match error {
        SdkError::ConstructionFailure(_) => true,
        SdkError::DispatchFailure(failure) => failure.is_user(),
        _ => false,
    }
}

/// Why there is no answer of the service, in a few words: the SDK's have a page.
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
        _ => "an answer that is none of DynamoDB",
    };
    let mut deepest: &dyn std::error::Error = error;
    // Bounded: a chain of causes is finite.
    while let Some(next) = deepest.source() {
        deepest = next;
    }
    let deepest = deepest.to_string();
    format!("{what}: {}", deepest.trim_end_matches('.'))
}

/// Why a transaction was cancelled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cancelled {
    /// A condition did not hold, and nothing else stood against it: what its items say is so.
    Condition,
    /// Something else, alone or beside it.
    Error(StoreError),
}

/// Classifies the reasons for which a transaction was cancelled, one an item.
///
/// A condition is taken as the answer only where nothing else was wrong: beside a conflict with another
/// writer it was held against an item that may be changing, and its item may not be told. The text names
/// `tables`, in which it would have written.
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
        // What may pass is tried again first; the item is given up last.
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

    /// Expired credentials, a lost right, a wrong table, a key of KMS: no record is given up.
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
