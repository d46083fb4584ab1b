//! The form that selects the sessions of a page of statistics. It works without scripts.

use agent_journal::Journal;
use agent_journal::analyze::StatsGroup;
use maud::{Markup, html};

use crate::web::choice::{EVER, StatsSelection};

/// The offered periods: URL value and label.
const PERIODS: [(&str, &str); 6] = [
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("90d", "90 days"),
    ("6m", "6 months"),
    ("1y", "1 year"),
    (EVER, "All time"),
];

/// The controls of a page.
pub(in crate::web::pages) struct Controls<'a> {
    pub(in crate::web::pages) choice: &'a StatsSelection,
    /// The path of the page.
    pub(in crate::web::pages) page: &'a str,
    /// The offered projects.
    pub(in crate::web::pages) projects: &'a [StatsGroup],
}

impl Controls<'_> {
    /// Renders the form.
    pub(in crate::web::pages) fn draw_controls(&self) -> Markup {
        let agent = self.choice.param_value("agent").unwrap_or_default();
        html! {
            (period_links(self.choice, self.page))
            form.filters.choice action=(self.page) method="get" role="search" aria-label="Filter" {
                label { span { "Agent" }
                    select name="agent" {
                        option value="" { "All agents" }
                        @for one in Journal::supported_agents() {
                            option value=(one.id) selected[one.id == agent] { (one.name) }
                        }
                    }
                }
                (self.text_field("project", "Project", "any"))
                (self.text_field("branch", "Branch", "any"))
                (self.date_field("since", "From"))
                (self.date_field("until", "To"))
                (self.text_field("q", "More", "model:opus …"))
                button.primary { "Apply" }
                a.button href=(self.page) { "Reset" }
                datalist id="projects" {
                    @for group in self.projects.iter().filter_map(|group| group.label.as_ref()).take(100) {
                        option value=(group) {}
                    }
                }
            }
        }
    }

    fn text_field(&self, name: &str, label: &str, hint: &str) -> Markup {
        let list = (name == "project").then_some("projects");
        let value = self.choice.param_value(name).unwrap_or_default();
        html! {
            label { span { (label) }
                input type="text" name=(name) value=(value) placeholder=(hint) list=[list];
            }
        }
    }

    /// Renders a date field; a period such as `30d` is kept as it is.
    fn date_field(&self, name: &str, label: &str) -> Markup {
        let value = self.choice.param_value(name).unwrap_or_default();
        html! {
            label { span { (label) }
                input.short type="text" name=(name) value=(value) placeholder="2026-01-31";
            }
        }
    }
}

/// Renders the offered periods as links.
pub(in crate::web::pages) fn period_links(choice: &StatsSelection, page: &str) -> Markup {
    let chosen = choice.param_value("since").unwrap_or(EVER);
    let is_open = choice.param_value("until").is_none();
    html! {
        nav.periods aria-label="Time" {
            @for (value, name) in PERIODS {
                // All time is written into the URL, because a URL without a period means the
                // default one.
                @let link = choice.url_with_changes(page, &[("since", ""), ("until", "")]);
                @let mark = if link.contains('?') { '&' } else { '?' };
                a href=(format!("{link}{mark}since={value}"))
                    aria-current=[(is_open && value == chosen).then_some("true")] { (name) }
            }
        }
    }
}
