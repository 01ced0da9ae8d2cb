//! `--detect` and `--budget` of `sweep plan`.

use clap::Args;
use comfy_table::{CellAlignment, Table};
use sweep_job::{Metric, Unit, units::parse_seconds};

use super::plan::grid;
use crate::{
    analysis::{
        Results,
        design::{Choice, Design, DesignError, Designer, Detect, Kind, Outlook},
    },
    error::Error,
    format::{clean, count, duration, measured, quantity, shortened},
    plan::Plan,
    run::History,
    store::Store,
};

/// Widest name of a decision in a table.
const MAX_WIDTH: usize = 36;

#[derive(Debug, Args)]
pub(super) struct DesignArgs {
    /// Show the power of every claim and comparison about a metric at this difference, and the seeds that they need; can be
    /// repeated.
    ///
    /// The difference is in the metric's unit (`loss=0.01`, `time.step=5ms`), or a percentage (`time.step=2%`). The
    /// standard deviation is estimated from the cached records.
    #[arg(long, value_name = "METRIC=DIFFERENCE")]
    detect: Vec<String>,
    /// Choose the cheapest seeds of each step with 80 % power for every `--detect`, within this total duration of all jobs,
    /// such as `8h`.
    ///
    /// Durations are estimated from earlier jobs. If the time does not suffice, the seeds with the highest power are
    /// shown.
    #[arg(long, value_name = "TIME", requires = "detect")]
    budget: Option<String>,
}

impl DesignArgs {
    /// The design for these differences, within a budget of time if there is one.
    #[cfg(feature = "mcp")]
    pub(super) fn of(detect: Vec<String>, budget: Option<String>) -> Self {
        Self { detect, budget }
    }

    /// True if a design was requested.
    pub(super) fn is_wanted(&self) -> bool {
        !self.detect.is_empty()
    }

    /// The design of a plan; `None` if no design was requested.
    pub(super) fn design(&self, plan: &Plan, store: &Store, cached: &[bool]) -> Result<Option<Design>, Error> {
        if !self.is_wanted() {
            return Ok(None);
        }
        let detects = self.detect.iter().map(|text| Detect::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let budget = self.budget.as_ref().map(|text| match parse_seconds(text) {
            Ok(seconds) if seconds > 0.0 => Ok(seconds),
            _ => Err(DesignError::Budget(clean(text).into_owned())),
        });
        let budget = budget.transpose()?;
        let results = Results::read(plan, store)?;
        let designer = Designer::new(plan, &results);
        let mut design = designer.design(&detects)?;
        if let Some(budget) = budget {
            let entries = store.index().map_err(Error::io("cannot read the store"))?;
            let seconds = History::new(&entries).known(plan);
            designer.choose(&mut design, budget, &seconds, cached);
        }
        Ok(Some(design))
    }
}

/// The design for a terminal.
pub(super) fn text(design: &Design) -> String {
    let mut detects: Vec<&str> = design.decisions.iter().map(|outlook| outlook.detect.as_str()).collect();
    detects.dedup();
    let mut text: String = detects.into_iter().map(|detect| decisions(design, detect)).collect();
    if let Some(command) = &design.pilot {
        text += "\nwithout a standard deviation there is no power; a pilot measures it:\n";
        text.extend(["  ", &clean(command), "\n"]);
    }
    if let Some(reason) = &design.no_budget {
        text += "\n";
        text += &wrapped(&format!("no seeds were chosen for the budget: {}", clean(reason)), 0);
    }
    text + &design.budget.as_ref().map(budget).unwrap_or_default()
}

/// The decisions about one difference.
fn decisions(design: &Design, detect: &str) -> String {
    let outlooks: Vec<&Outlook> = design.decisions.iter().filter(|outlook| outlook.detect == detect).collect();
    let has_several = outlooks.iter().any(|outlook| outlook.recipe != outlooks[0].recipe);
    let mut notes: Vec<&str> = Vec::new();
    let mut table = grid(["  decision", "records", "sd", "seeds", "power", "for 80 %"]);
    for outlook in &outlooks {
        let mut numbers: Vec<String> = Vec::new();
        for note in outlook.reason.iter().chain(&outlook.notes) {
            let position = notes.iter().position(|earlier_note| earlier_note == note);
            let index = position.unwrap_or_else(|| {
                notes.push(note);
                notes.len() - 1
            });
            numbers.push((index + 1).to_string());
        }
        let mark = if numbers.is_empty() { String::new() } else { format!(" [{}]", numbers.join(",")) };
        table.add_row(row(outlook, has_several, &mark));
    }
    let notes = notes.iter().enumerate().map(|(index, note)| wrapped(&format!("[{}] {}", index + 1, clean(note)), 2));
    format!("\nto detect {}:\n{}{}", clean(detect), lines(table), notes.collect::<String>())
}

fn row(outlook: &Outlook, has_several: bool, mark: &str) -> [String; 6] {
    let recipe = if has_several { format!("{}:", outlook.recipe) } else { String::new() };
    let kind_word = match outlook.kind {
        Kind::Claim => "claim",
        Kind::Comparison => "table",
        Kind::Marks => "marks of",
    };
    let part = outlook.part.as_ref().map(|part| format!(": {part}")).unwrap_or_default();
    let name = format!("{kind_word} {recipe}{}{part}", outlook.name);
    let room = MAX_WIDTH.saturating_sub(mark.chars().count());
    let short_name = shortened(&clean(&name), room);
    let seeds = match outlook.least_seeds {
        Some(min_seeds) => format!("{min_seeds}–{}", outlook.seeds),
        None => outlook.seeds.to_string(),
    };
    let [sd, power, needed_seeds] = match &outlook.numbers {
        Some(numbers) => {
            let sd = if numbers.relative {
                quantity(numbers.sd, Unit::Fraction)
            } else {
                measured(&outlook.metric, Metric { value: numbers.sd, unit: outlook.unit })
            };
            let needed_seeds = match numbers.seeds_needed {
                Some(seeds) => seeds.to_string(),
                None => outlook.most_seeds().map_or_else(|| "–".to_owned(), |most| format!("> {most}")),
            };
            [sd, percent(numbers.power), needed_seeds]
        }
        None => ["–"; 3].map(str::to_owned),
    };
    [format!("  {short_name}{mark}"), outlook.records.to_string(), sd, seeds, power, needed_seeds]
}

/// The seeds for a budget.
fn budget(choice: &Choice) -> String {
    let (budget_text, needed_time) = (duration(choice.budget_seconds), duration(choice.seconds_needed));
    let time = duration(choice.seconds);
    let statement = if choice.is_enough {
        format!("{budget_text} of total job time are enough for 80 %, which takes about {time}")
    } else if choice.is_affordable {
        let power = percent(choice.power);
        format!(
            "{budget_text} of total job time are not enough for 80 %, which takes about {needed_time}; the best \
             lowest power is {power}, in about {time}"
        )
    } else {
        format!(
            "{budget_text} of total job time are not enough for the minimum number of seeds for a decision, which \
             takes about {time}; 80 % takes about {needed_time}"
        )
    };
    let has_several = choice.steps.iter().any(|step| step.recipe != choice.steps[0].recipe);
    let mut table = grid(["  step", "planned", "seeds", "jobs to run", "time"]);
    for step in &choice.steps {
        let recipe = if has_several { format!("{}:", step.recipe) } else { String::new() };
        let numbers = [step.planned, step.seeds, step.jobs].map(|number| number.to_string());
        let name = format!("  {recipe}{}", clean(&step.step));
        table.add_row(std::iter::once(name).chain(numbers).chain([duration(step.seconds)]));
    }
    let left_out = match choice.left_out {
        0 => String::new(),
        left_out => wrapped(
            &format!(
                "{} not counted, because no number of seeds decides them or records are missing",
                count(left_out, "decision")
            ),
            2,
        ),
    };
    let lines = lines(table);
    format!("\n{}{lines}{left_out}", wrapped(&statement, 0))
}

/// The lines of a table, with its numbers to the right.
fn lines(mut table: Table) -> String {
    for column in 1..=5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.extend([line.trim_end(), "\n"]);
    }
    text
}

/// A share as a percentage, never rounded up to certainty.
fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 99.5 => "> 99 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

/// A text in lines of at most 80 characters, with this indentation.
fn wrapped(text: &str, indentation: usize) -> String {
    let margin = " ".repeat(indentation);
    let mut lines = String::new();
    let mut line = margin.clone();
    for word in text.split_whitespace() {
        if line.len() > indentation && line.chars().count() + 1 + word.chars().count() > 80 {
            lines.extend([line.as_str(), "\n"]);
            line.clone_from(&margin);
        }
        if line.len() > indentation {
            line.push(' ');
        }
        line += word;
    }
    format!("{lines}{line}\n")
}
