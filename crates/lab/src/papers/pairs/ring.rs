//! Collective operations of ranks in a ring: each rank sends to its right neighbor the data that it got from its left one.
//!
//! All ranks call the same operations in the same order. A number crosses a pipe in little-endian bytes, in pieces that
//! an empty pipe takes whole: a rank writes a piece, then reads one, so that no two ranks wait for each other.

use std::{
    io::{self, Read, Write},
    time::{Duration, Instant},
};

/// Number of elements of a piece: 32 KiB, half of a pipe's capacity.
const PIECE: usize = 8192;
/// Bytes of a number.
const WIDTH: usize = size_of::<f32>();

/// The place of a rank in the ring.
pub(super) struct Ring {
    /// Its number, from 0.
    pub(super) rank: usize,
    /// All ranks.
    pub(super) ranks: usize,
    left: Box<dyn Read>,
    right: Box<dyn Write>,
    /// Bytes sent so far.
    pub(super) sent: u64,
    /// Time in collective operations so far.
    pub(super) spent: Duration,
}

impl Ring {
    pub(super) fn new(rank: usize, ranks: usize, left: Box<dyn Read>, right: Box<dyn Write>) -> Self {
        Self { rank, ranks, left, right, sent: 0, spent: Duration::ZERO }
    }

    /// The shards of all ranks, in their order. All have the same length.
    pub(super) fn all_gather(&mut self, shard: &[f32]) -> io::Result<Vec<f32>> {
        let start = Instant::now();
        let (count, ranks, rank) = (shard.len(), self.ranks, self.rank);
        let mut numbers = vec![0.0; count * ranks];
        numbers[rank * count..(rank + 1) * count].copy_from_slice(shard);
        let mut message = shard.to_vec();
        for step in 1..ranks {
            self.exchange(&mut message)?;
            let sender = (rank + ranks - step) % ranks;
            numbers[sender * count..(sender + 1) * count].copy_from_slice(&message);
        }
        self.spent += start.elapsed();
        Ok(numbers)
    }

    /// This rank's part of the sum of all ranks' numbers. Their count is a multiple of the number of ranks.
    pub(super) fn reduce_scatter(&mut self, numbers: &[f32]) -> io::Result<Vec<f32>> {
        let start = Instant::now();
        let (ranks, rank) = (self.ranks, self.rank);
        let count = numbers.len() / ranks;
        let part = |part: usize| &numbers[part * count..(part + 1) * count];
        // The part of rank r begins its way to r with the rank on r's right.
        let mut sums = part((rank + ranks - 1) % ranks).to_vec();
        for step in 2..=ranks {
            self.exchange(&mut sums)?;
            let index = (rank + 2 * ranks - step) % ranks;
            for (sum, number) in sums.iter_mut().zip(part(index)) {
                *sum += number;
            }
        }
        self.spent += start.elapsed();
        Ok(sums)
    }

    /// The numbers of all ranks, in their order.
    pub(super) fn all(&mut self, pair: [u64; 2]) -> io::Result<Vec<[u64; 2]>> {
        let mut pairs = vec![pair; self.ranks];
        let mut message = pair;
        for step in 1..self.ranks {
            for number in &mut message {
                self.right.write_all(&number.to_le_bytes())?;
            }
            self.right.flush()?;
            for number in &mut message {
                let mut bytes = [0; 8];
                self.left.read_exact(&mut bytes)?;
                *number = u64::from_le_bytes(bytes);
            }
            pairs[(self.rank + self.ranks - step) % self.ranks] = message;
        }
        Ok(pairs)
    }

    /// Sends `numbers` to the right, and replaces them by those from the left.
    fn exchange(&mut self, numbers: &mut [f32]) -> io::Result<()> {
        let mut bytes = vec![0; PIECE.min(numbers.len()) * WIDTH];
        for piece in numbers.chunks_mut(PIECE) {
            let bytes = &mut bytes[..piece.len() * WIDTH];
            for (bytes, number) in bytes.as_chunks_mut::<WIDTH>().0.iter_mut().zip(&*piece) {
                *bytes = number.to_le_bytes();
            }
            self.right.write_all(bytes)?;
            self.right.flush()?;
            self.left.read_exact(bytes)?;
            for (bytes, number) in bytes.as_chunks::<WIDTH>().0.iter().zip(piece) {
                *number = f32::from_le_bytes(*bytes);
            }
        }
        self.sent += (numbers.len() * WIDTH) as u64;
        Ok(())
    }

    /// Sends `word` to all other ranks. Only the first rank calls it.
    pub(super) fn tell(&mut self, word: u8) -> io::Result<()> {
        if self.ranks > 1 {
            self.right.write_all(&[word])?;
            self.right.flush()?;
        }
        Ok(())
    }

    /// The word of the first rank; `None` if it is gone.
    pub(super) fn hear(&mut self) -> io::Result<Option<u8>> {
        let mut word = [0];
        if self.left.read(&mut word)? == 0 {
            return Ok(None);
        }
        if self.rank + 1 < self.ranks {
            self.right.write_all(&word)?;
            self.right.flush()?;
        }
        Ok(Some(word[0]))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Results of all ranks of a ring of threads.
    fn ring<T: Send + 'static>(
        ranks: usize,
        work: impl Fn(&mut Ring) -> io::Result<T> + Clone + Send + 'static,
    ) -> Vec<T> {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for _ in 0..ranks {
            let (read, write) = io::pipe().unwrap();
            reads.push(read);
            writes.push(write);
        }
        // Each rank reads from the pipe of its left neighbor.
        reads.rotate_right(1);
        let threads: Vec<_> = reads
            .into_iter()
            .zip(writes)
            .enumerate()
            .map(|(rank, (read, write))| {
                let work = work.clone();
                thread::spawn(move || work(&mut Ring::new(rank, ranks, Box::new(read), Box::new(write))).unwrap())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    fn number(rank: usize, index: usize) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let number = (rank * 1_000_000 + index) as f32;
        number
    }

    #[test]
    fn shards_are_gathered_and_sums_scattered() {
        // More numbers than pipes hold, and not a multiple of a piece.
        for (ranks, count) in [(1, 3), (2, 5), (3, 50_001), (5, 8192)] {
            let results = ring(ranks, move |ring| {
                let shard: Vec<f32> = (0..count).map(|index| number(ring.rank, index)).collect();
                let numbers = ring.all_gather(&shard)?;
                Ok((numbers, ring.sent))
            });
            let expected: Vec<f32> =
                (0..ranks).flat_map(|rank| (0..count).map(move |index| number(rank, index))).collect();
            for (numbers, sent_bytes) in results {
                assert_eq!(numbers, expected);
                assert_eq!(sent_bytes, (4 * (ranks - 1) * count) as u64, "a ring sends no more than that");
            }
            let parts = ring(ranks, move |ring| {
                let numbers: Vec<f32> = (0..count * ring.ranks).map(|index| number(ring.rank, index % 977)).collect();
                ring.reduce_scatter(&numbers)
            });
            for (rank, part) in parts.into_iter().enumerate() {
                let sum = |index: usize| (0..ranks).map(|rank| number(rank, index % 977)).sum::<f32>();
                let expected: Vec<f32> = (rank * count..(rank + 1) * count).map(sum).collect();
                assert_eq!(part, expected);
            }
        }
    }

    #[test]
    fn all_hear_and_know_all() {
        let results = ring(4, |ring| {
            let word = if ring.rank == 0 {
                ring.tell(7)?;
                Some(7)
            } else {
                ring.hear()?
            };
            Ok((word, ring.all([ring.rank as u64, 9])?))
        });
        for (word, pairs) in results {
            assert_eq!((word, pairs), (Some(7), (0..4).map(|rank| [rank, 9]).collect()));
        }
    }

    #[test]
    fn a_rank_that_is_gone_ends_all_others() {
        let outcomes = ring(3, |ring| {
            // The second rank leaves at once; no other rank may wait for it forever.
            let shard = vec![0.0; 100_000];
            Ok(ring.rank == 1 || ring.all_gather(&shard).is_err())
        });
        assert_eq!(outcomes, [true; 3]);
    }
}
