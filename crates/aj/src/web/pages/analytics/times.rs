//! The charts over time, and of what sessions are like.

use std::collections::BTreeMap;

use agent_journal::analyze::Class;
use jiff::civil::Date;
use maud::Markup;

use super::View;
use super::span::Step;
use super::summary::percent;
use crate::output::{amount, count, thousands};
use crate::web::charts::{COLORS, Calendar, Column, Plot, Series};

/// Weeks of the calendar.
const WEEKS: i64 = 53;

impl View<'_> {
    /// A chart over the time of the page.
    fn over_time<'t>(
        &self,
        (id, title): (&'t str, &'t str),
        series: Vec<Series>,
        format: fn(f64) -> String,
        values: impl Fn(&Step) -> Vec<Option<f64>>,
    ) -> Plot<'t> {
        let unit = self.span.unit;
        let column = |step: &Step| {
            let (name, short) = step.names(unit);
            let (since, until) = (step.first.to_string(), step.last.to_string());
            let link = self.choice.sessions(&[("since", &since), ("until", &until)]);
            Column { name, short, link: Some(link), values: values(step) }
        };
        Plot {
            id,
            title,
            note: format!("per {}", unit.name()),
            unit: unit.head(),
            series,
            columns: self.span.steps.iter().map(column).collect(),
            format,
        }
    }

    pub(super) fn sessions(&self) -> Markup {
        let values = |step: &Step| vec![Some(step.started as f64)];
        let name = ("sessions", "Sessions started");
        self.over_time(name, Series::only("Sessions"), whole, values).bars()
    }

    pub(super) fn activity(&self) -> Markup {
        let series = vec![named("Active", 0), named("Work, overlaps once", 2)];
        let hours = |seconds: u64| Some(seconds as f64 / 3600.0);
        let values = |step: &Step| vec![hours(step.active_s), hours(step.work_s)];
        self.over_time(("active", "Active time"), series, in_hours, values).lines()
    }

    pub(super) fn cost(&self) -> Markup {
        // A model without a price has no amount, not even where it rested.
        let has_price =
            |model: usize| self.span.steps.iter().any(|step| step.spent[model].1.is_some());
        let priced: Vec<bool> = (0..=self.span.models.len()).map(has_price).collect();
        let values = |step: &Step| {
            let models = step.spent.iter().zip(&priced);
            let micros = models.map(|((tokens, micros), is_priced)| {
                micros.or((*tokens == 0 && *is_priced).then_some(0))
            });
            micros.map(|micros| micros.map(|it| it as f64 / 1e6)).collect()
        };
        let plot = self.over_time(("cost", "Cost by model"), self.by_model(), dollars, values);
        Plot { note: format!("per {}, {}", self.span.unit.name(), self.cost_note()), ..plot }.bars()
    }

    pub(super) fn tokens(&self) -> Markup {
        let values =
            |step: &Step| step.spent.iter().map(|(tokens, _)| Some(*tokens as f64)).collect();
        self.over_time(("tokens", "Tokens by model"), self.by_model(), short, values).bars()
    }

    fn by_model(&self) -> Vec<Series> {
        let models = self.span.models.iter().enumerate();
        let mut series: Vec<Series> = models.map(|(at, model)| named(model, at)).collect();
        if self.stats.models.len() > series.len() {
            series.push(named("Other models", COLORS));
        }
        series
    }

    pub(super) fn token_kinds(&self) -> Markup {
        let series = vec![
            named("Cache read", 1),
            named("Cache write", 5),
            named("Input", 0),
            named("Output", 2),
        ];
        let values = |step: &Step| {
            let it = &step.tokens;
            let kinds = [it.cache_read, it.cache_creation, it.input, it.output];
            kinds.map(|tokens| Some(tokens as f64)).into()
        };
        self.over_time(("kinds", "Tokens by kind"), series, short, values).bars()
    }

    pub(super) fn cache(&self) -> Markup {
        let values = |step: &Step| vec![step.cached()];
        let name = ("cache", "Input read from caches");
        self.over_time(name, vec![named("Cached", 1)], percent, values).lines()
    }

    pub(super) fn failures(&self) -> Markup {
        let values = |step: &Step| {
            vec![(step.results > 0).then(|| step.errors as f64 / step.results as f64)]
        };
        let name = ("failures", "Tool calls that failed");
        self.over_time(name, vec![named("Failed", 3)], percent, values).lines()
    }

    pub(super) fn hours(&self) -> Markup {
        let column = |(hour, messages): (usize, &u64)| Column {
            name: format!("{hour:02}:00–{hour:02}:59"),
            short: hour.to_string(),
            link: self.part("hour", &hour.to_string()),
            values: vec![Some(*messages as f64)],
        };
        let plot = Plot {
            id: "hours",
            title: "Hour of the day",
            note: "messages of any kind".to_owned(),
            unit: "Hour",
            series: Series::only("Messages"),
            columns: self.stats.hours.iter().enumerate().map(column).collect(),
            format: short,
        };
        plot.bars()
    }

    pub(super) fn turns(&self) -> Markup {
        let average = self.stats.totals.turns_per_session();
        let note = average.map_or(String::new(), |turns| format!("{turns:.1} on average"));
        let about = ("turns", "Prompts a session", "Prompts");
        self.spread(about, ("prompts", &self.stats.turns), note)
    }

    pub(super) fn durations(&self) -> Markup {
        let totals = &self.stats.totals;
        let average = totals.active_s.checked_div(totals.sessions);
        let note = average.map_or(String::new(), |seconds| {
            format!("{} on average", crate::output::duration(seconds))
        });
        let about = ("durations", "Active time a session", "Active");
        self.spread(about, ("active", &self.stats.durations), note)
    }

    /// A chart of how many sessions there are of each size.
    fn spread(
        &self,
        (id, title, unit): (&str, &str, &str),
        (field, classes): (&str, &[Class]),
        note: String,
    ) -> Markup {
        let column = |one: &Class| Column {
            name: one.name.to_owned(),
            short: one.name.replace(" and more", "+").replace("under ", "< ").replace(" min", "m"),
            link: self.part(field, one.range),
            values: vec![Some(one.count as f64)],
        };
        let (series, columns) = (Series::only("Sessions"), classes.iter().map(column).collect());
        Plot { id, title, note, unit, series, columns, format: whole }.bars()
    }

    pub(super) fn calendar(&self) -> Markup {
        let days: BTreeMap<Date, u64> =
            self.stats.days.iter().map(|(day, figures)| (*day, figures.messages)).collect();
        let link = |date: Date| {
            let day = date.to_string();
            self.choice.sessions(&[("since", &day), ("until", &day)])
        };
        let streak = self.stats.streak;
        let calendar = Calendar {
            id: "calendar",
            title: "Calendar",
            note: format!(
                "messages a day · streak {}, longest {}",
                count(streak.current, "day"),
                streak.longest
            ),
            what: "message",
            days: &days,
            last: self.span.last.min(self.now.date()),
            weeks: WEEKS,
            link: &link,
        };
        calendar.draw()
    }
}

fn named(name: &str, color: usize) -> Series {
    Series { name: name.to_owned(), color }
}

fn whole(number: f64) -> String {
    if number.fract() == 0.0 { thousands(number as u64) } else { format!("{number:.1}") }
}

fn short(number: f64) -> String {
    amount(number as u64)
}

fn dollars(number: f64) -> String {
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
        let money = [0.0, 0.004, 1.5, 1234.4].map(dollars);
        assert_eq!(money, ["$0", "<$0.01", "$1.50", "$1,234"]);
        assert_eq!(
            [0.0, 0.25, 1.0, 1.5, 20.0].map(in_hours),
            ["0", "15 min", "1 h", "1.5 h", "20 h"]
        );
        assert_eq!([0.0, 0.5, 1200.0].map(whole), ["0", "0.5", "1,200"]);
    }
}
