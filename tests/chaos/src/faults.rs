//! Carries out the faults, each after a number of orders have ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::child_process::ChildProcess;
use super::installation::Installation;
use super::progress_lines::print_progress;
use super::schedule::{Fault, Kind};

/// The number of faults carried out, by kind.
pub type FaultCounts = BTreeMap<Kind, u32>;

/// Carries out all faults, or stops early when `ended` closes. `ended` holds the number of ended orders.
///
/// # Errors
/// For the first process that ends unexpectedly or does not restart.
pub async fn carry_out(
    plan: Vec<Fault>,
    installation: Arc<Installation>,
    mut ended: watch::Receiver<usize>,
) -> Result<FaultCounts> {
    let mut counts: FaultCounts = plan.iter().map(|fault| (fault.kind, 0)).collect();
    let mut under_way: JoinSet<Result<Kind>> = JoinSet::new();
    for fault in plan {
        if ended.wait_for(|ended| *ended >= fault.after).await.is_err() {
            // The run has stopped counting ended orders, so no further fault comes.
            break;
        }
        let installation = installation.clone();
        under_way.spawn(async move {
            let (kind, after) = (fault.kind, fault.after);
            print_progress(&format!(
                "{after:>6} orders ended: {} for {:?}",
                kind.name(),
                fault.span
            ));
            carry_out_one(&fault, &installation).await.map(|()| kind)
        });
        while let Some(done) = under_way.try_join_next() {
            *counts.entry(done??).or_default() += 1;
        }
    }
    while let Some(done) = under_way.join_next().await {
        *counts.entry(done??).or_default() += 1;
    }
    Ok(counts)
}

async fn carry_out_one(fault: &Fault, installation: &Installation) -> Result<()> {
    match fault.kind {
        Kind::KillWorker => {
            let mut worker = installation.workers[fault.worker].lock().await;
            away(&mut worker, fault).await
        }
        Kind::KillBroker => away(&mut *installation.broker.lock().await, fault).await,
        Kind::KillStore => away(&mut *installation.store.lock().await, fault).await,
        Kind::KillService => {
            let mut service = installation.service.lock().await;
            away(&mut service, fault).await?;
            // Set again while the lock is held, because the next fault may kill the service once more.
            installation.apply_faults().await
        }
        Kind::HangStore => {
            let store = installation.store.lock().await;
            store.freeze()?;
            let hangs = async {
                sleep(fault.span).await;
                store.thaw()
            };
            tokio::try_join!(hangs, roll(installation)).map(|_| ())
        }
        Kind::FreezeWorker => {
            let worker = installation.workers[fault.worker].lock().await;
            worker.freeze()?;
            sleep(fault.span).await;
            worker.thaw()
        }
    }
}

/// Restarts every worker in order, one after the other.
async fn roll(installation: &Installation) -> Result<()> {
    for worker in &installation.workers {
        let mut worker = worker.lock().await;
        worker.terminate().await?;
        worker.restart().await?;
    }
    Ok(())
}

/// Kills a process and restarts it after `fault.span`.
async fn away(part: &mut ChildProcess, fault: &Fault) -> Result<()> {
    part.kill().await?;
    sleep(fault.span).await;
    part.restart().await
}
