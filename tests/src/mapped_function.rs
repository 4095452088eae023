//! A function under a Runtime API that the mapping emulator's pollers invoke, and a destination for records that they
//! give up.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use triad_mapping_emulator::{GivenUp, Invoke, Invoked, Keep};

use crate::runtime_api::{Answer, Function, InvokeError, RuntimeApi};

/// One execution environment. As on Lambda, an ended process is replaced by a new one.
pub struct Environment {
    api: RuntimeApi,
    binary: PathBuf,
    within: Duration,
    function: Mutex<Option<Function>>,
    events: Mutex<Vec<String>>,
}

impl Environment {
    /// An environment for a function binary; `within` is the time limit of an invocation.
    pub fn new(binary: &Path, within: Duration) -> Self {
        Self {
            api: RuntimeApi::start(),
            binary: binary.to_owned(),
            within,
            function: Mutex::default(),
            events: Mutex::default(),
        }
    }

    /// The events with which the function was invoked.
    pub fn events(&self) -> Vec<String> {
        lock(&self.events).clone()
    }
}

impl Invoke for Environment {
    async fn invoke(&self, event: String) -> Invoked {
        lock(&self.events).push(event.clone());
        let started = lock(&self.function).is_some();
        if !started {
            match self.api.spawn(&self.binary, []) {
                Ok(function) => *lock(&self.function) = Some(function),
                Err(e) => return Invoked::Later(e.to_string()),
            }
        }
        match self.api.invoke(event, self.within).await {
            Ok(Answer::Response(body)) => Invoked::Answer(body.to_vec()),
            Ok(Answer::FunctionError { message, .. }) => Invoked::Failed(message),
            Err(InvokeError::TooLarge) => Invoked::TooLarge,
            Err(e) => {
                *lock(&self.function) = None;
                Invoked::Failed(e.to_string())
            }
        }
    }
}

/// A destination in memory for records that were given up.
#[derive(Default)]
pub struct Kept(Mutex<Vec<GivenUp>>);

impl Kept {
    /// The records stored so far.
    pub fn all(&self) -> Vec<GivenUp> {
        lock(&self.0).clone()
    }
}

impl Keep for Kept {
    async fn keep(&self, given_up: &GivenUp) -> anyhow::Result<()> {
        lock(&self.0).push(given_up.clone());
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
