//! `sweep ledger`.

use std::{fmt::Write as _, path::Path};

use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table};

use super::{
    answer::{self, FormatArgs, answer},
    plan::grid,
    print,
    propose::{effect, number_text},
};
use crate::{
    error::{Error, Exit},
    format::{clean, count, duration},
    propose::{self, Checked, Conclusion, Entry, Ledger, Question, Verdict},
    stats::online::RATE,
    store::Store,
};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct LedgerArgs {
    #[command(subcommand)]
    command: Option<LedgerCommand>,
    /// Show only the accepted changes, in order, with effect, cost and bundle.
    #[arg(long)]
    accepted: bool,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Subcommand)]
enum LedgerCommand {
    /// Verify the chain of entries, the levels, the bundles, and every verdict from the records in them.
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// A digest that an earlier verification printed; the ledger must have an entry with this digest.
    #[arg(long, value_name = "DIGEST")]
    head: Option<String>,
}

pub(super) fn ledger(results: &Path, args: &LedgerArgs) -> Result<Exit, Error> {
    let store = Store::open(results)?;
    let ledger = Ledger::read(&store).map_err(propose::ProposeError::from)?;
    match &args.command {
        Some(LedgerCommand::Verify(verify_args)) => verify(&store, &ledger, verify_args, args.format),
        None if args.format.is_json() => {
            let next = vec![answer::line(results, ["ledger", "verify"])];
            answer(&json(&store, &ledger, args.accepted)?, next).map(|()| Exit::Done)
        }
        None => print(&list(&store, &ledger, args.accepted)?).map(|()| Exit::Done),
    }
}

/// The questions to show, each with its verdict.
fn rows(ledger: &Ledger, accepted: bool) -> Vec<(&Entry, &Question, Option<&Conclusion>)> {
    let rows = ledger.questions().map(|(entry, question)| (entry, question, ledger.conclusion(entry.number)));
    let is_shown = |conclusion: Option<&Conclusion>| {
        !accepted || conclusion.is_some_and(|conclusion| conclusion.verdict == Verdict::Accepted)
    };
    let mut rows: Vec<_> = rows.filter(|(_, _, conclusion)| is_shown(*conclusion)).collect();
    if accepted {
        let place = |number: usize| ledger.conclusions().position(|(_, conclusion)| conclusion.asked == number);
        rows.sort_by_key(|(entry, _, _)| place(entry.number));
    }
    rows
}

fn list(store: &Store, ledger: &Ledger, accepted: bool) -> Result<String, Error> {
    let rows = rows(ledger, accepted);
    if rows.is_empty() {
        let message = if accepted { "no change is accepted yet\n" } else { "there are no proposals yet\n" };
        return Ok(message.to_owned());
    }
    let mut table: Table = if accepted {
        grid(["no.", "change", "effect", "cost", "bundle"])
    } else {
        grid(["no.", "asked", "change", "level", "verdict", "effect"])
    };
    let mut notes = String::new();
    for (entry, question, conclusion) in &rows {
        let calls = altered(store, entry.number, *conclusion)?;
        if calls > 0 {
            let (number, calls) = (entry.number, count(calls, "call"));
            let _ = writeln!(
                notes,
                "question {number}: {calls} differed from it while it was open; the granted level and \
                    seeds were kept"
            );
        }
        let change = format!("{} ({})", clean(&question.delta.display().to_string()), question.metric);
        let shown_effect = conclusion.map(|conclusion| conclusion.confirmed.as_ref().unwrap_or(&conclusion.search));
        let mean = shown_effect.map_or_else(String::new, |shown_effect| number_text(shown_effect.mean));
        let number = entry.number.to_string();
        table.add_row(if accepted {
            let bundle = conclusion
                .and_then(|conclusion| conclusion.bundle.as_ref())
                .map(|bundle| bundle.file.display().to_string());
            let cost = conclusion.map(|conclusion| duration(conclusion.seconds)).unwrap_or_default();
            vec![number, change, shown_effect.map(effect).unwrap_or_default(), cost, bundle.unwrap_or_default()]
        } else {
            let level = ledger.grant(entry.number).map(|grant| format!("{:.1e}", grant.level)).unwrap_or_default();
            let verdict = conclusion.map_or("open", |conclusion| conclusion.verdict.word()).to_owned();
            vec![number, entry.at.strftime("%Y-%m-%d").to_string(), change, level, verdict, mean]
        });
    }
    if let Some(column) = table.column_mut(0) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let (tests, accepted_count) = (count(ledger.tests(), "test"), ledger.discoveries());
    let next_level = ledger.next_level();
    let rate = RATE * 100.0;
    Ok(format!(
        "{table}\n{notes}{tests}, {accepted_count} accepted; false discoveries at most {rate:.0} %; the next test has level {next_level:.2e}\n"
    ))
}

/// The number of calls that differed from a question while it was open.
fn altered(store: &Store, number: usize, conclusion: Option<&Conclusion>) -> Result<usize, Error> {
    match conclusion {
        Some(conclusion) => Ok(conclusion.altered),
        None => propose::altered_calls(store, number).map_err(Error::io("cannot read the ledger")),
    }
}

/// The questions as JSON, each with its level and verdict.
pub(super) fn questions(store: &Store, ledger: &Ledger, accepted: bool) -> Result<Vec<serde_json::Value>, Error> {
    let questions = rows(ledger, accepted).into_iter().map(|(entry, question, conclusion)| {
        Ok(serde_json::json!({
            "asked": entry.number,
            "asked_at": entry.at,
            "question": question,
            "grant": ledger.grant(entry.number),
            "altered": altered(store, entry.number, conclusion)?,
            "conclusion": conclusion,
        }))
    });
    questions.collect()
}

fn json(store: &Store, ledger: &Ledger, accepted: bool) -> Result<serde_json::Value, Error> {
    Ok(serde_json::json!({
        "rate": RATE,
        "tests": ledger.tests(),
        "accepted": ledger.discoveries(),
        "next_level": ledger.next_level(),
        "head": ledger.head,
        "questions": questions(store, ledger, accepted)?,
    }))
}

fn verify(store: &Store, ledger: &Ledger, args: &VerifyArgs, format: FormatArgs) -> Result<Exit, Error> {
    let mut verification = propose::verify(store)?;
    if let Some(head) = &args.head {
        let is_known = *head == ledger.head || ledger.entries.iter().any(|entry| entry.before == *head);
        if !is_known || head.is_empty() {
            verification
                .defects
                .push(format!("no entry has the digest {}: the ledger was cut or replaced", clean(head)));
        }
    }
    let Checked { entries, verdicts, head, defects } = &verification;
    if format.is_json() {
        answer(&verification, Vec::new())?;
    } else {
        let mut lines = vec![format!(
            "entries that follow from each other: {entries}; {} recomputed from the records",
            count(*verdicts, "verdict")
        )];
        lines.extend(defects.iter().map(|defect| format!("✗ {}", clean(defect))));
        lines.push(if defects.is_empty() { "everything agrees".to_owned() } else { count(defects.len(), "defect") });
        lines.push(format!("head: {head}"));
        print(&(lines.join("\n") + "\n"))?;
    }
    Ok(if defects.is_empty() { Exit::Done } else { Exit::Failure })
}
