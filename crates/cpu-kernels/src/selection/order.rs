//! The order of scores as integers, and the smallest of them.

/// A number that orders scores as `<` does: -inf is the smallest, inf the largest. The score must be neither -0 nor NaN.
#[inline(always)]
pub(super) fn rank(score: f32) -> u32 {
    let bits = score.to_bits();
    // All bits of a negative number turn over, and the sign of a positive one.
    bits ^ (((bits.cast_signed() >> 31).cast_unsigned()) | 0x8000_0000)
}

/// The score with this [`rank`].
pub(super) fn score(rank: u32) -> f32 {
    let mask = if rank & 0x8000_0000 == 0 { u32::MAX } else { 0x8000_0000 };
    f32::from_bits(rank ^ mask)
}

/// Ranks are counted in this many bins at a time.
pub(super) const BINS: usize = 4096;

/// Number of ranks in every bin.
pub(super) type Counts = Box<[u64]>;

pub(super) fn no_counts() -> Counts {
    vec![0; BINS].into_boxed_slice()
}

/// Bins of equal width over an interval of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bins {
    /// The first rank.
    low: u32,
    /// Ranks behind the first that still belong to it.
    span: u32,
    /// Bins are `2^shift` wide.
    shift: u32,
}

impl Bins {
    /// From `low` to `high`, both included.
    pub(super) fn new(low: u32, high: u32) -> Self {
        let span = high - low;
        let bits = u32::BITS - span.leading_zeros();
        Self { low, span, shift: bits.saturating_sub(BINS.trailing_zeros()) }
    }

    /// Counts `rank`, if it is in the interval.
    #[inline(always)]
    pub(super) fn count(self, rank: u32, counts: &mut [u64]) {
        let offset = rank.wrapping_sub(self.low);
        if offset <= self.span {
            counts[(offset >> self.shift) as usize % BINS] += 1;
        }
    }

    /// The bin with the `k`-th smallest rank, `k` being at least 1 and at most the sum of `counts`: either its only rank,
    /// or its bins and which of its ranks that is.
    pub(super) fn narrow(self, counts: &[u64], mut k: u64) -> Result<u32, (Self, u64)> {
        let mut bin = 0;
        while k > counts[bin] && bin + 1 < counts.len() {
            k -= counts[bin];
            bin += 1;
        }
        #[expect(clippy::cast_possible_truncation, reason = "there are 4096 bins")]
        let low = self.low + ((bin as u32) << self.shift);
        if self.shift == 0 {
            return Ok(low);
        }
        let high = low.saturating_add((1 << self.shift) - 1).min(self.low + self.span);
        Err((Self::new(low, high), k))
    }
}
