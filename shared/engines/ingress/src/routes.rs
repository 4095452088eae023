//! The paths of applications.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::routing::{get, post};
use http::StatusCode;
use triad_console::request::InPath;
use triad_console::{Answer, answer, not_allowed};
use triad_operator::operations::Problem;
use triad_runtime::StateStore;

use crate::forms::{Health, HealthStatus};
use crate::service::{Service, Shared, answered};
use crate::{acts, callbacks, open_api};

/// The paths of applications.
pub(crate) fn router<S: StateStore>(service: Service<S>) -> Router {
    let submit = async |State(service): Shared<S>, request: Request| {
        let (head, body) = request.into_parts();
        answered(service.take(&head, body).await)
    };
    let show = async |State(service): Shared<S>, id: InPath, request: Request| {
        let (head, _) = request.into_parts();
        answered(service.show(&head, id).await)
    };
    let ready = async |State(service): Shared<S>| {
        let ready = service.is_ready().await;
        answered(ready.and_then(|()| well(HealthStatus::Ready)))
    };
    Router::new()
        .route("/v1/orders", post(submit))
        .route("/v1/orders/{id}", get(show))
        .merge(acts::routes())
        .merge(callbacks::routes())
        .route(
            "/v1/openapi.json",
            get(async || answer::of(StatusCode::OK, "application/json", open_api::text())),
        )
        .route("/healthz", get(async || answered(well(HealthStatus::Up))))
        .route("/readyz", get(ready))
        .method_not_allowed_fallback(async || answered(Err(not_allowed())))
        .with_state(Arc::new(service))
}

fn well(status: HealthStatus) -> Result<Answer, Problem> {
    answer::json(StatusCode::OK, &Health { status })
}
