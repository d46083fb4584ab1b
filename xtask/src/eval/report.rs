//! Renders the tables of an evaluation.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::measure::{Mean, Reply, Worth, gain, mean, quantile, reciprocal, success};
use super::queries::{Class, Item};
use super::systems::System;
use super::{Evaluated, Part};

/// Minimum similarities that are tried.
const FLOORS: [f32; 9] = [0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7];

const BEGIN: &str = "<!-- eval: written by `cargo xtask eval --write` -->";
const END: &str = "<!-- /eval -->";

/// Renders all tables of one history.
pub(super) fn history(evaluated: &Evaluated) -> String {
    let Evaluated { name, sessions, messages, vectors, items, .. } = evaluated;
    let counts: Vec<String> = Class::ALL
        .iter()
        .map(|class| {
            let count = items.iter().filter(|item| item.class == *class).count();
            format!("{} {}", count, class.name())
        })
        .collect();
    let mut text = format!(
        "### {name}\n\n{sessions} sessions, {messages} messages, {vectors} vectors. Questions: {}.\n\n",
        counts.join(", ")
    );
    text.push_str(&weights(evaluated));
    for class in Class::ALL {
        text.push_str(&class_table(evaluated, class));
    }
    text.push_str(&differences(evaluated));
    text.push_str(&absent(evaluated));
    text.push_str(&floors(evaluated));
    text
}

/// Renders the mean reciprocal rank of all systems for each class, on the development half.
fn weights(evaluated: &Evaluated) -> String {
    let mut text = format!("MRR@10, {}:\n\n| |", evaluated.name(Part::Development));
    let present: Vec<Class> =
        Class::ALL.into_iter().filter(|class| evaluated.asks(*class)).collect();
    for class in &present {
        text.push_str(&format!(" {} |", class.name()));
    }
    text.push_str(" mean |\n|---|");
    text.push_str(&"--:|".repeat(present.len() + 1));
    text.push('\n');
    for (system, worths) in &evaluated.answers {
        text.push_str(&format!("| {} |", system.name));
        let means: Vec<f64> = present
            .iter()
            .map(|class| average(evaluated.of(worths, *class, Part::Development).map(reciprocal)))
            .collect();
        for mean in &means {
            text.push_str(&format!(" {mean:.3} |"));
        }
        text.push_str(&format!(" {:.3} |\n", average(means.iter().copied())));
    }
    text.push('\n');
    text
}

/// Renders the results of one class, on the reporting half.
fn class_table(evaluated: &Evaluated, class: Class) -> String {
    if !evaluated.asks(class) {
        return String::new();
    }
    let mut text = format!(
        "**{}**, {} ({} questions):\n\n| | success@1 | success@5 | MRR@10 (95 %) | nDCG@10 | recall@50 | tokens to evidence | p50 / p95 |\n|---|--:|--:|--:|--:|--:|--:|--:|\n",
        class.name(),
        evaluated.name(Part::Other),
        evaluated.count(class)
    );
    for (system, worths) in evaluated.answers.iter().filter(|(system, _)| is_shown(system)) {
        let all: Vec<&Worth> = evaluated.of(worths, class, Part::Other).collect();
        let share = |figure: &dyn Fn(&Worth) -> f64| average(all.iter().map(|one| figure(one)));
        let ranks: Vec<f64> = all.iter().map(|one| reciprocal(one)).collect();
        let Mean { value, low, high } = mean(&ranks);
        let found = all.iter().filter(|one| one.rank.is_some());
        text.push_str(&format!(
            "| {} | {:.3} | {:.3} | {value:.3} ({low:.2}–{high:.2}) | {:.3} | {:.3} | {} | {} |\n",
            system.name,
            share(&|one| success(one, 1)),
            share(&|one| success(one, 5)),
            share(&gain),
            share(&|one| success(one, 50)),
            quantile(found.map(|one| one.tokens).collect(), 0.5),
            times(&all.iter().map(|one| one.took).collect::<Vec<_>>()),
        ));
    }
    text.push('\n');
    text
}

/// Renders the differences between the default and lexical search, question by question.
fn differences(evaluated: &Evaluated) -> String {
    let find = |name: &str| evaluated.answers.iter().find(|(system, _)| system.name == name);
    let hybrid = System::chosen(super::Embedder::Table);
    let (Some((_, words)), Some((_, both))) = (find("lexical"), find(&hybrid.name)) else {
        return String::new();
    };
    let mut text = format!(
        "{} against lexical, {}, difference of MRR@10 (95 %) and of success@1:\n\n| | MRR@10 | success@1 | better / worse |\n|---|--:|--:|--:|\n",
        hybrid.name,
        evaluated.name(Part::Other)
    );
    for class in Class::ALL.into_iter().filter(|class| evaluated.asks(*class)) {
        let pairs: Vec<(&Worth, &Worth)> = evaluated
            .of(both, class, Part::Other)
            .zip(evaluated.of(words, class, Part::Other))
            .collect();
        let differences: Vec<f64> =
            pairs.iter().map(|(both, words)| reciprocal(both) - reciprocal(words)).collect();
        let Mean { value, low, high } = mean(&differences);
        let first = average(pairs.iter().map(|(both, words)| success(both, 1) - success(words, 1)));
        let better = differences.iter().filter(|one| **one > 0.0).count();
        let worse = differences.iter().filter(|one| **one < 0.0).count();
        text.push_str(&format!(
            "| {} | {value:+.3} ({low:+.3} to {high:+.3}) | {first:+.3} | {better} / {worse} |\n",
            class.name()
        ));
    }
    text.push('\n');
    text
}

/// Renders the replies to questions without an answer.
fn absent(evaluated: &Evaluated) -> String {
    let mut text = format!(
        "Questions without an answer, {}:\n\n| | something shown | shown as a full match |\n|---|--:|--:|\n",
        evaluated.name(Part::Other)
    );
    for (system, _) in evaluated.answers.iter().filter(|(system, _)| is_shown(system)) {
        let replies: Vec<&Reply> = evaluated.absent(&system.name, Part::Other).collect();
        let share = |fits: &dyn Fn(&Reply) -> bool| {
            average(replies.iter().map(|reply| f64::from(u8::from(fits(reply)))))
        };
        text.push_str(&format!(
            "| {} | {:.3} | {:.3} |\n",
            system.name,
            share(&|reply| !reply.shown.is_empty()),
            share(&|reply| !reply.shown.is_empty() && !reply.is_weak),
        ));
    }
    text.push('\n');
    text
}

/// Renders the effect of a minimum similarity, on the development half: the share of questions
/// answered by meaning within the first ten results, and of questions without an answer.
fn floors(evaluated: &Evaluated) -> String {
    let far = System::far().name;
    let Some((_, worths)) = evaluated.answers.iter().find(|(system, _)| system.name == far) else {
        return String::new();
    };
    let mut text = format!(
        "Nearness that is asked for, {}: what is shown of questions without an answer, and what is kept of those answered by meaning alone among the first ten:\n\n| at least | without an answer | prompt | title | question |\n|--:|--:|--:|--:|--:|\n",
        evaluated.name(Part::Development)
    );
    for floor in FLOORS {
        let absent = evaluated.absent(&far, Part::Development);
        let shown = average(absent.map(|reply| f64::from(u8::from(reply.score >= floor))));
        text.push_str(&format!("| {floor:.2} | {shown:.3} |"));
        for class in [Class::Prompt, Class::Title, Class::Question] {
            let answered =
                evaluated.of(worths, class, Part::Development).filter(|one| success(one, 10) > 0.0);
            let kept = average(answered.map(|one| f64::from(u8::from(one.score >= floor))));
            text.push_str(&format!(" {kept:.3} |"));
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// Returns whether a system is more than one of the tried weights.
fn is_shown(system: &System) -> bool {
    let chosen = System::chosen(system.embedder);
    !system.name.starts_with("hybrid") || system.name == chosen.name
}

impl Evaluated {
    fn count(&self, class: Class) -> usize {
        let asked = |item: &&Item| item.class == class && self.has(Part::Other, item);
        self.items.iter().filter(asked).count()
    }

    /// Returns the replies to questions without an answer. These are split into two halves too.
    fn absent(&self, system: &str, part: Part) -> impl Iterator<Item = &Reply> {
        let all = self.absent[system].iter().enumerate();
        let is_of = move |at: usize| at.is_multiple_of(2) == (part == Part::Development);
        all.filter(move |(at, _)| !self.chooses || is_of(*at)).map(|(_, reply)| reply)
    }

    fn asks(&self, class: Class) -> bool {
        self.count(class) > 0
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
