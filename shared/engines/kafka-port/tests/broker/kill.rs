//! The kill drill with few messages. At full size: `cargo run -p triad-broker --release --example kill_drill --
//! --messages 1000000 --kills 30`.

use crate::drill::{Drill, run};

#[test]
fn nothing_is_lost_doubled_or_reordered_when_the_broker_is_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let outcome = run(&Drill {
        program: env!("CARGO_BIN_EXE_triad-broker").into(),
        data: dir.path().into(),
        messages: 60_000,
        kills: 5,
        partitions: 3,
    });
    println!("{outcome}");
}
