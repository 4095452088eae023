//! The permissions that a request needs.
//!
//! Sources: the Service Authorization Reference (actions and resource types of DynamoDB, SNS and Secrets Manager);
//! DynamoDB Developer Guide, "Using IAM with DynamoDB transactions": a transaction needs the actions of its parts,
//! and `ConditionCheckItem` for a condition check. A batch needs the batch action for each of its tables. A query of
//! an index needs a permission for the index, not for the table. A condition on the written item, and the return of
//! an item whose condition was false, need no further permission.

use std::collections::BTreeMap;

use serde_json::Value;

use super::policy::Permission;

/// Prefix of the tables' ARNs, in the account of `infra/tests/mocks`.
const TABLES: &str = "arn:aws:dynamodb:eu-west-1:111122223333:table/";
/// Prefix of the topics' ARNs, in the cluster of `infra/tests/reviews`.
const TOPICS: &str =
    "arn:aws:kafka:eu-west-1:111122223333:topic/shop/0a1b2c3d-0000-0000-0000-000000000000-1/";
/// Prefix of the functions' ARNs, in the account of `infra/tests/mocks`.
const FUNCTIONS: &str = "arn:aws:lambda:eu-west-1:111122223333:function:";
/// The action that writes records to a topic, in a cluster with MSK's access control.
pub const WRITE: &str = "kafka-cluster:WriteData";

/// A request with the permissions that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionRequest {
    /// A request to DynamoDB, with its permissions.
    Tables(Vec<Permission>),
    /// A message to an SNS topic.
    Publish(Permission),
    /// A read of a secret; its id is the permission's resource.
    Secret(Permission),
    /// A message to an SQS queue.
    Send(Permission),
    /// An invocation of a Lambda function.
    Invoke(Permission),
    /// Any other request, with a description for the report.
    Unknown(String),
}

/// The permission to write records to a topic.
#[must_use]
pub fn to_write(topic: &str) -> Permission {
    Permission::new(WRITE, format!("{TOPICS}{topic}"))
}

/// Parses a request by its path, by its header `x-amz-target`, if it has one, and by its body.
#[must_use]
pub fn request(path: &str, target: Option<&str>, body: &[u8]) -> PermissionRequest {
    let function = path.strip_prefix("/2015-03-31/functions/");
    if let Some(name) = function.and_then(|rest| rest.strip_suffix("/invocations")) {
        let name = name.replace("%3A", ":");
        let arn = match name.starts_with("arn:") {
            true => name,
            false => format!("{FUNCTIONS}{name}"),
        };
        return PermissionRequest::Invoke(Permission::new("lambda:InvokeFunction", arn));
    }
    let Some((service, operation)) = target.and_then(|target| target.split_once('.')) else {
        return form(body);
    };
    let known = serde_json::from_slice::<Value>(body).ok();
    let known = known.and_then(|body| match service {
        "DynamoDB_20120810" => tables(operation, &body).map(PermissionRequest::Tables),
        "secretsmanager" if operation == "GetSecretValue" => {
            let action = "secretsmanager:GetSecretValue";
            Some(PermissionRequest::Secret(Permission::new(
                action,
                body["SecretId"].as_str()?,
            )))
        }
        "AmazonSQS" if operation == "SendMessage" => {
            // https://sqs.REGION.amazonaws.com/ACCOUNT/NAME
            let mut parts = body["QueueUrl"].as_str()?.split('/').skip(2);
            let region = parts.next()?.split('.').nth(1)?;
            let (account, name) = (parts.next()?, parts.next()?);
            let queue = format!("arn:aws:sqs:{region}:{account}:{name}");
            Some(PermissionRequest::Send(Permission::new(
                "sqs:SendMessage",
                queue,
            )))
        }
        _ => None,
    });
    known.unwrap_or_else(|| PermissionRequest::Unknown(format!("{service}.{operation}")))
}

/// Parses a form-encoded request, as SNS uses it.
fn form(body: &[u8]) -> PermissionRequest {
    let text = String::from_utf8_lossy(body);
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let fields: BTreeMap<&str, &str> = pairs.collect();
    match (fields.get("Action"), fields.get("TopicArn")) {
        (Some(&"Publish"), Some(topic)) => {
            // The colon is the only character of an ARN that is escaped in a form.
            PermissionRequest::Publish(Permission::new("sns:Publish", topic.replace("%3A", ":")))
        }
        (action, _) => PermissionRequest::Unknown(format!("a form with the action {action:?}")),
    }
}

/// The permissions of a DynamoDB operation; `None` if it is unknown.
fn tables(operation: &str, body: &Value) -> Option<Vec<Permission>> {
    let on = |operation: &str, table: &Value| {
        let resource = format!("{TABLES}{}", table.as_str()?);
        Some(Permission::new(&format!("dynamodb:{operation}"), resource))
    };
    let all = match operation {
        "GetItem" | "PutItem" | "UpdateItem" | "DeleteItem" => {
            vec![on(operation, &body["TableName"])?]
        }
        "Query" | "Scan" => {
            let mut whole = on(operation, &body["TableName"])?;
            if let Some(index) = body["IndexName"].as_str() {
                whole.resource += &format!("/index/{index}");
            }
            vec![whole]
        }
        "BatchGetItem" | "BatchWriteItem" => {
            let tables = body["RequestItems"].as_object()?.keys();
            let each = tables.map(|table| on(operation, &Value::from(&**table)));
            each.collect::<Option<_>>()?
        }
        "TransactWriteItems" | "TransactGetItems" => {
            let parts = body["TransactItems"].as_array()?.iter();
            let each = parts.flat_map(|part| part.as_object().into_iter().flatten());
            let each = each.map(|(part, inner)| on(&format!("{part}Item"), &inner["TableName"]));
            each.collect::<Option<_>>()?
        }
        _ => return None,
    };
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn needs(operation: &str, body: &Value) -> Vec<String> {
        let target = format!("DynamoDB_20120810.{operation}");
        match request("/", Some(&target), body.to_string().as_bytes()) {
            PermissionRequest::Tables(all) => all
                .iter()
                .map(|p| {
                    let action = p.action.trim_start_matches("dynamodb:");
                    format!("{action} {}", p.resource.trim_start_matches(TABLES))
                })
                .collect(),
            other => vec![format!("{other:?}")],
        }
    }

    #[test]
    fn a_transaction_needs_what_its_parts_need() {
        let of = |table: &str| json!({"TableName": table});
        let body = json!({"TransactItems": [{"Put": of("a")}, {"Update": of("b")},
            {"Delete": of("c")}, {"ConditionCheck": of("d")}]});
        assert_eq!(
            needs("TransactWriteItems", &body),
            [
                "PutItem a",
                "UpdateItem b",
                "DeleteItem c",
                "ConditionCheckItem d"
            ]
        );
        let body = json!({"TransactItems": [{"Get": of("a")}]});
        assert_eq!(needs("TransactGetItems", &body), ["GetItem a"]);
    }

    #[test]
    fn a_batch_has_an_action_of_its_own_for_each_table() {
        let body = json!({"RequestItems": {"a": {}, "b": {}}});
        let expected = ["BatchGetItem a", "BatchGetItem b"];
        assert_eq!(needs("BatchGetItem", &body), expected);
    }

    #[test]
    fn a_query_of_an_index_needs_the_index_and_not_the_table() {
        let body = json!({"TableName": "a", "IndexName": "due"});
        assert_eq!(needs("Query", &body), ["Query a/index/due"]);
        assert_eq!(needs("Scan", &json!({"TableName": "a"})), ["Scan a"]);
    }

    #[test]
    fn what_is_not_known_is_told() {
        for (operation, body) in [
            ("ExecuteStatement", json!({"Statement": "SELECT"})),
            ("GetItem", json!({})),
            ("TransactWriteItems", json!({"TransactItems": []})),
        ] {
            let needs = needs(operation, &body);
            assert!(needs[0].starts_with("Unknown"), "{operation}: {needs:?}");
        }
        assert!(matches!(
            request("/", None, b"Action=Subscribe"),
            PermissionRequest::Unknown(_)
        ));
    }

    #[test]
    fn a_message_needs_its_topic_and_a_secret_itself() {
        let form = b"Action=Publish&Version=2010-03-31&TopicArn=arn%3Aaws%3Asns%3Ax%3A1%3Aalerts";
        let publish = Permission::new("sns:Publish", "arn:aws:sns:x:1:alerts");
        assert_eq!(
            request("/", None, form),
            PermissionRequest::Publish(publish)
        );
        let wanted = Permission::new(
            "secretsmanager:GetSecretValue",
            "arn:aws:secretsmanager:x:1:secret:s",
        );
        let parsed = request(
            "/",
            Some("secretsmanager.GetSecretValue"),
            br#"{"SecretId": "arn:aws:secretsmanager:x:1:secret:s"}"#,
        );
        assert_eq!(parsed, PermissionRequest::Secret(wanted));
        let send = Permission::new("sqs:SendMessage", "arn:aws:sqs:eu-west-1:1:stock.fifo");
        let parsed = request(
            "/",
            Some("AmazonSQS.SendMessage"),
            br#"{"QueueUrl": "https://sqs.eu-west-1.amazonaws.com/1/stock.fifo"}"#,
        );
        assert_eq!(parsed, PermissionRequest::Send(send));
        let alias = "arn:aws:lambda:eu-west-1:111122223333:function:charge:live";
        for name in ["charge%3Alive", &alias.replace(':', "%3A")] {
            let path = format!("/2015-03-31/functions/{name}/invocations");
            let invoke = Permission::new("lambda:InvokeFunction", alias);
            assert_eq!(
                request(&path, None, b"{}"),
                PermissionRequest::Invoke(invoke)
            );
        }
    }
}
