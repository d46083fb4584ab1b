//! Renders the tables of an evaluation.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::measure::{Mean, Reply, Worth, mean, quantile, reciprocal, success};
use super::queries::{Class, Item};
use super::systems::System;
use super::{Evaluated, Part};

const BEGIN: &str = "<!-- eval: written by `cargo xtask eval --write` -->";
const END: &str = "<!-- /eval -->";

/// Renders all tables of one haystack.
pub(super) fn haystack(evaluated: &Evaluated) -> String {
    let Evaluated { name, sessions, messages, vectors, .. } = evaluated;
    let mut text =
        format!("### {name}\n\n{sessions} sessions, {messages} messages, {vectors} vectors.\n\n");
    for part in [Part::Other, Part::Development, Part::All] {
        if part == Part::Other || evaluated.chooses {
            text.push_str(&classes(evaluated, part));
        }
    }
    text.push_str(&weights(evaluated));
    text.push_str(&absent(evaluated));
    text
}

/// Renders the results of every class.
fn classes(evaluated: &Evaluated, part: Part) -> String {
    let systems: Vec<&(System, Vec<Worth>)> =
        evaluated.answers.iter().filter(|(system, _)| !system.is_tried_weight()).collect();
    let mut text = format!(
        "Right session or message first / among the first five / MRR@10, {}:\n\n| question | n |",
        evaluated.name(part)
    );
    for (system, _) in &systems {
        text.push_str(&format!(" {} |", system.name));
    }
    text.push_str(" hybrid − BM25, first five (95 %) | refused | hybrid p50 / p95 |\n|---|--:|");
    text.push_str(&"--:|".repeat(systems.len() + 3));
    text.push('\n');
    for class in Class::ALL.into_iter().filter(|class| evaluated.count(*class, part) > 0) {
        text.push_str(&format!("| {} | {} |", class.name(), evaluated.count(class, part)));
        for (_, worths) in &systems {
            let all: Vec<&Worth> = evaluated.of(worths, class, part).collect();
            let share = |within: usize| average(all.iter().map(|one| success(one, within)));
            let rank = average(all.iter().map(|one| reciprocal(one)));
            text.push_str(&format!(
                " {:.1} / {:.1} / {rank:.3} |",
                100.0 * share(1),
                100.0 * share(5)
            ));
        }
        let (hybrid, plain) = (System::hybrid(), System::plain_bm25());
        let (Some(hybrid), Some(plain)) = (evaluated.worths(&hybrid), evaluated.worths(&plain))
        else {
            continue;
        };
        let hybrid: Vec<&Worth> = evaluated.of(hybrid, class, part).collect();
        let plain = evaluated.of(plain, class, part);
        let differences: Vec<f64> = hybrid
            .iter()
            .zip(plain)
            .map(|(one, other)| 100.0 * (success(one, 5) - success(other, 5)))
            .collect();
        let Mean { value, low, high } = mean(&differences);
        let refused = average(hybrid.iter().map(|one| f64::from(u8::from(one.is_refused))));
        text.push_str(&format!(
            " {value:+.1} ({low:+.1} to {high:+.1}) | {:.1} % | {} |\n",
            100.0 * refused,
            times(&hybrid.iter().map(|one| one.took).collect::<Vec<_>>())
        ));
    }
    text.push('\n');
    text
}

/// Renders the mean reciprocal rank of all systems for each class, on the development half.
fn weights(evaluated: &Evaluated) -> String {
    if !evaluated.answers.iter().any(|(system, _)| system.is_tried_weight()) {
        return String::new();
    }
    let part = Part::Development;
    let present: Vec<Class> =
        Class::ALL.into_iter().filter(|class| evaluated.count(*class, part) > 0).collect();
    let mut text = format!("Weights of the meaning, MRR@10, {}:\n\n| |", evaluated.name(part));
    for class in &present {
        text.push_str(&format!(" {} |", class.name()));
    }
    text.push_str(" mean |\n|---|");
    text.push_str(&"--:|".repeat(present.len() + 1));
    text.push('\n');
    for (system, worths) in evaluated.answers.iter().filter(|(one, _)| one.is_tried_weight()) {
        text.push_str(&format!("| {} |", system.name));
        let means: Vec<f64> = present
            .iter()
            .map(|class| average(evaluated.of(worths, *class, part).map(reciprocal)))
            .collect();
        for mean in &means {
            text.push_str(&format!(" {mean:.3} |"));
        }
        text.push_str(&format!(" {:.3} |\n", average(means.iter().copied())));
    }
    text.push('\n');
    text
}

/// Renders the replies to questions without an answer.
fn absent(evaluated: &Evaluated) -> String {
    if evaluated.absent.values().all(Vec::is_empty) {
        return String::new();
    }
    let mut text = format!(
        "Questions without an answer, {}:\n\n| | n | something shown | shown as a full match |\n|---|--:|--:|--:|\n",
        evaluated.name(Part::Other)
    );
    for (system, _) in evaluated.answers.iter().filter(|(one, _)| !one.is_tried_weight()) {
        let replies: Vec<&Reply> = evaluated.absent(&system.name).collect();
        let share = |fits: &dyn Fn(&Reply) -> bool| {
            100.0 * average(replies.iter().map(|reply| f64::from(u8::from(fits(reply)))))
        };
        text.push_str(&format!(
            "| {} | {} | {:.1} % | {:.1} % |\n",
            system.name,
            replies.len(),
            share(&|reply| !reply.shown.is_empty()),
            share(&|reply| !reply.shown.is_empty() && !reply.is_weak),
        ));
    }
    text.push('\n');
    text
}

impl Evaluated {
    fn worths(&self, wanted: &System) -> Option<&[Worth]> {
        let found = self.answers.iter().find(|(system, _)| system == wanted);
        found.map(|(_, worths)| worths.as_slice())
    }

    fn count(&self, class: Class, part: Part) -> usize {
        let asked = |item: &&Item| item.class == class && self.has(part, item);
        self.items.iter().filter(asked).count()
    }

    /// Returns the replies to questions without an answer that are reported: every other one if
    /// something is chosen on the rest.
    fn absent(&self, system: &str) -> impl Iterator<Item = &Reply> {
        let all = self.absent[system].iter().enumerate();
        all.filter(|(at, _)| !self.chooses || !at.is_multiple_of(2)).map(|(_, reply)| reply)
    }
}

fn average(figures: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = figures.fold((0.0, 0.0), |(sum, count), one| (sum + one, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Formats times. Those of a debug build mean nothing and are left out.
fn times(all: &[Duration]) -> String {
    if cfg!(debug_assertions) {
        return "–".to_owned();
    }
    let millis = |share| quantile(all.to_vec(), share).as_secs_f64() * 1000.0;
    format!("{:.1} / {:.1} ms", millis(0.5), millis(0.95))
}

/// Writes the tables into the document.
pub(super) fn write(path: &Path, tables: &str) -> Result<()> {
    let attempt = || format!("could not use {}", path.display());
    let document = fs::read_to_string(path).with_context(attempt)?;
    let (before, rest) = document.split_once(BEGIN).with_context(attempt)?;
    let (_, after) = rest.split_once(END).with_context(attempt)?;
    let document = format!("{before}{BEGIN}\n\n{tables}{END}{after}");
    fs::write(path, document).with_context(attempt)
}
