//! The charts over time, and those of the sizes of sessions.

use std::collections::BTreeMap;

use agent_journal::analyze::SizeClass;
use jiff::civil::Date;
use maud::Markup;

use super::StatsView;
use super::span::PeriodBucket;
use super::summary::percent_text;
use crate::output::{amount, count, thousands};
use crate::web::charts::{COLORS, CalendarChart, ChartColumn, Plot, Series};

/// Weeks of the calendar.
const WEEKS: i64 = 53;

/// A chart of the number of sessions in each size class.
struct SizeChart<'c> {
    id: &'c str,
    title: &'c str,
    /// The name of the size.
    unit: &'c str,
    /// The field that selects the sessions of a class.
    field: &'c str,
    classes: &'c [SizeClass],
    note: String,
}

impl StatsView<'_> {
    /// Builds a chart over the period of the page.
    fn over_time<'t>(
        &self,
        id: &'t str,
        title: &'t str,
        series: Vec<Series>,
        format: fn(f64) -> String,
        values: impl Fn(&PeriodBucket) -> Vec<Option<f64>>,
    ) -> Plot<'t> {
        let unit = self.span.unit;
        let column = |step: &PeriodBucket| {
            let (name, short) = step.bucket_names(unit);
            let (since, until) = (step.first.to_string(), step.last.to_string());
            let link = self.choice.sessions_url(&[("since", &since), ("until", &until)]);
            ChartColumn { name, short, link: Some(link), values: values(step) }
        };
        Plot {
            id,
            title,
            note: format!("per {}", unit.unit_name()),
            unit: unit.column_head(),
            series,
            columns: self.span.steps.iter().map(column).collect(),
            format,
        }
    }

    pub(super) fn sessions_chart(&self) -> Markup {
        let values = |step: &PeriodBucket| vec![Some(step.started as f64)];
        self.over_time(
            "sessions",
            "Sessions started",
            Series::single_series("Sessions"),
            whole_number,
            values,
        )
        .draw_bars()
    }

    pub(super) fn activity_chart(&self) -> Markup {
        let series =
            vec![named_series("Active", 0), named_series("Work (overlaps counted once)", 2)];
        let hours = |seconds: u64| Some(seconds as f64 / 3600.0);
        let values = |step: &PeriodBucket| vec![hours(step.active_s), hours(step.work_s)];
        self.over_time("active", "Active time", series, in_hours, values).draw_lines()
    }

    pub(super) fn cost_chart(&self) -> Markup {
        // A model without a price has no cost, not even in buckets without usage.
        let has_price =
            |model: usize| self.span.steps.iter().any(|step| step.spent[model].1.is_some());
        let priced: Vec<bool> = (0..=self.span.models.len()).map(has_price).collect();
        let values = |step: &PeriodBucket| {
            let models = step.spent.iter().zip(&priced);
            let micros = models.map(|((tokens, micros), is_priced)| {
                micros.or((*tokens == 0 && *is_priced).then_some(0))
            });
            micros.map(|micros| micros.map(|it| it as f64 / 1e6)).collect()
        };
        let plot = self.over_time("cost", "Cost by model", self.by_model(), dollar_amount, values);
        Plot { note: format!("per {}, {}", self.span.unit.unit_name(), self.cost_note()), ..plot }
            .draw_bars()
    }

    pub(super) fn tokens_chart(&self) -> Markup {
        let values = |step: &PeriodBucket| {
            step.spent.iter().map(|(tokens, _)| Some(*tokens as f64)).collect()
        };
        self.over_time("tokens", "Tokens by model", self.by_model(), short_number, values)
            .draw_bars()
    }

    fn by_model(&self) -> Vec<Series> {
        let models = self.span.models.iter().enumerate();
        let mut series: Vec<Series> = models.map(|(at, model)| named_series(model, at)).collect();
        if self.stats.models.len() > series.len() {
            series.push(named_series("Other models", COLORS));
        }
        series
    }

    pub(super) fn token_kinds(&self) -> Markup {
        let series = vec![
            named_series("Cache read", 1),
            named_series("Cache write", 5),
            named_series("Input", 0),
            named_series("Output", 2),
        ];
        let values = |step: &PeriodBucket| {
            let it = &step.tokens;
            let kinds = [it.cache_read, it.cache_creation, it.input, it.output];
            kinds.map(|tokens| Some(tokens as f64)).into()
        };
        self.over_time("kinds", "Tokens by kind", series, short_number, values).draw_bars()
    }

    pub(super) fn cache_chart(&self) -> Markup {
        let values = |step: &PeriodBucket| vec![step.cached_share()];
        self.over_time(
            "cache",
            "Input read from cache",
            vec![named_series("Cached", 1)],
            percent_text,
            values,
        )
        .draw_lines()
    }

    pub(super) fn failures_chart(&self) -> Markup {
        let values = |step: &PeriodBucket| {
            vec![(step.results > 0).then(|| step.errors as f64 / step.results as f64)]
        };
        self.over_time(
            "failures",
            "Failed tool calls",
            vec![named_series("Failed", 3)],
            percent_text,
            values,
        )
        .draw_lines()
    }

    pub(super) fn hours_chart(&self) -> Markup {
        let column = |(hour, messages): (usize, &u64)| ChartColumn {
            name: format!("{hour:02}:00–{hour:02}:59"),
            short: hour.to_string(),
            link: self.part_url("hour", &hour.to_string()),
            values: vec![Some(*messages as f64)],
        };
        let plot = Plot {
            id: "hours",
            title: "Hour of the day",
            note: "all messages".to_owned(),
            unit: "Hour",
            series: Series::single_series("Messages"),
            columns: self.stats.hours.iter().enumerate().map(column).collect(),
            format: short_number,
        };
        plot.draw_bars()
    }

    pub(super) fn turns_chart(&self) -> Markup {
        let average = self.stats.totals.turns_per_session();
        let note = average.map_or(String::new(), |turns| format!("{turns:.1} on average"));
        self.size_class_chart(&SizeChart {
            id: "turns",
            title: "Prompts per session",
            unit: "Prompts",
            field: "prompts",
            classes: &self.stats.turns,
            note,
        })
    }

    pub(super) fn durations_chart(&self) -> Markup {
        let totals = &self.stats.totals;
        let average = totals.active_s.checked_div(totals.sessions);
        let note = average.map_or(String::new(), |seconds| {
            format!("{} on average", crate::output::duration(seconds))
        });
        self.size_class_chart(&SizeChart {
            id: "durations",
            title: "Active time per session",
            unit: "Active",
            field: "active",
            classes: &self.stats.durations,
            note,
        })
    }

    /// Renders a chart of the number of sessions in each size class.
    fn size_class_chart(&self, chart: &SizeChart<'_>) -> Markup {
        let SizeChart { id, title, unit, field, classes, ref note } = *chart;
        let note = note.clone();
        let column = |one: &SizeClass| ChartColumn {
            name: one.name.to_owned(),
            short: one.name.replace(" and more", "+").replace("under ", "< ").replace(" min", "m"),
            link: self.part_url(field, one.range),
            values: vec![Some(one.count as f64)],
        };
        let (series, columns) =
            (Series::single_series("Sessions"), classes.iter().map(column).collect());
        Plot { id, title, note, unit, series, columns, format: whole_number }.draw_bars()
    }

    pub(super) fn activity_calendar(&self) -> Markup {
        let days: BTreeMap<Date, u64> =
            self.stats.days.iter().map(|(day, figures)| (*day, figures.messages)).collect();
        let link = |date: Date| {
            let day = date.to_string();
            self.choice.sessions_url(&[("since", &day), ("until", &day)])
        };
        let streak = self.stats.streak;
        let calendar = CalendarChart {
            id: "calendar",
            title: "Calendar",
            note: format!(
                "messages per day · streak {}, longest {}",
                count(streak.current, "day"),
                streak.longest
            ),
            what: "message",
            days: &days,
            last: self.span.last.min(self.now.date()),
            weeks: WEEKS,
            link: &link,
        };
        calendar.draw_calendar()
    }
}

fn named_series(name: &str, color: usize) -> Series {
    Series { name: name.to_owned(), color }
}

fn whole_number(number: f64) -> String {
    if number.fract() == 0.0 { thousands(number as u64) } else { format!("{number:.1}") }
}

fn short_number(number: f64) -> String {
    amount(number as u64)
}

fn dollar_amount(number: f64) -> String {
    match number {
        0.0 => "$0".to_owned(),
        _ if number < 0.01 => "<$0.01".to_owned(),
        _ if number < 10.0 && number.fract() > 0.0 => format!("${number:.2}"),
        _ => format!("${}", thousands(number.round() as u64)),
    }
}

fn in_hours(number: f64) -> String {
    match (number * 60.0).round() as u64 {
        0 => "0".to_owned(),
        minutes @ 1..60 => format!("{minutes} min"),
        minutes if minutes % 60 == 0 || minutes > 600 => format!("{} h", minutes / 60),
        minutes => format!("{:.1} h", minutes as f64 / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_beside_an_axis() {
        let money = [0.0, 0.004, 1.5, 1234.4].map(dollar_amount);
        assert_eq!(money, ["$0", "<$0.01", "$1.50", "$1,234"]);
        assert_eq!(
            [0.0, 0.25, 1.0, 1.5, 20.0].map(in_hours),
            ["0", "15 min", "1 h", "1.5 h", "20 h"]
        );
        assert_eq!([0.0, 0.5, 1200.0].map(whole_number), ["0", "0.5", "1,200"]);
    }
}
