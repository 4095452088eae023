//! The OpenAPI document of the interface, made from the types of [`forms`](crate::forms). The repository has a copy of
//! it, and a test compares the two.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Value, json};
use triad_console::describe::{Description, Operation};
use triad_core::submission::{Submission, SubmissionRefusal};
use triad_operator::operations::Method;

use crate::forms::{
    GetQuery, Health, LineAnswer, OrderPath, OrderRecord, SubmitHeaders, SubmitQuery, Submitted,
};
use crate::{acts, callbacks};

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";

/// The codes of problems, beside those of [`SubmissionRefusal::CODES`], [`acts::CODES`] and [`callbacks::CODES`].
const CODES: [&str; 24] = [
    "bad-body",
    "bad-order-id",
    "bad-query",
    "bad-wait",
    "body-timeout",
    "bus-unavailable",
    "empty-batch",
    "host",
    "internal",
    "method-not-allowed",
    "no-room",
    "no-such-order",
    "no-such-path",
    "no-such-version",
    "not-now",
    "not-writable",
    "queue-full",
    "role",
    "stopping",
    "store-unavailable",
    "token",
    "too-many-lines",
    "too-many-waiting",
    "unsupported-media-type",
];

/// The document, as it is served.
pub(crate) fn text() -> Bytes {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into_bytes().into());
    TEXT.clone()
}

/// The OpenAPI document of the HTTP interface for applications.
#[must_use]
pub fn document() -> Value {
    let mut made = Description::default();
    submit(&mut made);
    let record = made.answer::<OrderRecord>();
    let get = Operation::new(
        "/v1/orders/{id}",
        Method::Get,
        "get",
        "Shows an order. Needs the role `read`.",
    )
    .parameters("path", &made.fields::<OrderPath>())
    .parameters("query", &made.fields::<GetQuery>())
    .answer(200, "The order; with `wait` at its end.", JSON, &record)
    .answer(
        202,
        "With `wait`: the time was up before the order's end. The order as it is now.",
        JSON,
        &record,
    );
    made.add(get, &[400, 401, 403, 404, 429, 500, 503]);
    made.add_itself("/v1/openapi.json");
    acts::describe(&mut made);
    callbacks::describe(&mut made);
    let health = made.answer::<Health>();
    for (path, id, about, problems) in [
        ("/healthz", "health", "The process is up.", &[][..]),
        (
            "/readyz",
            "ready",
            "Orders are taken: the store answers, what an order needs can be written, there is room, and the server is \
             not stopping.",
            &[503],
        ),
    ] {
        let operation = Operation::new(path, Method::Get, id, about).open();
        made.add(operation.answer(200, about, JSON, &health), problems);
    }
    let mut document = made.finish(
        "Triad",
        "Submits orders and tells of their ends. Problems are RFC 9457 with a stable `code`. A request whose line or \
         headers are not HTTP/1.1, or are larger than the server takes, is answered with 400, 414 or 431 without a \
         body, and the connection is closed. A path that does not exist is 404 `no-such-path`; a method that a path does \
         not have is 405 `method-not-allowed` with `Allow`.",
        "A token of the server's file of tokens. A server on a loopback address may have none, and then needs none.",
        true,
    );
    let of_orders = SubmissionRefusal::CODES.into_iter();
    let codes: Vec<&str> = of_orders
        .chain(CODES)
        .chain(acts::CODES)
        .chain(callbacks::CODES)
        .collect();
    let schemas = &mut document["components"]["schemas"];
    schemas["Code"] = json!({"enum": codes,
        "description": "Stable. The first ones are the causes that dead letters of orders have."});
    schemas["Problem"]["properties"]["code"] = json!({"$ref": "#/components/schemas/Code"});
    document
}

fn submit(made: &mut Description) {
    let order = made.body::<Submission>();
    let submitted = made.answer::<Submitted<'static>>();
    let line = made.answer::<LineAnswer<'static>>();
    let location = json!({"type": "string", "pattern": "^/v1/orders/"});
    let known = "The same order was submitted before (with `wait`: and is at its end); or the answers of a batch, one for \
        each line that is not blank, in their order.";
    let new = "The order is new and stored; with `wait` it is at its end.";
    let early = "With `wait`: the order is stored, and the time was up before its end.";
    let operation = Operation::new(
        "/v1/orders",
        Method::Post,
        "submit",
        "Submits an order, or a batch with an order on each line. Needs the role `submit`. An order is taken once: the \
         same content under the same id again is 200, other content is 409. A batch has 1,000 lines and 4 MiB at most, \
         and is answered with 200 and a line for each line, whatever came of them.",
    )
    .parameters("query", &made.fields::<SubmitQuery>())
    .parameters("header", &made.fields::<SubmitHeaders>())
    .body(JSON, &order)
    .body(LINES, &order)
    .body("application/jsonl", &order)
    .answer(200, known, JSON, &submitted)
    .answer(200, known, LINES, &line)
    .answer(201, new, JSON, &submitted)
    .header(201, "Location", &location)
    .answer(202, early, JSON, &submitted)
    .header(202, "Location", &location);
    let problems = [400, 401, 403, 408, 409, 413, 415, 422, 429, 500, 503];
    made.add(operation, &problems);
}
