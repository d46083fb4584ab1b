//! Checks whether search finds text that agents recorded.

use std::io::Write;

use agent_journal::present::text_kind_label;
use agent_journal::{Journal, RecallQuery, RecallReport};
use anyhow::{Result, ensure};

use super::check::CheckResult;
use crate::output::{DIM, count, cut_to_width, output_width, pad_left, pad_to_width};

/// Number of samples in a thousand that search must find.
const GOAL: u64 = 995;

/// Maximum number of missed samples shown.
const SHOWN: usize = 20;

pub(super) fn check_search_recall(
    journal: &Journal,
    samples: usize,
    seed: u64,
) -> Result<(RecallReport, CheckResult)> {
    ensure!(samples > 0, "--reach needs at least 1 sample");
    let reach = journal.check_recall(RecallQuery { samples, seed })?;
    let (all, found) = reach.sample_totals();
    let finding = format!(
        "{found} of {} found as phrases ({})",
        count(all, "sample"),
        share_text(found, all)
    );
    let check = if all == 0 {
        CheckResult::note_check(
            "reach",
            "no text to sample".to_owned(),
            "`aj sources --all` lists the scanned directories",
        )
    } else if found * 1000 >= all * GOAL {
        CheckResult::good_check("reach", finding)
    } else {
        let advice = "run `aj index` and try again; report samples that are still missed";
        CheckResult::bad_check(
            "reach",
            format!("{finding}; the goal is {}", share_text(GOAL, 1000)),
            advice,
        )
    };
    Ok((reach, check))
}

pub(super) fn print_recall(reach: &RecallReport) -> Result<()> {
    let mut out = crate::output::buffered_stdout();
    for row in &reach.rows {
        let kind = text_kind_label(row.kind);
        let found = match row.samples {
            0 => String::new(),
            samples => format!("{} of {samples}", row.found),
        };
        let found = pad_left(&found, 12);
        let share = pad_left(&share_text(row.found, row.samples), 8);
        writeln!(
            out,
            " {} {} {found} {share}",
            pad_to_width(row.agent, 15),
            pad_to_width(&kind, 12)
        )?;
    }
    for missed in reach.missed.iter().take(SHOWN) {
        let text = cut_to_width(
            &missed.text.replace(['\n', '\t'], " "),
            output_width().saturating_sub(40),
        );
        let kind = text_kind_label(missed.kind);
        writeln!(out, " {DIM}missed {} {kind}: {text}{DIM:#}", pad_to_width(&missed.session, 24))?;
    }
    out.flush()?;
    Ok(())
}

fn share_text(part: u64, all: u64) -> String {
    // Rounds down, so that 99.99 % is not shown as 100 %.
    let Some(tenths) = (part * 1000).checked_div(all) else { return "–".to_owned() };
    format!("{}.{} %", tenths / 10, tenths % 10)
}
