//! The kill drill at any size, against a release build of the broker's program:
//! `cargo build -p triad-broker --release && cargo run -p triad-broker --release --example kill_drill -- --messages 1000000 --kills 30`

#[path = "../tests/broker/client.rs"]
#[expect(dead_code, reason = "shared with the contract suite")]
mod client;
#[path = "../tests/broker/drill.rs"]
mod drill;
#[path = "../tests/broker/process.rs"]
#[expect(dead_code, reason = "shared with the benchmark")]
mod process;

use clap::Parser;

/// Kills a broker repeatedly under load and checks that no message is lost, duplicated or reordered.
#[derive(Debug, Parser)]
struct Args {
    #[arg(long, default_value_t = 1_000_000)]
    messages: usize,
    #[arg(long, default_value_t = 30)]
    kills: usize,
    #[arg(long, default_value_t = 3)]
    partitions: i32,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let dir = tempfile::tempdir()?;
    let example = std::env::current_exe()?;
    let target = example.parent().and_then(|d| d.parent());
    let program = target
        .map(|d| d.join("triad-broker"))
        .filter(|p| p.exists());
    let outcome = drill::run(&drill::Drill {
        program: program.ok_or_else(|| anyhow::anyhow!("build the broker's program first"))?,
        data: dir.path().into(),
        messages: args.messages,
        kills: args.kills,
        partitions: args.partitions,
    });
    println!("{} messages, {outcome}", args.messages);
    Ok(())
}
