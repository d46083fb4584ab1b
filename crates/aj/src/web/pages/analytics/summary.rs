//! The figures of the whole time, each beside that of the time before.

use agent_journal::analyze::{Basis, Figures};
use maud::{Markup, html};

use super::View;
use crate::output::{amount, count, duration, money, thousands};

/// One figure.
struct Tile {
    name: &'static str,
    value: String,
    note: String,
    /// Now and before.
    change: Option<(f64, f64)>,
}

impl View<'_> {
    /// Draws the figures.
    pub(super) fn tiles(&self) -> Markup {
        html! {
            dl.tiles {
                @for tile in self.figures() {
                    div.card {
                        dt { (tile.name) }
                        dd {
                            strong { (tile.value) }
                            (change(tile.change))
                            @if !tile.note.is_empty() { span.note { (tile.note) } }
                        }
                    }
                }
            }
            @if self.stats.previous.is_some() {
                p.muted.small { "Changes compare with the equal time before." }
            }
        }
    }

    fn figures(&self) -> Vec<Tile> {
        let (now, before) = (&self.stats.totals, self.stats.previous.as_ref());
        let tile = |name, value: String, note: String, of: &dyn Fn(&Figures) -> Option<f64>| {
            let change = before.and_then(of).zip(of(now)).map(|(before, now)| (now, before));
            Tile { name, value, note, change }
        };
        let streak = self.stats.streak;
        vec![
            tile(
                "Sessions",
                thousands(now.sessions),
                format!("{} began in this time", thousands(now.sessions_started)),
                &|it| Some(it.sessions as f64),
            ),
            tile(
                "Prompts",
                thousands(now.prompts),
                now.turns_per_session().map_or(String::new(), |n| format!("{n:.1} a session")),
                &|it| Some(it.prompts as f64),
            ),
            tile(
                "Active time",
                duration(now.active_s),
                format!("{} of work, overlaps counted once", duration(now.work_s)),
                &|it| Some(it.active_s as f64),
            ),
            tile(
                "Tool calls",
                thousands(now.tool_calls),
                now.error_rate().map_or(String::new(), |rate| format!("{} failed", percent(rate))),
                &|it| Some(it.tool_calls as f64),
            ),
            tile("Tokens", amount(now.tokens.total()), self.token_note(), &|it| {
                Some(it.tokens.total() as f64)
            }),
            tile("Cost", money(&now.cost), self.cost_notes(), &|it| it.cost.dollars()),
            tile(
                "Cache efficiency",
                now.cache_hit_ratio().map_or("–".to_owned(), percent),
                "of input read from caches".to_owned(),
                &Figures::cache_hit_ratio,
            ),
            Tile {
                name: "Streak",
                value: count(streak.current, "day"),
                note: format!("longest {}", count(streak.longest, "day")),
                change: None,
            },
        ]
    }

    fn token_note(&self) -> String {
        let tokens = &self.stats.totals.tokens;
        let new = tokens.input + tokens.cache_creation;
        format!(
            "{} in · {} out · {} cached",
            amount(new),
            amount(tokens.output),
            amount(tokens.cache_read)
        )
    }

    /// What a session costs, and how sure that is.
    fn cost_notes(&self) -> String {
        let totals = &self.stats.totals;
        let mean = totals.cost.dollars().filter(|_| totals.sessions > 0);
        let mean =
            mean.map(|dollars| format!("${:.2} a session · ", dollars / totals.sessions as f64));
        mean.unwrap_or_default() + &self.cost_note()
    }

    /// How sure the cost is.
    pub(super) fn cost_note(&self) -> String {
        let cost = &self.stats.totals.cost;
        let basis = match cost.basis() {
            None => return "no price is known".to_owned(),
            Some(Basis::Recorded) => "as recorded",
            Some(Basis::Estimated) => "by list prices",
            Some(_) => "recorded, else by list prices",
        };
        match cost.priced_share() {
            Some(share) if share < 1.0 => format!("{basis}, {} of tokens", percent(share)),
            _ => basis.to_owned(),
        }
    }
}

/// How a figure compares with the time before. More is neither good nor bad.
fn change(change: Option<(f64, f64)>) -> Markup {
    let Some((now, before)) = change else { return html! {} };
    if before <= 0.0 {
        return html! { @if now > 0.0 { span.change { "new" } } };
    }
    let percent = (now / before - 1.0) * 100.0;
    let text = if percent.abs() < 0.5 {
        "± 0 %".to_owned()
    } else if percent > 999.0 {
        format!("× {:.0}", now / before)
    } else {
        format!("{percent:+.0} %").replace('-', "−")
    };
    html! { span.change title="compared with the time before" { (text) } }
}

/// A share; nothing is called all or nothing that is not.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let percent = if share < 1.0 { percent.min(99.9) } else { percent };
    if percent > 0.0 && (percent < 10.0 || percent > 99.0 && percent < 100.0) {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_against_the_time_before() {
        let check = |now: f64, before: f64, expected: &str| {
            let text = change(Some((now, before))).into_string();
            assert!(text.contains(&format!(">{expected}<")), "{now} {before}: {text}");
        };
        check(112.0, 100.0, "+12 %");
        check(50.0, 100.0, "−50 %");
        check(100.0, 100.0, "± 0 %");
        check(5.0, 0.0, "new");
        check(2_000.0, 100.0, "× 20");
        assert_eq!(change(None).into_string(), "");
        assert_eq!(change(Some((0.0, 0.0))).into_string(), "");
    }

    #[test]
    fn almost_all_is_not_all() {
        let check = |share: f64, expected: &str| assert_eq!(percent(share), expected);
        check(0.0, "0 %");
        check(0.041, "4.1 %");
        check(0.97, "97 %");
        check(0.9999, "99.9 %");
        check(1.0, "100 %");
    }
}
