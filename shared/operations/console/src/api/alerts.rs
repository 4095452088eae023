//! Alerts.

use serde_json::{Value, json};
use triad_core::message::Alert;
use triad_operator::address::PageAddress;
use triad_operator::json as form;
use triad_operator::recent::alerts;

use crate::acts::letters::FilterForm;
use crate::answer::{self, Answer};
use crate::hidden::Hidden;
use crate::installation::Installation;
use crate::params::Params;
use crate::problem::Problem;
use crate::shared_state::Desk;
use crate::topic_reads::OF_LATE;

/// The newest alerts since a moment; default: of the last day.
pub(super) async fn list<I: Installation>(
    desk: &Desk<I>,
    query: &Params,
) -> Result<Answer, Problem> {
    query.only(&["since", "limit"])?;
    let (limit, _) = query.page()?;
    let since = FilterForm {
        since: query.one("since").map(str::to_owned),
        ..FilterForm::default()
    };
    let since = since.filter(desk)?.since;
    let since = since.unwrap_or_else(|| desk.now().minus(OF_LATE));
    let _place = desk.read_topics()?;
    let found = alerts(desk.of.topics(), since, limit).await;
    let found = found.map_err(|e| Problem::unread("alerts", &e))?;
    let hidden = &desk.settings.hidden;
    let lines = found.alerts.iter().map(|alert| line(alert, hidden));
    let lines: Result<Vec<Value>, Problem> = lines.collect();
    answer::json(&json!({
        "kind": "alerts",
        "alerts": lines?,
        "more": found.more,
        "unreadable": found.unreadable,
    }))
}

fn line(alert: &Alert, hidden: &Hidden) -> Result<Value, Problem> {
    let mut line = form::of(alert)?;
    hidden.mask_record(&mut line);
    line["about"] = line["kind"].take();
    line["kind"] = "alert".into();
    if let Some(place) = PageAddress::of_alert(alert) {
        line["page"] = place.path().into();
    }
    Ok(line)
}
