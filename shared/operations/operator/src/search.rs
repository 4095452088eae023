//! Search keys: the orders with a key, and the keys that workflows declare.

use serde::Serialize;
use triad_core::stored::SEARCH;
use triad_core::{OrderId, Timestamp};
use triad_runtime::ports::{OperatorStore, SearchRow};
use triad_runtime::{DefinitionStore, StoreError};
use triad_workflow::{Definition, SearchKey, WorkflowName};

use crate::merge::{IndexPage, IndexPart};

/// The rows of one key in one search index, the last submitted order first.
pub(crate) struct Index {
    key: SearchKey,
    number: usize,
}

/// All search indexes that may hold a key.
pub(crate) fn indexes(key: &SearchKey) -> impl Iterator<Item = Index> {
    (0..SEARCH.len()).map(|number| Index {
        key: key.clone(),
        number,
    })
}

impl IndexPart for Index {
    type Row = SearchRow;
    const NEWEST_FIRST: bool = true;

    async fn read<S: OperatorStore>(
        &self,
        store: &S,
        page: Option<String>,
    ) -> Result<IndexPage<SearchRow>, StoreError> {
        let got = store.search(self.key.clone(), self.number, page).await?;
        Ok(IndexPage {
            rows: got.rows,
            unreadable: got.unreadable,
            next: got.next,
        })
    }

    fn at(row: &SearchRow) -> Timestamp {
        row.at
    }

    fn order(row: &SearchRow) -> &OrderId {
        &row.order
    }
}

/// The search keys that the present version of one workflow declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Declared {
    /// The workflow's name.
    pub workflow: WorkflowName,
    /// The names of its search keys, sorted; at least one.
    pub keys: Vec<String>,
}

/// The search keys that the present versions of all workflows declare, sorted by workflow. Workflows without
/// search keys are left out, and so are definitions that cannot be read. Orders of earlier versions may have
/// other keys.
///
/// It reads the definition of every workflow, so it is meant for the case that a search has found nothing.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn declared<S>(store: &S) -> Result<Vec<Declared>, StoreError>
where
    S: DefinitionStore + OperatorStore,
{
    let mut all = Vec::new();
    let present = store.versions().await?.into_iter().filter(|v| v.is_current);
    for version in present.map(|version| version.definition) {
        let json = store.definition(version.clone()).await?;
        let definition = json.and_then(|json| serde_json::from_str::<Definition>(&json).ok());
        let keys: Vec<String> =
            definition.map_or_else(Vec::new, |d| d.search.into_keys().collect());
        if !keys.is_empty() {
            all.push(Declared {
                workflow: version.name,
                keys,
            });
        }
    }
    all.sort_by(|a, b| a.workflow.cmp(&b.workflow));
    Ok(all)
}

/// A sentence for people that says why a search for `key` may have found nothing: that the key is not
/// declared, and which ones are. With a `workflow`, the key is looked for only among the keys of that
/// workflow; with `None`, among those of all. The answer is `None` if the key is declared there.
#[must_use]
pub fn hint(declared: &[Declared], key: &SearchKey, workflow: Option<&str>) -> Option<String> {
    let asked = |of: &&Declared| workflow.is_none_or(|name| name == of.workflow.as_str());
    let has_key = |of: &Declared| of.keys.iter().any(|name| name == key.name().as_str());
    if declared.iter().filter(asked).any(has_key) {
        return None;
    }
    let whose = match workflow {
        Some(name) => format!("workflow {name} has no search key {}", key.name()),
        None => format!("no workflow has a search key {}", key.name()),
    };
    let all = declared.iter();
    let all: Vec<String> = all
        .map(|of| format!("{}: {}", of.workflow, of.keys.join(", ")))
        .collect();
    Some(match all.is_empty() {
        true => format!("{whose}; a definition declares them with `search:`"),
        false => format!("{whose}; there are {}", all.join("; ")),
    })
}
