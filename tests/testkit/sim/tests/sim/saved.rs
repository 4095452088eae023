//! Worlds that were saved because they reach something rare. Their random choices are in files, so that they stay the
//! same when the generator changes.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use triad_sim::coverage::WANTED;
use triad_sim::{Options, Saved, of_seed, replay, run};

fn traced() -> Options {
    Options {
        trace: true,
        ..Options::default()
    }
}

/// The saved worlds, each with the name of its file.
fn kept() -> Vec<(String, Saved)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/saved");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let read = |file: std::fs::DirEntry| {
        let text = std::fs::read_to_string(file.path()).expect("it can be read");
        let name = file
            .path()
            .file_stem()
            .and_then(|s| s.to_str())
            .map(str::to_owned);
        let saved = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name:?}: {e}"));
        (name.expect("a name in text"), saved)
    };
    files
        .map(|file| read(file.expect("it can be read")))
        .collect()
}

/// The file name of a world, made from what the world must reach.
fn named(sees: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = sees.chars().map(letter).collect();
    name.split('-')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

#[test]
fn every_kept_world_keeps_every_guarantee_and_reaches_what_its_name_says() {
    let kept = kept();
    assert!(kept.len() >= 8, "they are found: {}", kept.len());
    let mut reached = BTreeSet::new();
    for (name, saved) in kept {
        let outcome = replay(&saved, traced()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(outcome.breaches.is_empty(), "{name}\n{}", outcome.report());
        let [sees] = &saved.sees[..] else {
            panic!("{name} is kept for one thing, by which it is called");
        };
        assert_eq!(name, named(sees));
        assert!(
            WANTED.contains(&sees.as_str()),
            "{sees} is on the list of what is counted"
        );
        assert!(
            outcome.coverage.count(sees) > 0,
            "{name} does not reach that any more: keep another one for it (`triad-sim one SEED --save FILE \
             --sees NAME`)"
        );
        assert!(reached.insert(sees.clone()), "{sees} is kept twice");
    }
}

#[test]
fn a_kept_world_is_the_world_of_its_seed_event_by_event() {
    for seed in [3, 17, 242, 251] {
        let saved = of_seed(seed).expect("a drawn world");
        let text = serde_json::to_string(&saved).expect("JSON");
        let read: Saved = serde_json::from_str(&text).expect("it can be read");
        let again = replay(&read, traced()).expect("it can be replayed");
        assert_eq!(again.report(), run(seed, traced()).report(), "seed {seed}");
        assert!(again.trace.len() > 50, "seed {seed}");
    }
}

#[test]
fn a_fault_that_a_kept_world_does_not_name_does_not_happen_in_it() {
    let seed = (0..).find(|seed| {
        run(*seed, Options::default())
            .coverage
            .count("fault: killed")
            > 0
    });
    let saved = of_seed(seed.expect("one of them")).expect("a drawn world");
    let mut json = serde_json::to_value(&saved).expect("JSON");
    let faults = json.get_mut("faults").and_then(Value::as_object_mut);
    let level = faults.expect("faults").remove("kill");
    assert!(level.and_then(|level| level.as_u64()) > Some(0));
    // Like a file that was saved before this kind of fault existed.
    let earlier: Saved = serde_json::from_value(json).expect("it can be read");
    let outcome = replay(&earlier, traced()).expect("it can be replayed");
    assert!(outcome.breaches.is_empty(), "{}", outcome.report());
    assert_eq!(outcome.coverage.count("fault: killed"), 0);
}
