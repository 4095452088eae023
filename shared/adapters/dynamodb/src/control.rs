//! The control store: small shared records as items.

use triad_runtime::{Clock, ControlRecord, ControlStore, ControlWrite, StoreError, Written};

use crate::capacity::Kind;
use crate::error::{classify, in_table};
use crate::item::{self, number, text};
use crate::store::DynamoStore;
use crate::tables::attr;
use crate::write::Put;

pub(crate) const VALUE: &str = "Value";

impl<C: Clock + Clone> ControlStore for DynamoStore<C> {
    async fn read(
        &self,
        key: String,
        consistent: bool,
    ) -> Result<Option<ControlRecord>, StoreError> {
        let shown = key.clone();
        let got = self
            .client
            .get_item()
            .table_name(&self.tables.control)
            .key(attr::KEY, text(key))
            .consistent_read(consistent)
            .set_return_consumed_capacity(self.capacity.wanted())
            .send()
            .await
            .map_err(|e| classify(&e, &self.tables.control))?;
        self.capacity.add(Kind::Read, got.consumed_capacity());
        let Some(found) = got.item else {
            return Ok(None);
        };
        if item::is_expired(&found, self.clock.now()) {
            return Ok(None);
        }
        let read = || {
            let value = item::optional_json(&found, VALUE)?
                .ok_or_else(|| StoreError::Item(format!("the record {shown} has no value")))?;
            let version = item::integer(&found, attr::VERSION)?;
            Ok(ControlRecord { version, value })
        };
        read()
            .map(Some)
            .map_err(|e| in_table(e, &self.tables.control))
    }

    async fn write(&self, write: ControlWrite) -> Result<Written, StoreError> {
        let version = write.expected.unwrap_or(0) + 1;
        let mut request = self
            .client
            .put_item()
            .table_name(&self.tables.control)
            .item(attr::KEY, text(write.key))
            .item(attr::VERSION, number(version))
            .item(VALUE, text(write.value.to_string()))
            .item(attr::WRITE_TOKEN, number(write.token));
        if let Some(at) = write.expires {
            request = request.item(attr::EXPIRES_AT, number(at.0.div_ceil(1000)));
        }
        request = match write.expected {
            Some(expected) => request
                .condition_expression("Version = :expected")
                .expression_attribute_values(":expected", number(expected)),
            // An expired item may not have been deleted yet.
            None => request
                .condition_expression("attribute_not_exists(#key) OR ExpiresAt <= :now")
                .expression_attribute_names("#key", attr::KEY)
                .expression_attribute_values(":now", number(self.clock.now().0 / 1000)),
        };
        Ok(match self.put(request, write.token).await? {
            Put::Done => Written::Written,
            Put::Refused(_) => Written::Conflict,
        })
    }
}
