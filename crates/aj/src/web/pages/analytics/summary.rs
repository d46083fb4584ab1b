//! The figures of the whole period, each with the change since the previous one.

use agent_journal::analyze::{Basis, Figures};
use maud::{Markup, html};

use super::StatsView;
use crate::output::{amount, count, duration, money, thousands};

/// One figure.
struct Tile {
    name: &'static str,
    value: String,
    note: String,
    /// The current value and that of the previous period.
    change: Option<(f64, f64)>,
}

impl StatsView<'_> {
    /// Renders the figures.
    pub(super) fn figure_tiles(&self) -> Markup {
        html! {
            dl.tiles {
                @for tile in self.summary_tiles() {
                    div.card {
                        dt { (tile.name) }
                        dd {
                            strong { (tile.value) }
                            (change_badge(tile.change))
                            @if !tile.note.is_empty() { span.note { (tile.note) } }
                        }
                    }
                }
            }
            @if self.stats.previous.is_some() {
                p.muted.small { "Changes are relative to the period before." }
            }
        }
    }

    fn summary_tiles(&self) -> Vec<Tile> {
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
                format!("{} started in this period", thousands(now.sessions_started)),
                &|it| Some(it.sessions as f64),
            ),
            tile(
                "Prompts",
                thousands(now.prompts),
                now.turns_per_session().map_or(String::new(), |n| format!("{n:.1} per session")),
                &|it| Some(it.prompts as f64),
            ),
            tile(
                "Active time",
                duration(now.active_s),
                format!("{} of work (overlaps counted once)", duration(now.work_s)),
                &|it| Some(it.active_s as f64),
            ),
            tile(
                "Tool calls",
                thousands(now.tool_calls),
                now.call_error_rate()
                    .map_or(String::new(), |rate| format!("{} failed", percent_text(rate))),
                &|it| Some(it.tool_calls as f64),
            ),
            tile("Tokens", amount(now.tokens.total_tokens()), self.token_note(), &|it| {
                Some(it.tokens.total_tokens() as f64)
            }),
            tile("Cost", money(&now.cost), self.cost_notes(), &|it| it.cost.known_dollars()),
            tile(
                "Cache efficiency",
                now.cache_hit_ratio().map_or("–".to_owned(), percent_text),
                "of input read from cache".to_owned(),
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

    /// Describes the mean cost of a session, and the basis of the cost.
    fn cost_notes(&self) -> String {
        let totals = &self.stats.totals;
        let mean = totals.cost.known_dollars().filter(|_| totals.sessions > 0);
        let mean =
            mean.map(|dollars| format!("${:.2} per session · ", dollars / totals.sessions as f64));
        mean.unwrap_or_default() + &self.cost_note()
    }

    /// Describes the basis of the cost: recorded or estimated, and the share of tokens with a
    /// price.
    pub(super) fn cost_note(&self) -> String {
        let cost = &self.stats.totals.cost;
        let basis = match cost.cost_basis() {
            None => return "no known price".to_owned(),
            Some(Basis::Recorded) => "recorded",
            Some(Basis::Estimated) => "estimated",
            Some(_) => "recorded or estimated",
        };
        match cost.priced_share() {
            Some(share) if share < 1.0 => {
                format!("{basis}, {} of tokens priced", percent_text(share))
            }
            _ => basis.to_owned(),
        }
    }
}

/// Renders the change of a figure since the previous period, without judging whether more is
/// better.
fn change_badge(change: Option<(f64, f64)>) -> Markup {
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
    html! { span.change title="compared with the period before" { (text) } }
}

/// Formats a share in percent. Only a share of exactly 1 is shown as 100 %.
pub(super) fn percent_text(share: f64) -> String {
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
            let text = change_badge(Some((now, before))).into_string();
            assert!(text.contains(&format!(">{expected}<")), "{now} {before}: {text}");
        };
        check(112.0, 100.0, "+12 %");
        check(50.0, 100.0, "−50 %");
        check(100.0, 100.0, "± 0 %");
        check(5.0, 0.0, "new");
        check(2_000.0, 100.0, "× 20");
        assert_eq!(change_badge(None).into_string(), "");
        assert_eq!(change_badge(Some((0.0, 0.0))).into_string(), "");
    }

    #[test]
    fn almost_all_is_not_all() {
        let check = |share: f64, expected: &str| assert_eq!(percent_text(share), expected);
        check(0.0, "0 %");
        check(0.041, "4.1 %");
        check(0.97, "97 %");
        check(0.9999, "99.9 %");
        check(1.0, "100 %");
    }
}
