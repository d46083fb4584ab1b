//! Bar and line charts: columns side by side, each with a value for every series.

use std::fmt::Write;

use maud::{Markup, html};

use super::{Caption, axis_scale, chart_figure, empty_chart, format_px, series_class};

/// Size of the drawing and edges of its plot area, in SVG units.
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 512.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 166.0;

/// Approximate width of a letter in a label, on a phone.
const LETTER: f64 = 9.0;

/// Most columns with a label below the axis.
const NAMES: usize = 8;

/// A chart of numbers in columns.
pub(crate) struct Plot<'a> {
    /// The id of its element in the page.
    pub(crate) id: &'a str,
    /// The title above it.
    pub(crate) title: &'a str,
    /// A note beside the title.
    pub(crate) note: String,
    /// The noun for a column.
    pub(crate) unit: &'a str,
    /// The series, from the bottom up.
    pub(crate) series: Vec<Series>,
    /// The columns, from left to right.
    pub(crate) columns: Vec<ChartColumn>,
    /// Formats a value.
    pub(crate) format: fn(f64) -> String,
}

/// A series: one of the values in every column.
pub(crate) struct Series {
    /// The name in the legend.
    pub(crate) name: String,
    /// The index of its colour.
    pub(crate) color: usize,
}

/// A column of a chart.
pub(crate) struct ChartColumn {
    /// The full name.
    pub(crate) name: String,
    /// The name below the axis, where there is little room.
    pub(crate) short: String,
    /// The URL that lists the sessions behind it.
    pub(crate) link: Option<String>,
    /// The value of each series, where there is one.
    pub(crate) values: Vec<Option<f64>>,
}

impl Series {
    /// Creates the series of a chart that has only one.
    pub(crate) fn single_series(name: &str) -> Vec<Self> {
        vec![Self { name: name.to_owned(), color: 0 }]
    }
}

impl ChartColumn {
    fn column_total(&self) -> f64 {
        self.values.iter().flatten().sum()
    }

    fn largest_value(&self) -> f64 {
        self.values.iter().flatten().copied().fold(0.0, f64::max)
    }

    fn value_of_series(&self, series: usize) -> Option<f64> {
        self.values.get(series).copied().flatten()
    }
}

impl Plot<'_> {
    /// Renders bars; the bars of several series are stacked.
    pub(crate) fn draw_bars(&self) -> Markup {
        let frame = PlotFrame::new(self, ChartColumn::column_total);
        let mut paths = vec![String::new(); self.series.len()];
        let width = (frame.step * 0.78).clamp(1.0, 40.0);
        for (at, column) in self.columns.iter().enumerate() {
            let mut below = 0.0;
            for (series, path) in paths.iter_mut().enumerate() {
                let value = column.value_of_series(series).unwrap_or(0.0);
                if value <= 0.0 {
                    continue;
                }
                let (y, base) = (frame.y_of_value(below + value), frame.y_of_value(below));
                // A value above zero is always visible.
                let height = (base - y).max(1.0);
                let x = frame.column_center(at) - width / 2.0;
                let (x, y) = (format_px(x), format_px(base - height));
                let _ = write!(
                    path,
                    "M{x} {y}h{}v{}h-{}z",
                    format_px(width),
                    format_px(height),
                    format_px(width)
                );
                below += value;
            }
        }
        let drawn = html! {
            @for (series, path) in self.series.iter().zip(&paths) {
                @if !path.is_empty() { path.bar.(series_class(series.color)) d=(path) {} }
            }
        };
        self.finish_plot(&frame, &drawn, ChartColumn::column_total)
    }

    /// Renders a line for every series, interrupted where there is no value.
    pub(crate) fn draw_lines(&self) -> Markup {
        let frame = PlotFrame::new(self, ChartColumn::largest_value);
        let line = |series: usize| {
            let (mut path, mut dots) = (String::new(), String::new());
            let value = |at: usize| self.columns.get(at).and_then(|it| it.value_of_series(series));
            let mut is_open = false;
            for at in 0..self.columns.len() {
                let Some(here) = value(at) else {
                    is_open = false;
                    continue;
                };
                let (x, y) =
                    (format_px(frame.column_center(at)), format_px(frame.y_of_value(here)));
                let _ = write!(path, "{}{x} {y}", if is_open { 'L' } else { 'M' });
                is_open = true;
                // A line of zero length with round ends is a dot.
                if self.columns.len() <= 31 || value(at + 1).is_none() {
                    let _ = write!(dots, "M{x} {y}h0");
                }
            }
            (path, dots)
        };
        let drawn = html! {
            @for (at, series) in self.series.iter().enumerate() {
                @let (path, dots) = line(at);
                path.line.(series_class(series.color)) d=(path) {}
                path.dots.(series_class(series.color)) d=(dots) {}
            }
        };
        self.finish_plot(&frame, &drawn, ChartColumn::largest_value)
    }

    fn finish_plot(
        &self,
        frame: &PlotFrame,
        drawn: &Markup,
        size: fn(&ChartColumn) -> f64,
    ) -> Markup {
        let is_empty = self.columns.iter().all(|column| size(column) <= 0.0);
        let drawing = html! {
            @if is_empty { (empty_chart()) } @else {
                svg.plot viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) {
                    g role="img" aria-labelledby=(format!("{}-title", self.id)) {
                        title id=(format!("{}-title", self.id)) { (self.plot_summary(size)) }
                        (frame.draw_axes(self))
                        (drawn)
                    }
                    (self.column_targets(frame))
                }
                @if self.series.len() > 1 { (self.series_legend()) }
            }
        };
        let caption = Caption { id: self.id, title: self.title, note: &self.note };
        chart_figure(&caption, &drawing, &self.plot_table())
    }

    /// Describes the chart in a sentence.
    fn plot_summary(&self, size: fn(&ChartColumn) -> f64) -> String {
        let most = self.columns.iter().max_by(|a, b| size(a).total_cmp(&size(b)));
        let most = most.map_or(String::new(), |column| {
            format!(", at most {} ({})", (self.format)(size(column)), column.name)
        });
        format!("{}: {} columns{most}", self.title, self.columns.len())
    }

    /// Renders the areas that react to the pointer: every column over its whole height. The
    /// keyboard reaches the same links in the table.
    fn column_targets(&self, frame: &PlotFrame) -> Markup {
        let height = format_px(BOTTOM - TOP);
        let target = |at: usize, column: &ChartColumn| {
            let x = frame.column_center(at) - frame.step / 2.0;
            html! {
                title { (self.describe_column(column)) }
                rect.target x=(format_px(x)) y=(format_px(TOP)) width=(format_px(frame.step)) height=(height) {}
            }
        };
        html! {
            g aria-hidden="true" {
                @for (at, column) in self.columns.iter().enumerate() {
                    @match &column.link {
                        Some(link) => a href=(link) tabindex="-1" { (target(at, column)) },
                        None => g { (target(at, column)) },
                    }
                }
            }
        }
    }

    /// Describes a column: its name and its values.
    fn describe_column(&self, column: &ChartColumn) -> String {
        let values = self.series.iter().enumerate().filter_map(|(at, series)| {
            let value = column
                .value_of_series(at)
                .filter(|value| *value > 0.0 || self.series.len() == 1)?;
            Some(format!("\n{} {}", (self.format)(value), series.name))
        });
        format!("{}{}", column.name, values.collect::<String>())
    }

    fn series_legend(&self) -> Markup {
        html! {
            ul.legend {
                @for series in &self.series {
                    li {
                        svg.swatch viewBox="0 0 10 10" aria-hidden="true" {
                            rect.bar.(series_class(series.color)) width="10" height="10" rx="2" {}
                        }
                        (series.name)
                    }
                }
            }
        }
    }

    fn plot_table(&self) -> Markup {
        html! {
            table {
                thead { tr {
                    th scope="col" { (self.unit) }
                    @for series in &self.series { th.number scope="col" { (series.name) } }
                } }
                tbody {
                    @for column in self.columns.iter().filter(|it| it.values.iter().any(Option::is_some)) {
                        tr {
                            th scope="row" {
                                @match &column.link {
                                    Some(link) => a href=(link) { (column.name) },
                                    None => (column.name),
                                }
                            }
                            @for at in 0..self.series.len() {
                                td.number { (column.value_of_series(at).map_or("–".to_owned(), self.format)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The mapping of values to coordinates.
struct PlotFrame {
    top: f64,
    ticks: Vec<f64>,
    /// Width of one column.
    step: f64,
}

impl PlotFrame {
    fn new(plot: &Plot<'_>, size: fn(&ChartColumn) -> f64) -> Self {
        let largest = plot.columns.iter().map(size).fold(0.0, f64::max);
        let (top, ticks) = axis_scale(largest);
        let step = (RIGHT - LEFT) / plot.columns.len().max(1) as f64;
        Self { top, ticks, step }
    }

    fn y_of_value(&self, value: f64) -> f64 {
        BOTTOM - value / self.top * (BOTTOM - TOP)
    }

    fn column_center(&self, column: usize) -> f64 {
        LEFT + (column as f64 + 0.5) * self.step
    }

    /// Returns the x coordinate and anchor of a column's label: centred, unless the edge would cut
    /// it.
    fn name_place(&self, column: usize, name: &str) -> (f64, &'static str) {
        let center = self.column_center(column);
        let half = LETTER / 2.0 * name.chars().count() as f64;
        if center + half > WIDTH { (WIDTH, "end") } else { (center, "middle") }
    }

    fn draw_axes(&self, plot: &Plot<'_>) -> Markup {
        let lines = self.ticks.iter().fold(String::new(), |mut path, tick| {
            let _ = write!(path, "M{LEFT} {}H{RIGHT}", format_px(self.y_of_value(*tick)));
            path
        });
        let every = plot.columns.len().div_ceil(NAMES).max(1);
        html! {
            path.grid d=(lines) {}
            @for tick in &self.ticks {
                text.tick x=(format_px(LEFT - 6.0)) y=(format_px(self.y_of_value(*tick) + 4.0)) text-anchor="end" {
                    ((plot.format)(*tick))
                }
            }
            @for (place, at) in (0..plot.columns.len()).step_by(every).enumerate() {
                @let (x, anchor) = self.name_place(at, &plot.columns[at].short);
                text.tick.minor[place % 2 == 1] x=(format_px(x)) y=(format_px(BOTTOM + 17.0)) text-anchor=(anchor) {
                    (plot.columns[at].short)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(values: &[&[Option<f64>]]) -> Plot<'static> {
        let column = |(at, values): (usize, &&[Option<f64>])| ChartColumn {
            name: format!("day {at} <b>"),
            short: at.to_string(),
            link: (at == 0).then(|| "/sessions?since=1&until=2".to_owned()),
            values: values.to_vec(),
        };
        let count = values.first().map_or(1, |it| it.len());
        Plot {
            id: "x",
            title: "Sessions",
            note: String::new(),
            unit: "Day",
            series: (0..count).map(|at| Series { name: format!("s{at}"), color: at }).collect(),
            columns: values.iter().enumerate().map(column).collect(),
            format: |value| format!("{value:.0}"),
        }
    }

    #[test]
    fn bars_are_as_high_as_their_values_and_stand_on_each_other() {
        let drawn = plot(&[&[Some(1.0), Some(3.0)], &[None, Some(2.0)]]).draw_bars().into_string();
        // Four steps of 39 pixels; the second series begins where the first ends.
        assert!(drawn.contains(r#"d="M147 127h40v39h-40z""#), "{drawn}");
        assert!(drawn.contains(r#"d="M147 10h40v117h-40zM377 88h40v78h-40z""#), "{drawn}");
    }

    #[test]
    fn a_column_leads_to_the_sessions_behind_it_from_the_picture_and_the_table() {
        let drawn = plot(&[&[Some(1.0)], &[Some(2.0)]]).draw_bars().into_string();
        let link = r#"href="/sessions?since=1&amp;until=2""#;
        assert_eq!(drawn.matches(link).count(), 2, "{drawn}");
        assert!(drawn.contains(r#"tabindex="-1""#));
    }

    #[test]
    fn every_chart_says_what_it_shows_and_has_its_numbers_as_a_table() {
        for drawn in
            [plot(&[&[Some(1.0)], &[Some(7.0)]]).draw_bars(), plot(&[&[Some(7.0)]]).draw_lines()]
        {
            let drawn = drawn.into_string();
            assert!(drawn.contains(r#"role="img" aria-labelledby="x-title""#), "{drawn}");
            assert!(drawn.contains("at most 7 (day"), "{drawn}");
            assert!(drawn.contains("<td class=\"number\">7</td>"), "{drawn}");
        }
    }

    #[test]
    fn nothing_needs_a_style_that_is_not_in_the_stylesheet() {
        let drawn = plot(&[&[Some(1.0), Some(3.0)]]).draw_bars().into_string();
        assert!(!drawn.contains("style"), "{drawn}");
        assert!(!drawn.contains("<b>"), "{drawn}");
    }

    #[test]
    fn a_line_is_broken_where_there_is_no_value() {
        let drawn = plot(&[&[Some(1.0)], &[None], &[Some(1.0)], &[Some(1.0)]]).draw_lines();
        let drawn = drawn.into_string();
        assert!(drawn.contains(r#"class="line s1" d="M109.5 10M339.5 10L454.5 10""#), "{drawn}");
    }

    #[test]
    fn no_name_is_cut_at_the_edge() {
        let mut plot = plot(&[&[Some(1.0)][..]; 15]);
        plot.columns[14].short = "Nov 2026".to_owned();
        let drawn = plot.draw_bars().into_string();
        assert!(drawn.contains(r#"x="520" y="183" text-anchor="end">Nov 2026<"#), "{drawn}");
        assert!(drawn.contains(r#"text-anchor="middle">12<"#), "{drawn}");
    }

    #[test]
    fn an_empty_chart_says_so() {
        for values in [&[][..], &[&[None][..], &[Some(0.0)][..]]] {
            let drawn = plot(values).draw_bars().into_string();
            assert!(drawn.contains("No sessions match"), "{drawn}");
            assert!(!drawn.contains("NaN") && !drawn.contains("<svg"), "{drawn}");
        }
    }

    #[test]
    fn something_small_beside_something_large_is_still_seen() {
        let drawn = plot(&[&[Some(1.0)], &[Some(1e9)]]).draw_bars().into_string();
        assert!(drawn.contains("M147 165h40v1h-40z"), "{drawn}");
    }
}
