//! The direct line: the SDK's HTTP interface, answered by the engine without a socket.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use dynoxide::{Database, DynoxideError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

/// One request to the engine.
struct Job {
    operation: String,
    body: Vec<u8>,
    answer: oneshot::Sender<(u16, String)>,
}

/// The line, and its end in this process.
#[derive(Debug)]
pub(crate) struct DatabaseThread {
    jobs: Option<Sender<Job>>,
}

impl DatabaseThread {
    /// Opens the line: one thread takes the requests one after the other, as the engine would.
    pub(crate) fn open(db: Database) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (jobs, inbox) = channel();
        let thread = crate::spawn("dynamodb-direct", move || work(&db, &inbox))?;
        Ok((Self { jobs: Some(jobs) }, thread))
    }

    pub(crate) fn http_client(&self) -> SharedHttpClient {
        let connector = SharedHttpConnector::new(Connector {
            jobs: self.jobs.clone(),
        });
        http_client_fn(move |_, _| connector.clone())
    }

    pub(crate) fn close(&mut self) {
        // Clients may still hold senders: the engine is told by an empty operation.
        if let Some(jobs) = self.jobs.take() {
            let (answer, _) = oneshot::channel();
            let end = Job {
                operation: String::new(),
                body: Vec::new(),
                answer,
            };
            let _ = jobs.send(end);
        }
    }
}

fn work(db: &Database, inbox: &Receiver<Job>) {
    while let Ok(job) = inbox.recv() {
        if job.operation.is_empty() {
            return;
        }
        let result = std::str::from_utf8(&job.body)
            .map_err(|e| DynoxideError::SerializationException(e.to_string()))
            .and_then(|body| dispatch(db, &job.operation, body));
        let answer = match result {
            Ok(json) => (200, json),
            Err(e) => (e.status_code(), e.to_json()),
        };
        // The caller may have given up; the write stands all the same.
        let _ = job.answer.send(answer);
    }
}

/// The operations that Triad itself uses; everything else is on the port.
fn dispatch(db: &Database, operation: &str, body: &str) -> Result<String, DynoxideError> {
    match operation {
        "PutItem" => answer(&db.put_item(read(body)?)?),
        "GetItem" => answer(&db.get_item(read(body)?)?),
        "BatchGetItem" => answer(&db.batch_get_item(read(body)?)?),
        "TransactWriteItems" => {
            let mut request: dynoxide::actions::transact_write_items::TransactWriteItemsRequest =
                read(body)?;
            // The SDK makes up a token for each call. The engine would search all tokens of the
            // last ten minutes at every transaction; the conditions make them idempotent anyway.
            request.client_request_token = None;
            answer(&db.transact_write_items(request)?)
        }
        "UpdateItem" => answer(&db.update_item(read(body)?)?),
        "DeleteItem" => answer(&db.delete_item(read(body)?)?),
        "Query" => answer(&db.query(read(body)?)?),
        "Scan" => answer(&db.scan(read(body)?)?),
        "CreateTable" => answer(&db.create_table(read(body)?)?),
        "UpdateTimeToLive" => answer(&db.update_time_to_live(read(body)?)?),
        other => Err(DynoxideError::ValidationException(format!(
            "{other} is not on the direct line: use the port"
        ))),
    }
}

fn read<T: DeserializeOwned>(body: &str) -> Result<T, DynoxideError> {
    serde_json::from_str(body).map_err(|e| DynoxideError::SerializationException(e.to_string()))
}

fn answer<T: Serialize>(value: &T) -> Result<String, DynoxideError> {
    serde_json::to_string(value).map_err(|e| DynoxideError::InternalServerError(e.to_string()))
}

#[derive(Debug)]
struct Connector {
    jobs: Option<Sender<Job>>,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let operation = request
            .headers()
            .get("x-amz-target")
            .and_then(|t| t.rsplit('.').next())
            .unwrap_or("unknown")
            .to_owned();
        let body = request.body().bytes().unwrap_or_default().to_vec();
        let (answer, answered) = oneshot::channel();
        let sent = self.jobs.as_ref().is_some_and(|jobs| {
            let job = Job {
                operation,
                body,
                answer,
            };
            jobs.send(job).is_ok()
        });
        HttpConnectorFuture::new(async move {
            let gone = || ConnectorError::io("the embedded engine has stopped".into());
            if !sent {
                return Err(gone());
            }
            let (status, json) = answered.await.map_err(|_| gone())?;
            let status =
                StatusCode::try_from(status).map_err(|e| ConnectorError::other(e.into(), None))?;
            let mut response = HttpResponse::new(status, SdkBody::from(json));
            response
                .headers_mut()
                .insert("content-type", "application/x-amz-json-1.0");
            Ok(response)
        })
    }
}
