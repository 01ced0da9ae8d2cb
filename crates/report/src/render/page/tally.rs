//! Counts of jobs by state, as words and as a bar.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::format::count;

/// The words for the states of jobs that wait for another attempt or another run.
const HELD: [&str; 4] = ["retrying", "stopped", "skipped", "lost"];

/// Numbers of jobs by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Jobs that should have a result.
    pub all: usize,
    /// Jobs with a result.
    pub done: usize,
    /// Running jobs.
    pub running: usize,
    /// Jobs that have no result and will not get one.
    pub failed: usize,
    /// Jobs that wait for another attempt or another run, by the words of [`HELD`].
    pub(crate) held: [usize; HELD.len()],
    /// Further jobs, which run only if the results require it.
    pub reserve: usize,
    /// Further jobs, which a search has ruled out.
    pub(crate) ruled_out: usize,
}

impl Tally {
    /// Counts a job by the word for its state.
    pub fn add(&mut self, word: &str) {
        match word {
            "reserve" => self.reserve += 1,
            "ruled out" => self.ruled_out += 1,
            _ => self.all += 1,
        }
        match word {
            "done" | "cached" => self.done += 1,
            "running" => self.running += 1,
            "failed" => self.failed += 1,
            _ => {
                if let Some(index) = HELD.iter().position(|held| *held == word) {
                    self.held[index] += 1;
                }
            }
        }
    }

    /// Number of jobs that wait for another attempt or another run.
    fn held(self) -> usize {
        self.held.iter().sum()
    }

    /// The CSS class for the most severe state of the jobs.
    pub fn class(self) -> &'static str {
        match self {
            Self { failed: 1.., .. } => "failed",
            Self { running: 1.., .. } => "running",
            _ if self.held() > 0 => "held",
            Self { all, done, .. } if all == done => "done",
            _ => "open",
        }
    }

    /// The sign for this state, for color-blind people.
    pub fn mark(self) -> &'static str {
        match self.class() {
            "failed" => "✗",
            "running" => "▸",
            "held" => "!",
            "done" => "✓",
            _ => "·",
        }
    }

    /// `3 of 8 jobs done, 1 running, 1 failed`.
    pub fn words(self) -> String {
        let mut text = format!("{} of {} done", self.done, count(self.all, "job"));
        let begun = [(self.running, "running"), (self.failed, "failed")];
        let beside = [(self.reserve, "in reserve"), (self.ruled_out, "ruled out")];
        for (number, word) in begun.into_iter().chain(self.held.into_iter().zip(HELD)).chain(beside) {
            if number > 0 {
                let _ = write!(text, ", {number} {word}");
            }
        }
        text
    }

    /// A bar of this width: every part's class, beginning and end.
    pub fn parts(self, width: usize) -> Vec<(&'static str, usize, usize)> {
        let counted = self.done + self.running + self.failed + self.held();
        let parts = [
            ("fill-done", self.done),
            ("fill-running", self.running),
            ("fill-failed", self.failed),
            ("fill-held", self.held()),
            ("fill-open", self.all.saturating_sub(counted)),
        ];
        let mut number_before = 0;
        let mut bar = Vec::new();
        for (class, number) in parts {
            let (from, to) =
                (number_before * width / self.all.max(1), (number_before + number) * width / self.all.max(1));
            if to > from {
                bar.push((class, from, to));
            }
            number_before += number;
        }
        bar
    }

    /// The bar, as wide as its place.
    pub fn bar(self) -> Markup {
        html! {
            svg .bar viewBox="0 0 1000 8" preserveAspectRatio="none" role="img" aria-label=(self.words()) {
                @for (class, from, to) in self.parts(1000) {
                    rect class=(class) x=(from) y="0" width=(to - from) height="8" {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_as_long_as_it_should_be_and_the_worst_state_counts() {
        let mut tally = Tally::default();
        assert_eq!((tally.class(), tally.parts(100)), ("done", vec![]));
        for word in ["done", "cached", "waiting", "open"] {
            tally.add(word);
        }
        assert_eq!(tally.parts(100), [("fill-done", 0, 50), ("fill-open", 50, 100)]);
        assert_eq!((tally.class(), tally.words().as_str()), ("open", "2 of 4 jobs done"));
        tally.add("running");
        tally.add("lost");
        assert_eq!(tally.class(), "running");
        tally.add("failed");
        assert_eq!((tally.class(), tally.mark()), ("failed", "✗"));
        assert_eq!(tally.words(), "2 of 7 jobs done, 1 running, 1 failed, 1 lost");
        tally.add("stopped");
        assert_eq!(tally.words(), "2 of 8 jobs done, 1 running, 1 failed, 1 stopped, 1 lost");
        assert_eq!(tally.parts(100).last(), Some(&("fill-open", 75, 100)));
        let mut tally = Tally::default();
        for word in ["done", "ruled out", "reserve", "ruled out"] {
            tally.add(word);
        }
        assert_eq!(tally.words(), "1 of 1 job done, 1 in reserve, 2 ruled out");
        assert_eq!((tally.class(), tally.parts(100)), ("done", vec![("fill-done", 0, 100)]));
    }
}
