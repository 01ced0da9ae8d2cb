//! Short stories from a grammar: data from which a small network can learn, in the manner of `TinyStories`.
//!
//! A story has a hero with a trait, who wants a thing, meets another person, and gets or loses the thing. Names and things stay the same
//! through a story, so that a network gains by looking back; words of a kind have frequencies as in a natural language, so that many are
//! rare. The words are made of syllables. All of it follows from a fixed seed.

use std::{collections::BTreeSet, sync::OnceLock};

use rand::{Rng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

use crate::rng;

/// Words of the lexicon, and so rows of the token table that stories need.
pub const VOCAB_STORIES: usize = 2048;

/// Words in all stories, about.
const WORDS: usize = 400_000;

/// The function words of sentences.
const FUNCTION: &[&str] = &[
    ".", ",", "\"", "?", "!", "the", "a", "and", "but", "so", "then", "because", "in", "to", "with", "was", "had",
    "wanted", "said", "asked", "found", "lost", "gave", "went", "lived", "saw", "he", "she", "it", "his", "her",
    "there", "once", "one", "day", "very", "not", "could", "you", "i", "have", "my", "can", "yes", "no", "they",
    "were", "friends", "from", "that", "on", "end", "home", "big", "happy", "sad", "thank", "took", "help", "me",
    "please", "after", "again", "\n",
];

/// Kinds of words, and the number of each.
const KINDS: [(Kind, usize); 6] = [
    (Kind::He, 120),
    (Kind::She, 120),
    (Kind::Thing, 744),
    (Kind::Deed, 400),
    (Kind::Trait, 400),
    (Kind::ExecutionTarget, 200),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    He,
    She,
    Thing,
    Deed,
    Trait,
    ExecutionTarget,
}

/// Every word, by its token.
#[derive(Debug)]
struct Lexicon {
    words: Vec<String>,
    /// Offsets of the words of each kind, in the order of [`KINDS`].
    starts: [usize; KINDS.len()],
}

impl Lexicon {
    fn new() -> Self {
        const ONSETS: &[&str] =
            &["b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "st", "tr"];
        const RHYMES: &[&str] = &["a", "e", "i", "o", "u", "an", "el", "in", "or", "um"];
        let mut stream = rng::stream(0, "stories", "lexicon", &[]);
        let mut words: Vec<String> = FUNCTION.iter().map(|word| (*word).to_owned()).collect();
        let mut distinct_words: BTreeSet<String> = words.iter().cloned().collect();
        let starts = KINDS.map(|(_, count)| {
            let start = words.len();
            while words.len() < start + count {
                let syllables = 2 + usize::from(stream.random_bool(0.3));
                let mut syllable = |parts: &[&'static str]| parts.choose(&mut stream).copied().unwrap_or_default();
                let word: String = (0..2 * syllables).map(|part| syllable([ONSETS, RHYMES][part % 2])).collect();
                if distinct_words.insert(word.clone()) {
                    words.push(word);
                }
            }
            start
        });
        Self { words, starts }
    }

    /// A word of `kind`; its frequency is as one over its rank.
    fn draw(&self, kind: Kind, stream: &mut ChaCha8Rng) -> u16 {
        let place = KINDS.iter().position(|(other, _)| *other == kind).unwrap_or_default();
        let (start, count) = (self.starts[place], KINDS[place].1 as f64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank below `count`")]
        let rank = ((count + 1.0).powf(stream.random::<f64>()) - 1.0) as usize;
        token(start + rank.min(KINDS[place].1 - 1))
    }
}

fn token(place: usize) -> u16 {
    u16::try_from(place).unwrap_or(u16::MAX)
}

fn lexicon() -> &'static Lexicon {
    static LEXICON: OnceLock<Lexicon> = OnceLock::new();
    LEXICON.get_or_init(Lexicon::new)
}

/// All stories, one after the other.
pub(super) fn tokens() -> &'static [u16] {
    static STORIES: OnceLock<Vec<u16>> = OnceLock::new();
    STORIES.get_or_init(|| {
        let mut stream = rng::stream(0, "stories", "plots", &[]);
        let mut stories = Vec::with_capacity(WORDS + 200);
        while stories.len() < WORDS {
            Teller { stream: &mut stream, told: &mut stories }.tell();
        }
        stories
    })
}

/// All stories as text.
pub(super) fn text() -> Vec<u8> {
    let mut text = String::new();
    for token in tokens() {
        let word = lexicon().words[usize::from(*token)].as_str();
        if !matches!(word, "." | "," | "?" | "!" | "\n") && !text.is_empty() && !text.ends_with('\n') {
            text.push(' ');
        }
        text.push_str(word);
    }
    text.into_bytes()
}

/// Persons of a story.
#[derive(Debug, Clone, Copy)]
struct Hero {
    name: u16,
    she: bool,
}

impl Hero {
    fn pronoun(self) -> &'static str {
        if self.she { "she" } else { "he" }
    }

    fn possessive(self) -> &'static str {
        if self.she { "her" } else { "his" }
    }
}

/// State of the story that is being generated.
struct Teller<'a> {
    stream: &'a mut ChaCha8Rng,
    told: &'a mut Vec<u16>,
}

impl Teller<'_> {
    fn tell(&mut self) {
        let hero = self.hero();
        let friend = self.hero();
        let [thing, other_thing] = [self.draw(Kind::Thing), self.draw(Kind::Thing)];
        let [mood, quality] = [self.draw(Kind::Trait), self.draw(Kind::Trait)];
        let place = self.draw(Kind::ExecutionTarget);
        let deed = self.draw(Kind::Deed);

        self.say("once there was a").word(mood).word(hero.name).say(". ");
        self.say(hero.pronoun()).say("lived in").word(place).say("and had a").word(quality).word(thing).say(".");
        for _ in 0..self.stream.random_range(0..3) {
            let activity = self.draw(Kind::Deed);
            self.say("one day").word(hero.name).say("went to").word(place).say("to").word(activity).say(".");
        }
        if self.stream.random_bool(0.5) {
            self.say("but then").word(hero.name).say("lost").say(hero.possessive()).word(quality).word(thing).say(".");
            self.say(hero.pronoun()).say("was very sad .");
            self.say(hero.pronoun()).say("saw").word(friend.name).say(".");
            self.say("\" can you help me ? \"").say("asked").word(hero.name).say(".");
            if self.stream.random_bool(0.7) {
                self.say("\" yes , i can").word(deed).say(", \" said").word(friend.name).say(".");
                self.say("after that")
                    .say(friend.pronoun())
                    .say("found the")
                    .word(thing)
                    .say("in")
                    .word(place)
                    .say(".");
                self.say("\" thank you , \" said").word(hero.name).say(". they were friends .");
            } else {
                self.say("\" no , i can not , \" said").word(friend.name).say(".");
                self.say("so").word(hero.name).say("went home and was sad .");
            }
        } else {
            self.say("then").say(hero.pronoun()).say("saw").word(friend.name).say("with a").word(other_thing).say(".");
            self.say("\" i have a").word(other_thing).say(", \" said").word(friend.name).say(".");
            self.say(hero.pronoun()).say("wanted the").word(other_thing).say("very").word(mood).say("because it was");
            self.word(quality).say(".");
            self.say("so").word(hero.name).say("gave").word(friend.name).say(hero.possessive()).word(thing).say(",");
            self.say("and").word(friend.name).say("gave").word(hero.name).say("the").word(other_thing).say(".");
            self.say("they were very happy .");
        }
        self.say("the end . \n");
    }

    fn hero(&mut self) -> Hero {
        let she = self.stream.random_bool(0.5);
        Hero { name: self.draw(if she { Kind::She } else { Kind::He }), she }
    }

    fn draw(&mut self, kind: Kind) -> u16 {
        lexicon().draw(kind, self.stream)
    }

    fn word(&mut self, word: u16) -> &mut Self {
        self.told.push(word);
        self
    }

    /// Appends `words`, which are function words between spaces.
    fn say(&mut self, words: &str) -> &mut Self {
        let places = words.split(' ').filter_map(|word| FUNCTION.iter().position(|candidate| *candidate == word));
        self.told.extend(places.map(token));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lexicon_has_its_size_and_every_story_its_end() {
        let words = &lexicon().words;
        assert_eq!(words.len(), VOCAB_STORIES);
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), VOCAB_STORIES, "no word twice");
        let tokens = tokens();
        assert!(tokens.len() >= WORDS && tokens.len() < WORDS + 200);
        assert!(tokens.iter().all(|token| usize::from(*token) < VOCAB_STORIES));
        let text = String::from_utf8(text()).unwrap();
        assert!(text.lines().all(|story| story.starts_with("once there was a ") && story.ends_with("the end.")));
    }

    #[test]
    fn a_hero_keeps_the_name() {
        let text = String::from_utf8(text()).unwrap();
        for story in text.lines().take(200) {
            let hero = story.split(' ').nth(5).unwrap().trim_end_matches('.');
            assert!(story.matches(hero).count() >= 2, "{story}");
        }
    }
}
