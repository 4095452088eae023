//! A small generator of even numbers, the same for the same seed on every machine.

use triad_workflow::Millis;

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
pub struct Chance(u64);

impl Chance {
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From zero to below the bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn up_to(&mut self, span: Millis) -> Millis {
        Millis(self.next() % (span.0 + 1))
    }

    pub fn of_these<T: Clone>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())].clone()
    }

    /// One of the choices, each as often as its weight says.
    pub fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut at = self.below(choices.iter().map(|(w, _)| w).sum());
        for (weight, choice) in choices {
            if at < *weight {
                return *choice;
            }
            at -= weight;
        }
        unreachable!("the weights add up")
    }
}
