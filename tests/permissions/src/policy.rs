//! The permissions of each role, read from the policies that Terraform renders for the module.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

/// The file that `tests/infra/render.sh` writes.
const RENDERED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../infra/tests/permissions.json"
);

/// Permission for one action on one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// IAM's name of the action, such as `dynamodb:PutItem`.
    pub action: String,
    /// The resource's ARN, or a pattern that ends in `*`.
    pub resource: String,
}

impl Permission {
    /// An action on a resource.
    #[must_use]
    pub fn new(action: &str, resource: impl Into<String>) -> Self {
        Self {
            action: action.to_owned(),
            resource: resource.into(),
        }
    }

    /// Whether this permission includes the other one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let is_of = match self.resource.strip_suffix('*') {
            Some(begin) => other.resource.starts_with(begin),
            None => self.resource == other.resource,
        };
        is_of && self.action == other.action
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.action, self.resource)
    }
}

/// The permissions of one role: every action with every resource of its statements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    allowed: BTreeSet<Permission>,
    /// Actions with a statement that the runs cannot check, because it denies or has a condition.
    restricted: BTreeSet<String>,
}

/// A statement of a policy in the form that the module writes: actions and resources are lists.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Statement {
    #[serde(rename = "Sid")]
    _sid: String,
    effect: String,
    action: Vec<String>,
    resource: Vec<String>,
    condition: Option<Value>,
}

impl Policy {
    /// Reads the statements of a policy.
    ///
    /// # Errors
    /// If a statement has another form than the module's.
    pub fn read(statements: &Value) -> Result<Self> {
        let statements = Vec::<Statement>::deserialize(statements).context("statements")?;
        let mut policy = Self::default();
        for statement in statements {
            let is_allowed = match &*statement.effect {
                "Allow" => true,
                "Deny" => false,
                other => bail!("the effect {other} is unknown"),
            };
            for action in &statement.action {
                if !is_allowed || statement.condition.is_some() {
                    policy.restricted.insert(action.clone());
                }
                let resources = statement.resource.iter().filter(|_| is_allowed);
                let all = resources.map(|resource| Permission::new(action, resource));
                policy.allowed.extend(all);
            }
        }
        Ok(policy)
    }

    /// Every permission of the policy.
    pub fn permissions(&self) -> impl Iterator<Item = &Permission> {
        self.allowed.iter()
    }

    /// Whether the policy allows an action on a resource.
    #[must_use]
    pub fn allows(&self, wanted: &Permission) -> bool {
        self.allowed
            .iter()
            .any(|permission| permission.covers(wanted))
    }

    /// Whether a statement denies an action, or allows it only on a condition.
    #[must_use]
    pub fn restricts(&self, action: &str) -> bool {
        self.restricted.contains(action)
    }

    /// The same policy without one of its permissions.
    #[must_use]
    pub fn without(&self, permission: &Permission) -> Self {
        let mut less = self.clone();
        less.allowed.remove(permission);
        less
    }
}

/// One installation as the module would create it.
#[derive(Debug, Clone)]
pub struct Installation {
    /// Name of its run in `infra/tests/reviews`.
    pub name: String,
    /// The policies, by role. The role of a function has the function's name.
    pub roles: BTreeMap<String, Policy>,
    /// The variables of each function, by function.
    pub variables: BTreeMap<String, BTreeMap<String, String>>,
}

/// The rendered installations.
///
/// # Errors
/// If the file cannot be read.
pub fn installations() -> Result<Vec<Installation>> {
    let text = std::fs::read_to_string(RENDERED).context(RENDERED)?;
    let rendered: BTreeMap<String, Value> = serde_json::from_str(&text).context(RENDERED)?;
    let installations = rendered.into_iter().filter(|(_, value)| value.is_object());
    installations
        .map(|(name, parts)| {
            let roles = BTreeMap::<String, Value>::deserialize(&parts["roles"])?;
            let roles = roles.into_iter().map(|(role, statements)| {
                let policy =
                    Policy::read(&statements).with_context(|| format!("{name}, {role}"))?;
                Ok((role, policy))
            });
            Ok(Installation {
                roles: roles.collect::<Result<_>>()?,
                variables: Deserialize::deserialize(&parts["variables"])?,
                name,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(more: Value) -> Result<Policy> {
        let mut statement = json!({"Sid": "S", "Effect": "Allow",
            "Action": ["a:Get", "a:Put"], "Resource": ["arn:one", "arn:many/*"]});
        let own = statement.as_object_mut().unwrap();
        own.extend(more.as_object().unwrap().clone());
        Policy::read(&json!([statement]))
    }

    #[test]
    fn a_statement_is_each_of_its_actions_with_each_of_its_resources() {
        let policy = policy(json!({})).unwrap();
        assert_eq!(policy.permissions().count(), 4);
        for (action, resource, allowed) in [
            ("a:Get", "arn:one", true),
            ("a:Put", "arn:many/7", true),
            ("a:Get", "arn:two", false),
            ("a:Get", "arn:one/more", false),
            ("a:Delete", "arn:one", false),
        ] {
            let wanted = Permission::new(action, resource);
            assert_eq!(policy.allows(&wanted), allowed, "{wanted}");
        }
        let gone = Permission::new("a:Get", "arn:one");
        let less = policy.without(&gone);
        assert!(!less.allows(&gone));
        assert!(less.allows(&Permission::new("a:Put", "arn:one")));
        assert!(less.allows(&Permission::new("a:Get", "arn:many/1")));
    }

    #[test]
    fn what_is_denied_or_has_a_condition_is_told() {
        let denied = policy(json!({"Effect": "Deny"})).unwrap();
        assert_eq!(denied.permissions().count(), 0);
        assert!(denied.restricts("a:Get"));
        let conditional = policy(json!({"Condition": {"Bool": {"x": "y"}}})).unwrap();
        assert!(conditional.restricts("a:Put") && !conditional.restricts("a:Other"));
        assert!(!policy(json!({})).unwrap().restricts("a:Get"));
        assert!(policy(json!({"NotAction": ["a:Get"]})).is_err());
    }
}
