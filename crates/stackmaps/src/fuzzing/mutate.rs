//! Inputs made from seeds, without a fuzzer.

use std::{eprintln, string::String, vec::Vec};

use super::random::Random;

/// No input gets longer than this, so that executions stay short.
const LONGEST: usize = 1 << 16;

/// Values at which length and index checks go wrong.
const INTERESTING: [u64; 12] = [
    0,
    1,
    7,
    8,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// The number of executions that the environment variable `PATCHPOINT_FUZZ_EXECUTIONS` asks for, or
/// `default`.
#[must_use]
pub fn executions(default: u64) -> u64 {
    std::env::var("PATCHPOINT_FUZZ_EXECUTIONS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Runs `body` over each of the seeds and then `executions` times over mutations of them. The
/// random numbers follow from `random_seed` alone. When the body panics, the input is printed in
/// hexadecimal.
pub fn mutate_and_run(seeds: &[Vec<u8>], body: impl Fn(&[u8]), executions: u64, random_seed: u64) {
    for seed in seeds {
        run(&body, seed);
    }
    let mut random = Random::new(random_seed);
    let mut input = Vec::new();
    for _ in 0..executions {
        input.clear();
        input.extend_from_slice(random.pick(seeds).map_or(&[], Vec::as_slice));
        for _ in 0..=random.below(6) {
            mutate(&mut input, seeds, &mut random);
        }
        input.truncate(LONGEST);
        run(&body, &input);
    }
}

fn run(body: impl Fn(&[u8]), input: &[u8]) {
    let _print = PrintOnPanic(input);
    body(input);
}

struct PrintOnPanic<'a>(&'a [u8]);

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.0.iter().map(|byte| std::format!("{byte:02x}")).collect();
            eprintln!("the input was {hex}");
        }
    }
}

/// One mutation, of a kind chosen at random.
fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len());
    let room = input.len() - at;
    match random.below(8) {
        0 | 1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        2 => overwrite(input, at, &random.next().to_le_bytes(), random),
        3 | 4 => {
            let value = random.pick(&INTERESTING).copied().unwrap_or(0);
            overwrite(input, at, &value.to_le_bytes(), random);
        }
        5 => input.truncate(at),
        6 => {
            let len = random.below(room.min(64));
            let piece: Vec<u8> = input.iter().skip(at).take(len).copied().collect();
            let to = random.below(input.len());
            input.splice(to..to, piece);
        }
        _ => {
            let other = random.pick(seeds).map_or(&[][..], Vec::as_slice);
            let tail = other.get(random.below(other.len())..).unwrap_or(&[]);
            input.truncate(at);
            input.extend_from_slice(tail);
        }
    }
}

/// Writes the low 1, 2, 4 or 8 bytes of a value, in either byte order, often at a multiple of their
/// number.
fn overwrite(input: &mut [u8], at: usize, value: &[u8; 8], random: &mut Random) {
    let len = 1 << random.below(4);
    let at = if random.below(4) == 0 { at } else { at / len * len };
    let big_endian = random.below(2) == 0;
    for (index, byte) in input.iter_mut().skip(at).take(len).enumerate() {
        let from = if big_endian { len - 1 - index } else { index };
        *byte = value.get(from).copied().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::{Cell, RefCell};

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_another_gives_others() {
        let inputs = |seed| {
            let seen = RefCell::new(Vec::new());
            let seeds = [std::vec![1; 40], std::vec![2; 9]];
            mutate_and_run(&seeds, |input| seen.borrow_mut().push(input.to_vec()), 100, seed);
            seen.into_inner()
        };
        let first = inputs(3);
        assert_eq!(first.len(), 102);
        assert_eq!(first, inputs(3));
        assert_ne!(first, inputs(5));
        let changed = first.iter().skip(2).filter(|i| **i != first[0]).count();
        assert!(changed > 90, "{changed}");
    }

    #[test]
    fn it_runs_without_seeds_and_with_an_empty_one() {
        let count = Cell::new(0);
        mutate_and_run(&[], |_| count.set(count.get() + 1), 50, 1);
        mutate_and_run(&[Vec::new()], |_| count.set(count.get() + 1), 50, 1);
        assert_eq!(count.get(), 101);
    }
}
