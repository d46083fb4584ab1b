//! `names`: measures how clear the names and comments of the product are. A figure that is worse
//! than its limit fails.

mod source;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use self::source::SourceSurvey;
use crate::cargo::root;
use crate::no_arguments;

/// The measured directory.
const PRODUCT: &str = "crates";

/// Directories and files that hold no product code.
const LEFT_OUT: [&str; 7] =
    ["tests", "benches", "fixtures", "examples", "vendor", "tests.rs", "test.rs"];

/// The figures and their limits. Tighten a limit when its figure improves.
const FIGURES: [Figure; 8] = [
    Figure {
        title: "functions with a unique name, %",
        limit: Limit::AtLeast(75.0),
        measure: |survey| share(unique_names(&survey.functions), all_names(&survey.functions)),
    },
    Figure {
        title: "functions with a name of one word, %",
        limit: Limit::AtMost(30.0),
        measure: |survey| share(one_word_names(&survey.functions), all_names(&survey.functions)),
    },
    Figure {
        title: "types with a unique name, %",
        limit: Limit::AtLeast(92.0),
        measure: |survey| share(unique_names(&survey.types), all_names(&survey.types)),
    },
    Figure {
        title: "doc comments that open like a question, %",
        limit: Limit::AtMost(0.5),
        measure: |survey| share(survey.question_comments, survey.doc_comments),
    },
    Figure {
        title: "functions with a tuple parameter",
        limit: Limit::AtMost(0.0),
        measure: |survey| survey.tuple_parameters as f64,
    },
    Figure {
        title: "functions with more than 7 parameters",
        limit: Limit::AtMost(0.0),
        measure: |survey| survey.many_parameters as f64,
    },
    Figure {
        title: "lines of a function, median",
        limit: Limit::AtMost(10.0),
        measure: |survey| percentile(&survey.function_lines, 50),
    },
    Figure {
        title: "lines of a function, 95th percentile",
        limit: Limit::AtMost(36.0),
        measure: |survey| percentile(&survey.function_lines, 95),
    },
];

/// A figure about the source text.
struct Figure {
    title: &'static str,
    limit: Limit,
    measure: fn(&SourceSurvey) -> f64,
}

/// The values that a figure may have.
enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    /// Returns whether a value with one decimal keeps the limit.
    fn allows(&self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= *limit,
            Self::AtMost(limit) => value <= *limit,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::AtLeast(limit) => format!("at least {limit}"),
            Self::AtMost(limit) => format!("at most {limit}"),
        }
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    no_arguments(arguments)?;
    let (report, broken) = report_figures(&survey_product()?);
    print!("{report}");
    ensure!(broken.is_empty(), "worse than the limit: {}", broken.join("; "));
    Ok(())
}

/// Returns a table of all figures, and the titles of those beyond their limits.
fn report_figures(survey: &SourceSurvey) -> (String, Vec<&'static str>) {
    let (mut report, mut broken) = (String::new(), Vec::new());
    for figure in &FIGURES {
        let value = ((figure.measure)(survey) * 10.0).round() / 10.0;
        let limit = figure.limit.describe();
        report.push_str(&format!("{:<44} {value:>6} {limit:>14}\n", figure.title));
        if !figure.limit.allows(value) {
            broken.push(figure.title);
        }
    }
    (report, broken)
}

fn survey_product() -> Result<SourceSurvey> {
    let mut survey = SourceSurvey::default();
    add_directory(&root().join(PRODUCT), &mut survey)?;
    survey.function_lines.sort_unstable();
    Ok(survey)
}

fn add_directory(directory: &Path, survey: &mut SourceSurvey) -> Result<()> {
    let attempt = || format!("could not read {}", directory.display());
    for entry in fs::read_dir(directory).with_context(attempt)? {
        let path = entry.with_context(attempt)?.path();
        if path.file_name().is_some_and(|name| LEFT_OUT.iter().any(|left_out| name == *left_out)) {
            continue;
        }
        if path.is_dir() {
            add_directory(&path, survey)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            survey.add_file(&fs::read_to_string(&path).with_context(attempt)?);
        }
    }
    Ok(())
}

fn all_names(names: &BTreeMap<String, usize>) -> usize {
    names.values().sum()
}

fn unique_names(names: &BTreeMap<String, usize>) -> usize {
    names.values().filter(|count| **count == 1).count()
}

fn one_word_names(names: &BTreeMap<String, usize>) -> usize {
    names.iter().filter(|(name, _)| !name.contains('_')).map(|(_, count)| count).sum()
}

/// Returns a share in percent.
fn share(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn percentile(sorted: &[usize], percent: usize) -> f64 {
    sorted.get(sorted.len() * percent / 100).copied().unwrap_or_default() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_product_keep_their_limits() {
        let (report, broken) = report_figures(&survey_product().unwrap());
        assert!(broken.is_empty(), "worse than the limit: {broken:?}\n{report}");
    }

    #[test]
    fn figures_beyond_their_limits_are_reported() {
        let mut survey = SourceSurvey::default();
        survey.add_file(
            "/// What it is.\nfn read((a, b): (u8, u8)) {}\nfn write() {}\nfn write() {}\n\
             struct Row;\nmod other { struct Row; }\n",
        );
        let (_, broken) = report_figures(&survey);
        assert_eq!(
            broken,
            [
                "functions with a unique name, %",
                "functions with a name of one word, %",
                "types with a unique name, %",
                "doc comments that open like a question, %",
                "functions with a tuple parameter",
            ]
        );
        assert_eq!(survey.tuple_parameters, 1);
    }
}
