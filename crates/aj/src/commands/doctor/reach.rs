//! Whether what agents recorded is found again.

use std::io::Write;

use agent_journal::{Journal, Reach, ReachQuery};
use anyhow::{Result, ensure};

use super::check::Check;
use crate::output::{DIM, count, cut, kind_name, pad, pad_left, width};

/// What should be found, out of a thousand.
const GOAL: u64 = 995;

/// How many misses are shown.
const SHOWN: usize = 20;

pub(super) fn look(journal: &Journal, samples: usize, seed: u64) -> Result<(Reach, Check)> {
    ensure!(samples > 0, "nothing is found of nothing: --reach needs a number");
    let reach = journal.reach(ReachQuery { samples, seed })?;
    let (all, found) = reach.totals();
    let finding =
        format!("{found} of {} found as phrases ({})", count(all, "piece"), share(found, all));
    let check = if all == 0 {
        Check::note(
            "reach",
            "there is nothing to look for".to_owned(),
            "`aj sources --all` tells where was looked",
        )
    } else if found * 1000 >= all * GOAL {
        Check::good("reach", finding)
    } else {
        let advice = "run `aj index` and look again; what is still missed is worth an issue";
        Check::bad("reach", format!("{finding}; {} is the goal", share(GOAL, 1000)), advice)
    };
    Ok((reach, check))
}

pub(super) fn print(reach: &Reach) -> Result<()> {
    let mut out = crate::output::stdout();
    for row in &reach.rows {
        let kind = kind_name(row.kind);
        let found = match row.samples {
            0 => String::new(),
            samples => format!("{} of {samples}", row.found),
        };
        let found = pad_left(&found, 12);
        let share = pad_left(&share(row.found, row.samples), 8);
        writeln!(out, " {} {} {found} {share}", pad(row.agent, 15), pad(&kind, 12))?;
    }
    for missed in reach.missed.iter().take(SHOWN) {
        let text = cut(&missed.text.replace(['\n', '\t'], " "), width().saturating_sub(40));
        let kind = kind_name(missed.kind);
        writeln!(out, " {DIM}missed {} {kind}: {text}{DIM:#}", pad(&missed.session, 24))?;
    }
    out.flush()?;
    Ok(())
}

fn share(part: u64, all: u64) -> String {
    // Nothing is called complete that is not.
    let Some(tenths) = (part * 1000).checked_div(all) else { return "–".to_owned() };
    format!("{}.{} %", tenths / 10, tenths % 10)
}
