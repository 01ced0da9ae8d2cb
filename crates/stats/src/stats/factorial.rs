//! Factorial designs: the points of an experiment by the levels of its factors, and the contrasts that they allow.
//!
//! A design is a product of parts. Each part has some of the factors in one arrangement: every combination, a half of
//! them, or single changes to a reference. A contrast of the design is the product of its parts' contrasts, so an effect
//! is averaged over complete parts and taken at the reference of the others.

use std::collections::{BTreeSet, HashSet};

/// The largest number of factors.
pub const MAX_FACTORS: usize = 12;
/// The largest number of combinations of levels.
pub const MAX_CELLS: usize = 16_384;

/// The combinations of levels that an experiment has.
#[derive(Debug, Clone, PartialEq)]
pub struct Factorial {
    /// Number of levels of each factor.
    levels: Vec<usize>,
    /// The level of each factor, by combination.
    cells: Vec<Vec<usize>>,
    parts: Vec<Part>,
}

/// Factors whose combinations do not depend on the other factors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The factors, as indices.
    pub factors: Vec<usize>,
    /// Its combinations.
    pub arrangement: Arrangement,
    /// Number of combinations.
    size: usize,
}

/// Combinations of the levels of some factors. Level 0 is the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// Every combination.
    Full,
    /// The half of the combinations of two levels in which the product of all factors, coded as −1 and 1, is constant.
    Half {
        /// True if the product is −1.
        negative: bool,
    },
    /// Level 0 of all factors, and every change of one factor.
    OneAdded,
    /// Level 1 of all factors, every change of one factor to level 0, and possibly level 0 of all.
    OneLeftOut,
}

/// Factors that may belong to one part.
#[derive(Debug, Clone)]
pub struct Group {
    /// The factors, as indices.
    pub factors: Vec<usize>,
    /// True if the group was declared as a leave-one-out design. For two factors it has the points of a full one.
    pub leaves_one_out: bool,
}

/// An effect: its factors, each with the level that is compared with level 0. One is a main effect, two are an
/// interaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect(pub Vec<(usize, usize)>);

/// Combinations that a full factorial has and an experiment lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The first of them.
    pub first: Vec<Vec<usize>>,
    /// True if these are all.
    pub is_all: bool,
}

/// Number of missing combinations that are named.
const MAX_NAMED: usize = 3;

impl Factorial {
    /// Finds the arrangement of distinct combinations. Groups are tried as independent parts first, then as one part.
    pub fn new(levels: Vec<usize>, cells: Vec<Vec<usize>>, groups: &[Group]) -> Result<Self, Missing> {
        let parts: Option<Vec<Part>> = groups.iter().map(|group| Part::find(group, &levels, &cells)).collect();
        let is_product = |parts: &Vec<Part>| {
            let product = parts.iter().try_fold(1_usize, |product, part| product.checked_mul(part.size));
            product == Some(cells.len())
        };
        if let Some(parts) = parts.filter(is_product) {
            return Ok(Self { levels, cells, parts });
        }
        let all = Group { factors: (0..levels.len()).collect(), leaves_one_out: false };
        match Part::find(&all, &levels, &cells) {
            Some(part) => Ok(Self { levels, cells, parts: vec![part] }),
            None => Err(Missing::new(&levels, &cells)),
        }
    }

    /// Number of levels of each factor.
    pub fn levels(&self) -> &[usize] {
        &self.levels
    }

    /// The combinations.
    pub fn cells(&self) -> &[Vec<usize>] {
        &self.cells
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// True if there are all combinations.
    pub fn is_full(&self) -> bool {
        self.parts.iter().all(|part| part.arrangement == Arrangement::Full)
    }

    /// True if the interaction of two factors can be estimated, possibly aliased with another effect.
    pub fn has_interaction(&self, pair: [usize; 2]) -> bool {
        !self.parts.iter().any(|part| part.has_reference() && pair.iter().all(|factor| part.factors.contains(factor)))
    }

    /// The factors of the effect that a fraction does not distinguish from the effect of these factors, of all aliased
    /// effects the one with the fewest factors.
    pub fn alias(&self, effect: &[usize]) -> Option<Vec<usize>> {
        let halves = self.parts.iter().filter(|part| matches!(part.arrangement, Arrangement::Half { .. }));
        let aliases = halves.filter(|part| part.factors.iter().any(|factor| effect.contains(factor))).map(|part| {
            let own_factors = part.factors.iter().filter(|factor| !effect.contains(factor));
            let others = effect.iter().filter(|factor| !part.factors.contains(factor));
            let alias: BTreeSet<usize> = own_factors.chain(others).copied().collect();
            alias.into_iter().collect::<Vec<_>>()
        });
        aliases.min_by_key(Vec::len)
    }

    /// The main effects of all factors, then these interactions, with every level except the first.
    pub fn effects(&self, interactions: &[[usize; 2]]) -> Vec<Effect> {
        let changes = |factor: usize| (1..self.levels[factor]).map(move |level| (factor, level));
        let main = (0..self.levels.len()).flat_map(|factor| changes(factor).map(|term| Effect(vec![term])));
        let pairs = interactions.iter().flat_map(|[first, second]| {
            changes(*first).flat_map(|term| changes(*second).map(move |other| Effect(vec![term, other])))
        });
        main.chain(pairs).collect()
    }

    /// The coefficient of a combination in the contrast of an effect.
    ///
    /// A main effect is the mean at the level minus the mean at level 0. An interaction is the difference of the first
    /// factor's effects between the second factor's level and its level 0.
    pub fn coefficient(&self, effect: &Effect, cell: usize) -> f64 {
        let cell = &self.cells[cell];
        self.parts.iter().map(|part| part.coefficient(effect, cell, &self.levels)).product()
    }
}

impl Part {
    /// The part that a group of factors is; `None` if its combinations have no known arrangement.
    fn find(group: &Group, levels: &[usize], cells: &[Vec<usize>]) -> Option<Self> {
        let factors = group.factors.clone();
        let combinations: HashSet<Vec<usize>> =
            cells.iter().map(|cell| factors.iter().map(|factor| cell[*factor]).collect()).collect();
        let own_levels: Vec<usize> = factors.iter().map(|factor| levels[*factor]).collect();
        let full = own_levels.iter().try_fold(1_usize, |product, levels| product.checked_mul(*levels));
        let two_levels = own_levels.iter().all(|levels| *levels == 2);
        let size = combinations.len();
        let left_out = two_levels && is_one_left_out(&combinations, factors.len());
        let arrangement = if group.leaves_one_out && left_out && factors.len() > 1 {
            Arrangement::OneLeftOut
        } else if full == Some(size) {
            Arrangement::Full
        } else if let Some(negative) =
            half(&combinations, factors.len()).filter(|_| two_levels && full == Some(2 * size))
        {
            Arrangement::Half { negative }
        } else if is_one_added(&combinations, &own_levels) {
            Arrangement::OneAdded
        } else if left_out {
            Arrangement::OneLeftOut
        } else {
            return None;
        };
        Some(Self { factors, arrangement, size })
    }

    /// True if effects are taken at a reference instead of being averaged.
    fn has_reference(&self) -> bool {
        self.reference().is_some()
    }

    /// The level of every factor at the reference.
    pub fn reference(&self) -> Option<usize> {
        match self.arrangement {
            Arrangement::Full | Arrangement::Half { .. } => None,
            Arrangement::OneAdded => Some(0),
            Arrangement::OneLeftOut => Some(1),
        }
    }

    fn coefficient(&self, effect: &Effect, cell: &[usize], levels: &[usize]) -> f64 {
        let own_terms = || effect.0.iter().filter(|(factor, _)| self.factors.contains(factor));
        let sign = |(factor, level): &(usize, usize)| match cell[*factor] {
            at if at == *level => 1.0,
            0 => -1.0,
            _ => 0.0,
        };
        if let Some(reference) = self.reference() {
            let is_own = |factor: &usize| own_terms().any(|(known, _)| known == factor);
            let at_reference =
                self.factors.iter().filter(|factor| !is_own(factor)).all(|factor| cell[*factor] == reference);
            return if at_reference { own_terms().map(sign).product() } else { 0.0 };
        }
        own_terms().map(|term| sign(term) * levels[term.0] as f64).product::<f64>() / self.size as f64
    }
}

/// The sign of the constant product of all factors, as "is negative"; `None` if it is not constant.
fn half(cells: &HashSet<Vec<usize>>, factors: usize) -> Option<bool> {
    let is_negative = |cell: &Vec<usize>| (factors - cell.iter().sum::<usize>().min(factors)) % 2 == 1;
    let mut signs = cells.iter().map(is_negative);
    let first = signs.next()?;
    signs.all(|sign| sign == first).then_some(first)
}

fn is_one_added(cells: &HashSet<Vec<usize>>, levels: &[usize]) -> bool {
    let changes = |cell: &Vec<usize>| cell.iter().filter(|level| **level > 0).count();
    let wanted = levels.iter().map(|levels| levels - 1).sum::<usize>() + 1;
    cells.len() == wanted && cells.iter().all(|cell| changes(cell) < 2)
}

fn is_one_left_out(cells: &HashSet<Vec<usize>>, factors: usize) -> bool {
    let count_of_zeros = |cell: &Vec<usize>| cell.iter().filter(|level| **level == 0).count();
    let (few, none) = (cells.iter().filter(|cell| count_of_zeros(cell) < 2).count(), vec![0; factors]);
    few == factors + 1 && (cells.len() == few || (cells.len() == few + 1 && cells.contains(&none)))
}

impl Missing {
    fn new(levels: &[usize], cells: &[Vec<usize>]) -> Self {
        let there: HashSet<&Vec<usize>> = cells.iter().collect();
        let mut first = Vec::new();
        let mut at = vec![0; levels.len()];
        // At most all combinations are skipped.
        loop {
            if !there.contains(&at) {
                first.push(at.clone());
            }
            // The last factor changes fastest.
            let Some(next) = (0..levels.len()).rev().find(|factor| at[*factor] + 1 < levels[*factor]) else { break };
            at[next] += 1;
            at[next + 1..].fill(0);
            if first.len() == MAX_NAMED {
                break;
            }
        }
        let full = levels.iter().try_fold(1_usize, |product, levels| product.checked_mul(*levels));
        let is_all = full == Some(cells.len() + first.len());
        Self { first, is_all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(factors: usize) -> Vec<Group> {
        (0..factors).map(|factor| Group { factors: vec![factor], leaves_one_out: false }).collect()
    }

    fn together(factors: usize, leaves_one_out: bool) -> Vec<Group> {
        vec![Group { factors: (0..factors).collect(), leaves_one_out }]
    }

    fn cells(texts: &str) -> Vec<Vec<usize>> {
        let digits = |text: &str| text.bytes().map(|digit| usize::from(digit - b'0')).collect();
        texts.split(' ').map(digits).collect()
    }

    fn arrangements(design: &Factorial) -> Vec<Arrangement> {
        design.parts().iter().map(|part| part.arrangement).collect()
    }

    fn contrast(design: &Factorial, effect: &[(usize, usize)]) -> Vec<f64> {
        (0..design.cells().len()).map(|cell| design.coefficient(&Effect(effect.to_vec()), cell)).collect()
    }

    #[test]
    fn arrangements_are_recognized() {
        let of = |levels: &[usize], text: &str, groups: &[Group]| {
            Factorial::new(levels.to_vec(), cells(text), groups).map(|design| arrangements(&design))
        };
        assert_eq!(of(&[2, 2], "00 10 01 11", &apart(2)), Ok(vec![Arrangement::Full; 2]));
        assert_eq!(of(&[2, 3], "00 10 01 11 02 12", &apart(2)), Ok(vec![Arrangement::Full; 2]));
        assert_eq!(of(&[2; 3], "000 110 101 011", &together(3, false)), Ok(vec![Arrangement::Half { negative: true }]));
        let four = "0000 1100 1010 0110 1001 0101 0011 1111";
        assert_eq!(of(&[2; 4], four, &together(4, false)), Ok(vec![Arrangement::Half { negative: false }]));
        assert_eq!(of(&[3, 2], "00 10 20 01", &together(2, false)), Ok(vec![Arrangement::OneAdded]));
        // A full factorial without the last corner has the points of an add-one design.
        assert_eq!(of(&[2, 2], "00 10 01", &apart(2)), Ok(vec![Arrangement::OneAdded]));
        assert_eq!(of(&[2; 3], "000 111 011 101 110", &together(3, true)), Ok(vec![Arrangement::OneLeftOut]));
        assert_eq!(of(&[2; 3], "111 011 101 110", &apart(3)), Ok(vec![Arrangement::OneLeftOut]));
        assert_eq!(of(&[2, 2], "00 11 01 10", &together(2, true)), Ok(vec![Arrangement::OneLeftOut]));
        assert_eq!(of(&[2, 2], "00 11 01 10", &together(2, false)), Ok(vec![Arrangement::Full]));
        let missing = of(&[2, 3], "00 10 01 11 02", &apart(2)).unwrap_err();
        assert_eq!((missing.first, missing.is_all), (cells("12"), true));
        let missing = of(&[2; 3], "000 100 010 111", &apart(3)).unwrap_err();
        assert_eq!((missing.first, missing.is_all), (cells("001 011 101"), false));
    }

    #[test]
    fn a_product_of_an_ablation_and_an_axis() {
        let groups =
            [Group { factors: vec![0, 1], leaves_one_out: false }, Group { factors: vec![2], leaves_one_out: false }];
        let design = Factorial::new(vec![2; 3], cells("000 001 100 101 010 011"), &groups).unwrap();
        assert_eq!(arrangements(&design), [Arrangement::OneAdded, Arrangement::Full]);
        assert!(!design.has_interaction([0, 1]) && design.has_interaction([0, 2]) && !design.is_full());
        assert_eq!(contrast(&design, &[(0, 1)]), [-0.5, -0.5, 0.5, 0.5, 0.0, 0.0]);
        assert_eq!(contrast(&design, &[(2, 1)]), [-1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(contrast(&design, &[(1, 1), (2, 1)]), [1.0, -1.0, 0.0, 0.0, -1.0, 1.0]);
    }

    #[test]
    fn contrasts_of_a_full_and_of_a_left_out_design() {
        let design = Factorial::new(vec![2, 3], cells("00 10 01 11 02 12"), &apart(2)).unwrap();
        let third = 1.0 / 3.0;
        for (ours, wanted) in contrast(&design, &[(0, 1)]).iter().zip([-third, third, -third, third, -third, third]) {
            assert!((ours - wanted).abs() < 1e-15);
        }
        assert_eq!(contrast(&design, &[(1, 2)]), [-0.5, -0.5, 0.0, 0.0, 0.5, 0.5]);
        assert_eq!(contrast(&design, &[(0, 1), (1, 2)]), [1.0, -1.0, 0.0, 0.0, -1.0, 1.0]);
        let design = Factorial::new(vec![2; 3], cells("000 111 011 101 110"), &together(3, true)).unwrap();
        assert_eq!(contrast(&design, &[(1, 1)]), [0.0, 1.0, 0.0, -1.0, 0.0]);
    }

    #[test]
    fn aliases_of_a_half_fraction() {
        let design = Factorial::new(vec![2; 3], cells("000 110 101 011"), &together(3, false)).unwrap();
        assert_eq!(design.alias(&[0]), Some(vec![1, 2]));
        // By the defining relation I = −abc, the contrast of a is the contrast of b × c, halved and negated.
        let (main, pair) = (contrast(&design, &[(0, 1)]), contrast(&design, &[(1, 1), (2, 1)]));
        assert!(main.iter().zip(&pair).all(|(main, pair)| (main + pair / 2.0).abs() < 1e-15), "{main:?} {pair:?}");
        let full = Factorial::new(vec![2, 2], cells("00 10 01 11"), &apart(2)).unwrap();
        assert_eq!(full.alias(&[0]), None);
    }
}
