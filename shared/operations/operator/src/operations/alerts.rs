//! Alerts of late.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use triad_core::message::Alert;

use super::filter::span;
use super::heard::{HEARD_FOR, Heard, OF_LATE};
use super::local::{Execute, Installation, Local};
use super::order_queries::limit;
use super::{Caller, Form, Problem};
use crate::address::PageAddress;
use crate::json as form;
use crate::recent::{Alerts, alerts};

impl<I: Installation> Local<I> {
    /// The latest reading of alerts and dead letters, at most [`HEARD_FOR`] old: reading the topics is slow.
    pub(super) async fn heard(&self) -> Heard {
        let mut last = self.heard.lock().await;
        let now = self.moment();
        if let Some((at, heard)) = &*last
            && now.since(*at) < HEARD_FOR
        {
            return heard.clone();
        }
        let heard = Heard::read(&self.parts().topics, now).await;
        *last = Some((self.moment(), heard.clone()));
        heard
    }
}

/// The newest alerts since a moment.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListAlerts {
    /// Only alerts not older than this, such as 2h; a day where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Most alerts, from 1 to 500; 100 where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<usize>,
}

/// The newest alerts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AlertsFound(pub Alerts);

impl Execute for ListAlerts {
    type Answer = AlertsFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<AlertsFound, Problem> {
        let limit = limit(self.limit)?;
        let since = span("since", &self.since)?.unwrap_or(OF_LATE);
        let _place = on.read_topics()?;
        let found = alerts(&on.parts().topics, on.moment().minus(since), limit).await;
        let mut found = found.map_err(|e| Problem::unread("alerts", &e))?;
        for alert in &mut found.alerts {
            on.settings.hidden.cut_answer(&mut alert.cause);
        }
        Ok(AlertsFound(found))
    }
}

impl Form for AlertsFound {
    fn form(&self) -> Result<Value, serde_json::Error> {
        let line = |alert: &Alert| {
            let mut line = form::of(alert)?;
            line["about"] = line["kind"].take();
            line["kind"] = "alert".into();
            if let Some(place) = PageAddress::of_alert(alert) {
                line["page"] = place.path().into();
            }
            Ok(line)
        };
        let lines: Result<Vec<Value>, serde_json::Error> = self.0.alerts.iter().map(line).collect();
        Ok(json!({
            "kind": "alerts",
            "alerts": lines?,
            "more": self.0.more,
            "unreadable": self.0.unreadable,
        }))
    }

    fn schema(of: &mut SchemaGenerator) -> Schema {
        let text = of.subschema_for::<Option<String>>();
        let alert = json!({
            "type": "object",
            "required": ["kind", "about", "alert_id", "cause", "at"],
            "properties": {
                "kind": {"const": "alert"},
                "about": {"type": "string", "description": "What it is about, such as `order-error` or `breaker`."},
                "alert_id": {"type": "string", "description": "The same however often it is sent."},
                "order_id": text,
                "cause": {"type": "string"},
                "at": {"type": "string", "format": "date-time"},
                "page": {"type": "string", "description": "The console's page about it."},
            },
        });
        json_schema!({
            "type": "object",
            "required": ["kind", "alerts", "more", "unreadable"],
            "properties": {
                "kind": {"const": "alerts"},
                "alerts": {"type": "array", "items": alert},
                "more": {"type": "boolean", "description": "Older alerts were left out."},
                "unreadable": {"type": "integer", "description": "Records of the topic that are no alerts."},
            },
        })
    }
}
