//! Every target on its seeds, unchanged and with random changes. The fuzzer tries more.

use rand::SeedableRng;
use rand::rngs::StdRng;
use triad_fuzz::damage::damage;

/// Number of changed inputs for each target.
const DAMAGED: usize = 3_000;

#[test]
fn every_target_stands_its_seeds_and_their_damage() {
    for target in triad_fuzz::all() {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{}", target.name);
        for seed in &seeds {
            (target.run)(seed);
        }
        let mut random = StdRng::seed_from_u64(target.name.len() as u64);
        for n in 0..DAMAGED {
            let mut bytes = seeds[n % seeds.len()].clone();
            damage(&mut bytes, &mut random);
            (target.run)(&bytes);
        }
    }
}
