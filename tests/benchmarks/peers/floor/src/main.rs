//! The three steps written by hand on SQLite: the least work of any durable run.
//!
//! An order is stored and synced before it is accepted, and each step's answer before the next step is called. One
//! thread writes, in groups that share a transaction and a sync. After a start, unfinished orders are resumed. There
//! are no retries, deadlines, compensations or conditions, and no way to inspect orders: the figures are the cost
//! without any of those.

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use common::{STEPS, Service, id_of};
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Limit on the writes in one transaction.
const GROUP: usize = 512;
/// Limit on the writes that wait.
const QUEUE: usize = 4_096;
/// Most unfinished orders that are resumed concurrently after a start.
const AT_ONCE: usize = 64;

/// A hand-written saga, or the floor below it
#[derive(Parser)]
struct Args {
    /// Where its file is, and where the disk is measured
    #[arg(long)]
    data: PathBuf,
    /// The service of the steps
    #[arg(long)]
    service: String,
    /// Where it listens; without it the sync of the disk and the HTTP of the loopback are measured
    #[arg(long)]
    listen: Option<SocketAddr>,
}

/// A write, and the channel that is notified once it is synced.
struct Stored {
    order: String,
    write: Write,
    told: oneshot::Sender<()>,
}

enum Write {
    Accept(Vec<u8>),
    Step(usize, Vec<u8>),
}

#[derive(Clone)]
struct Saga {
    service: Service,
    writes: mpsc::Sender<Stored>,
}

impl Saga {
    async fn store(&self, order: &str, write: Write) -> Result<()> {
        let (told, stored) = oneshot::channel();
        let order = order.to_owned();
        let write = Stored { order, write, told };
        self.writes
            .send(write)
            .await
            .ok()
            .context("nobody writes")?;
        Ok(stored.await?)
    }

    /// Carries out an order's steps from step number `from` on.
    async fn go_on(&self, order: &Value, from: usize) -> Result<()> {
        for (number, step) in STEPS.iter().enumerate().skip(from) {
            let answer = self.service.call(step, order).await?;
            let write = Write::Step(number, serde_json::to_vec(&answer)?);
            self.store(id_of(order)?, write).await?;
        }
        Ok(())
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let args = Args::parse();
    let service = Service::at(&args.service)?;
    let Some(listen) = args.listen else {
        println!("{}", below(&args.data, &service).await?);
        return Ok(());
    };
    let db = open(&args.data)?;
    let alive = alive(&db)?;
    let (writes, stored) = mpsc::channel(QUEUE);
    std::thread::spawn(move || write_all(db, stored));
    let saga = Saga { service, writes };
    tokio::spawn(recover(saga.clone(), alive));
    common::serve(listen, move |order: Value, waits| {
        let saga = saga.clone();
        async move {
            let accept = Write::Accept(serde_json::to_vec(&order)?);
            saga.store(id_of(&order)?, accept).await?;
            if waits {
                return saga.go_on(&order, 0).await;
            }
            tokio::spawn(async move { saga.go_on(&order, 0).await });
            Ok(())
        }
    })
    .await
}

fn open(dir: &Path) -> Result<Connection> {
    let db = Connection::open(dir.join("saga.sqlite"))?;
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;
        CREATE TABLE IF NOT EXISTS orders (
            id TEXT PRIMARY KEY, done INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS steps (
            id TEXT NOT NULL, step INTEGER NOT NULL, answer BLOB NOT NULL,
            PRIMARY KEY (id, step)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS alive ON orders (done) WHERE done < 3;",
    )?;
    Ok(db)
}

/// The unfinished orders, each with the number of its completed steps.
fn alive(db: &Connection) -> Result<Vec<(Value, usize)>> {
    let mut rows = db.prepare("SELECT body, done FROM orders WHERE done < 3")?;
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut all = Vec::new();
    for row in rows {
        let (body, done): (Vec<u8>, usize) = row?;
        all.push((serde_json::from_slice(&body)?, done));
    }
    Ok(all)
}

async fn recover(saga: Saga, alive: Vec<(Value, usize)>) {
    let mut running = JoinSet::new();
    for (order, done) in alive {
        if running.len() >= AT_ONCE {
            running.join_next().await;
        }
        let saga = saga.clone();
        running.spawn(async move { saga.go_on(&order, done).await });
    }
    while running.join_next().await.is_some() {}
}

fn write_all(mut db: Connection, mut writes: mpsc::Receiver<Stored>) {
    let mut group = Vec::with_capacity(GROUP);
    while writes.blocking_recv_many(&mut group, GROUP) > 0 {
        if let Err(error) = write(&mut db, &group) {
            eprintln!("a group of writes failed: {error}");
            group.clear();
        }
        for stored in group.drain(..) {
            let _ = stored.told.send(());
        }
    }
}

fn write(db: &mut Connection, group: &[Stored]) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    {
        let mut accept = transaction
            .prepare_cached("INSERT OR IGNORE INTO orders (id, done, body) VALUES (?1, 0, ?2)")?;
        let mut step = transaction.prepare_cached(
            "INSERT OR REPLACE INTO steps (id, step, answer) VALUES (?1, ?2, ?3)",
        )?;
        let mut done = transaction.prepare_cached("UPDATE orders SET done = ?2 WHERE id = ?1")?;
        for Stored { order, write, .. } in group {
            match write {
                Write::Accept(body) => accept.execute(params![order, body])?,
                Write::Step(number, answer) => {
                    step.execute(params![order, number, answer])?;
                    done.execute(params![order, number + 1])?
                }
            };
        }
    }
    transaction.commit()
}

/// The limits of the machine: syncs per second of the disk, and HTTP calls per second over the loopback.
async fn below(dir: &Path, service: &Service) -> Result<Value> {
    let mut file = File::create(dir.join("sync"))?;
    file.write_all(&[0; 1 << 20])?;
    file.sync_all()?;
    let (began, mut syncs) = (Instant::now(), 0_u64);
    while began.elapsed() < Duration::from_secs(3) {
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 4_096], syncs % 256 * 4_096)?;
        file.sync_data()?;
        syncs += 1;
    }
    let syncs = syncs as f64 / began.elapsed().as_secs_f64();
    let (began, mut calls) = (Instant::now(), JoinSet::new());
    let before = processor_time()?;
    for client in 0..64 {
        let service = service.clone();
        calls.spawn(async move {
            let mut calls = 0_u64;
            while began.elapsed() < Duration::from_secs(3) {
                let id = format!("floor-{client}-{calls}");
                let order = json!({"order_id": id, "details": {"note": "x".repeat(400)}});
                service.call("reserve", &order).await?;
                calls += 1;
            }
            anyhow::Ok(calls)
        });
    }
    let mut all = 0;
    while let Some(client) = calls.join_next().await {
        all += client??;
    }
    let seconds = began.elapsed().as_secs_f64();
    let used = processor_time()? - before;
    let one = Instant::now();
    for number in 0..200 {
        let order =
            json!({"order_id": format!("alone-{number}"), "details": {"note": "x".repeat(400)}});
        service.call("reserve", &order).await?;
    }
    Ok(json!({
        "syncs_per_second": syncs,
        "calls_per_second": all as f64 / seconds,
        "client_cpu_ms_per_thousand_calls": used * 1e6 / all as f64,
        "one_call_alone_ms": one.elapsed().as_secs_f64() * 1_000.0 / 200.0,
    }))
}

/// CPU seconds that this process has used.
fn processor_time() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().context("no fields")?;
    let ticks: Vec<f64> = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    // Linux counts in hundredths of a second.
    Ok(ticks.iter().sum::<f64>() / 100.0)
}
