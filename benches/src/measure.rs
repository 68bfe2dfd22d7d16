//! Times of batches, taken alternately.

use std::time::{Duration, Instant};

/// Nanoseconds for one operation, of many batches.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The fastest batch.
    pub min: f64,
    /// The batch in the middle.
    pub median: f64,
    /// The batch that a tenth are slower than.
    pub p90: f64,
    /// The slowest batch.
    pub max: f64,
}

impl Figure {
    /// Of an amount, which is not measured again and again.
    pub fn exactly(amount: f64) -> Self {
        Self {
            min: amount,
            median: amount,
            p90: amount,
            max: amount,
        }
    }

    /// Of the times of some batches.
    pub fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self {
            min: times[0],
            median: times[times.len() / 2],
            p90: times[times.len() * 9 / 10],
            max: times[times.len() - 1],
        }
    }

    /// Without a part that is the same in each batch.
    pub fn less(self, part: f64) -> Self {
        Self {
            min: self.min - part,
            median: self.median - part,
            p90: self.p90 - part,
            max: self.max - part,
        }
    }
}

/// How often something is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How many batches.
    pub batches: usize,
    /// How many operations there are in a batch.
    pub operations: usize,
}

/// The time that some work takes.
pub fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Measures several ways of doing the same in turn, batch by batch. Each way does a batch and
/// returns the time that counts. The first tenth of the batches warms caches and branch predictors
/// and is left out; the order changes from round to round, so that no way always runs behind the
/// same other.
pub fn interleave<const N: usize>(effort: Effort, ways: [&mut dyn FnMut() -> Duration; N]) -> [Figure; N] {
    let mut ways = ways.map(|way| move || way().as_nanos() as f64 / effort.operations as f64);
    let mut figures = turns(
        effort.batches,
        &mut ways.each_mut().map(|way| way as &mut dyn FnMut() -> f64),
    )
    .into_iter();
    std::array::from_fn(|_| figures.next().unwrap())
}

/// The same for any number of ways, which return nanoseconds for one operation.
pub fn turns(batches: usize, ways: &mut [&mut dyn FnMut() -> f64]) -> Vec<Figure> {
    let warm_up = batches.div_ceil(10);
    let mut times: Vec<Vec<f64>> = ways.iter().map(|_| Vec::with_capacity(batches)).collect();
    for round in 0..warm_up + batches {
        for turn in 0..ways.len() {
            let way = (turn + round) % ways.len();
            let took = ways[way]();
            if round >= warm_up {
                times[way].push(took);
            }
        }
    }
    times.into_iter().map(Figure::of).collect()
}
