//! Charts as SVG. Every chart has an accessible title, its numbers as a table, and colours by class
//! only: the pages forbid styles that are not in the stylesheet.

mod calendar;
mod meter;
mod plot;
mod ranking;

use maud::{Markup, html};

pub(crate) use calendar::CalendarChart;
pub(crate) use meter::{points_meter, score_ring};
pub(crate) use plot::{ChartColumn, Plot, Series};
pub(crate) use ranking::{Rank, Ranking};

/// Number of colours for series; further series are grey.
pub(crate) const COLORS: usize = 7;

/// The heading of a chart.
struct Caption<'a> {
    id: &'a str,
    title: &'a str,
    note: &'a str,
}

/// Renders a chart with its caption, and its table below.
fn chart_figure(caption: &Caption<'_>, drawing: &Markup, table: &Markup) -> Markup {
    let Caption { id, title, note } = caption;
    html! {
        figure.chart id=(id) {
            figcaption { (title) @if !note.is_empty() { " " span.note { (note) } } }
            (drawing)
            details.numbers {
                summary { "Numbers" span.sr { " of " (title) } }
                div.scroll tabindex="0" role="region" aria-label=(format!("Numbers of {title}")) {
                    (table)
                }
            }
        }
    }
}

/// Renders the text that replaces an empty chart.
fn empty_chart() -> Markup {
    html! { p.nothing { "No sessions match." } }
}

/// Formats a coordinate, to a tenth of a pixel.
fn format_px(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Returns the CSS class of the series with an index.
fn series_class(place: usize) -> String {
    if place < COLORS { format!("s{}", place + 1) } else { "s0".to_owned() }
}

/// Returns a round number that is not below `largest`, and the steps from zero to it.
fn axis_scale(largest: f64) -> (f64, Vec<f64>) {
    if largest <= 0.0 {
        return (1.0, vec![0.0]);
    }
    let rough = largest / 4.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|times| times * power);
    let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(rough);
    let count = (largest / step - 0.001).ceil().max(1.0);
    (count * step, (0..=count as u64).map(|at| at as f64 * step).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers_above_the_largest_value() {
        let check = |largest: f64, expected: &[f64]| {
            let (top, steps) = axis_scale(largest);
            assert_eq!(steps, expected, "{largest}");
            assert_eq!(Some(&top), steps.last());
        };
        check(4.0, &[0.0, 1.0, 2.0, 3.0, 4.0]);
        check(37.0, &[0.0, 10.0, 20.0, 30.0, 40.0]);
        check(81.0, &[0.0, 25.0, 50.0, 75.0, 100.0]);
        check(1_900_000.0, &[0.0, 500_000.0, 1_000_000.0, 1_500_000.0, 2_000_000.0]);
        assert_eq!(axis_scale(0.0), (1.0, vec![0.0]));
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(
            (format_px(3.0), format_px(2.04), format_px(2.06)),
            ("3".into(), "2".into(), "2.1".into())
        );
    }

    #[test]
    fn there_is_a_colour_for_every_series() {
        assert_eq!(
            (series_class(0), series_class(6), series_class(7)),
            ("s1".into(), "s7".into(), "s0".into())
        );
    }
}
