//! Reproducible random numbers for simulations and bootstraps.

/// A stream of random numbers that depends on the seed only (xoshiro256++, seeded by `SplitMix64`).
#[derive(Debug, Clone)]
pub struct Draws {
    state: [u64; 4],
    /// The second number of a pair of normal ones.
    spare: Option<f64>,
}

impl Draws {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let state = [(); 4].map(|()| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        });
        Self { state, spare: None }
    }

    fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number between 0 and 1, both exclusive.
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// An index below `count`; 0 if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        // The bias of this reduction is below count / 2⁶⁴.
        let product = u128::from(self.bits()) * count as u128;
        usize::try_from(product >> 64).unwrap_or(0)
    }

    /// A number from the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }
}

#[cfg(test)]
mod tests {
    use super::Draws;

    /// First outputs of the reference implementation (Blackman and Vigna) for the state {1, 2, 3, 4}.
    #[test]
    fn bits_are_xoshiros() {
        let mut draws = Draws { state: [1, 2, 3, 4], spare: None };
        let expected = [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386];
        assert_eq!([(); 4].map(|()| draws.bits()), expected);
    }

    #[test]
    fn moments_are_those_of_the_distribution() {
        let mut draws = Draws::new(1);
        let numbers: Vec<f64> = (0..100_000).map(|_| draws.normal()).collect();
        let moment = |power| numbers.iter().map(|x| x.powi(power)).sum::<f64>() / numbers.len() as f64;
        // Four standard errors: the variances of x, x² and x⁴ are 1, 2 and 96.
        let near = |ours: f64, exact: f64, variance: f64| (ours - exact).abs() < 4.0 * (variance / 1e5_f64).sqrt();
        assert!(near(moment(1), 0.0, 1.0) && near(moment(2), 1.0, 2.0) && near(moment(4), 3.0, 96.0));
        let mut counts = [0_usize; 7];
        for _ in 0..70_000 {
            counts[draws.below(7)] += 1;
        }
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 400), "{counts:?}");
        assert_eq!(draws.below(0), 0);
    }
}
