//! A small deterministic executor with a virtual clock.
//!
//! Tasks are polled in the order of their wake-ups; if none is ready, the clock advances to the next timer. Killing
//! an instance drops its tasks at once.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::{InstanceId, Kernel, OnKernel};

/// A task's future.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The owner of a task. A killed instance loses its tasks; the world itself is never killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    World,
    Instance(InstanceId),
}

type TaskId = u64;
type Ready = Arc<Mutex<VecDeque<TaskId>>>;

struct TaskWaker {
    task: TaskId,
    ready: Ready,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready.contains(&self.task) {
            ready.push_back(self.task);
        }
    }
}

struct Task {
    owner: Owner,
    work: Work,
    waker: Waker,
}

/// The executor of one world.
pub(crate) struct Executor<W> {
    world: W,
    tasks: BTreeMap<TaskId, Task>,
    ready: Ready,
    next: TaskId,
}

impl<W: OnKernel> Executor<W> {
    pub(crate) fn new(world: W) -> Self {
        Self {
            world,
            tasks: BTreeMap::new(),
            ready: Arc::default(),
            next: 0,
        }
    }

    /// Runs until the world reports its end, or no event is left.
    pub(crate) fn run(&mut self) {
        loop {
            self.take_up_spawned();
            let next = lock(&self.ready).pop_front();
            if let Some(task) = next {
                self.poll(task);
                self.bury();
            } else {
                let Some(waker) = self.world.on_kernel(Kernel::advance) else {
                    return;
                };
                waker.wake();
            }
            if self.world.on_kernel(|k| k.over) {
                return;
            }
        }
    }

    fn take_up_spawned(&mut self) {
        for (owner, work) in self.world.on_kernel(Kernel::take_spawned) {
            let id = self.next;
            self.next += 1;
            let waker = Waker::from(Arc::new(TaskWaker {
                task: id,
                ready: self.ready.clone(),
            }));
            self.tasks.insert(id, Task { owner, work, waker });
            lock(&self.ready).push_back(id);
        }
    }

    fn poll(&mut self, id: TaskId) {
        // The task may have ended, or its owner may have been killed, before this wake-up.
        let Some(task) = self.tasks.get_mut(&id) else {
            return;
        };
        let waker = task.waker.clone();
        if let Owner::Instance(who) = task.owner
            && let Some(until) = self.world.on_kernel(|k| k.frozen_until(who))
        {
            self.world.on_kernel(|k| k.wake_at(until, waker));
            return;
        }
        if task.work.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(()) {
            self.tasks.remove(&id);
        }
    }

    fn bury(&mut self) {
        for dead in self.world.on_kernel(Kernel::take_killed) {
            self.tasks.retain(|_, t| t.owner != Owner::Instance(dead));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A future that completes at a time of the virtual clock.
pub(crate) struct Sleep<W> {
    world: W,
    at: u64,
    waker: Option<Waker>,
}

impl<W: OnKernel> Sleep<W> {
    pub(crate) fn new(world: W, at: u64) -> Self {
        Self {
            world,
            at,
            waker: None,
        }
    }
}

impl<W: OnKernel> Future for Sleep<W> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let at = self.at;
        if self.world.on_kernel(|k| k.now) >= at {
            return Poll::Ready(());
        }
        let known = self.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker()));
        if !known {
            let waker = cx.waker().clone();
            self.world.on_kernel(|k| k.wake_at(at, waker));
            self.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}
