//! Compiled descriptions of actions, kept from call to call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use triad_runtime::Fault;
use triad_workflow::service::{CallDefinition, CallForm};

/// Most descriptions that are kept, inclusive. When there are more, all are compiled anew: an agent sees a few
/// actions in a few versions.
const MAX_FORMS: usize = 256;

/// The compiled descriptions, by their JSON. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Forms(Arc<Mutex<HashMap<String, Arc<CallForm>>>>);

impl Forms {
    /// The compiled description.
    ///
    /// # Errors
    /// [`Fault::Permanent`] if it does not compile. Definitions are checked before they are published, so it comes
    /// from a Scheduler of another version.
    pub(crate) fn compiled(&self, definition: &CallDefinition) -> Result<Arc<CallForm>, Fault> {
        let bad = |why: String| super::not_sent("bad-description", why);
        let key = serde_json::to_string(definition).map_err(|e| bad(e.to_string()))?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(form) = known.get(&key) {
            return Ok(form.clone());
        }
        let form = CallForm::compile(definition).map_err(|e| bad(e.to_string()))?;
        let form = Arc::new(form);
        if known.len() >= MAX_FORMS {
            known.clear();
        }
        known.insert(key, form.clone());
        Ok(form)
    }
}
