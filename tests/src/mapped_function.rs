//! A function under a Runtime API, invoked by the mapping emulator's pollers; and the records that they gave up.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use triad_mapping_emulator::{GivenUp, Invoke, Invoked, Keep};

use crate::runtime_api::{Answer, Function, InvokeError, RuntimeApi};

/// One execution environment. As on Lambda, a process that has ended is replaced by a new one.
pub struct Environment {
    api: RuntimeApi,
    binary: PathBuf,
    within: Duration,
    function: Mutex<Option<Function>>,
    events: Mutex<Vec<String>>,
}

impl Environment {
    /// An environment of a function binary, with a limit of an invocation's time.
    pub fn new(binary: &Path, within: Duration) -> Self {
        Self {
            api: RuntimeApi::start(),
            binary: binary.to_owned(),
            within,
            function: Mutex::default(),
            events: Mutex::default(),
        }
    }

    /// The events of its invocations.
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

/// A failure destination in memory.
#[derive(Default)]
pub struct Kept(Mutex<Vec<GivenUp>>);

impl Kept {
    /// Its content.
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
