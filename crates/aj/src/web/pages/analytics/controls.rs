//! The form that chooses what a page of sums is about. It works without a script.

use agent_journal::Journal;
use agent_journal::analyze::Group;
use maud::{Markup, html};

use crate::web::choice::{Choice, EVER};

/// The times that are offered.
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
    pub(in crate::web::pages) choice: &'a Choice,
    /// The page's address.
    pub(in crate::web::pages) page: &'a str,
    /// Projects to offer.
    pub(in crate::web::pages) projects: &'a [Group],
}

impl Controls<'_> {
    /// Draws the form.
    pub(in crate::web::pages) fn draw(&self) -> Markup {
        let agent = self.choice.get("agent").unwrap_or_default();
        html! {
            (periods(self.choice, self.page))
            form.filters.choice action=(self.page) method="get" role="search" aria-label="Filter" {
                label { span { "Agent" }
                    select name="agent" {
                        option value="" { "Every agent" }
                        @for one in Journal::agents() {
                            option value=(one.id) selected[one.id == agent] { (one.name) }
                        }
                    }
                }
                (self.field("project", "Project", "any"))
                (self.field("branch", "Branch", "any"))
                (self.date("since", "From"))
                (self.date("until", "To"))
                (self.field("q", "More", "model:opus …"))
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

    fn field(&self, name: &str, label: &str, hint: &str) -> Markup {
        let list = (name == "project").then_some("projects");
        let value = self.choice.get(name).unwrap_or_default();
        html! {
            label { span { (label) }
                input type="text" name=(name) value=(value) placeholder=(hint) list=[list];
            }
        }
    }

    /// A day; a time such as `30d` is kept as it is.
    fn date(&self, name: &str, label: &str) -> Markup {
        let value = self.choice.get(name).unwrap_or_default();
        html! {
            label { span { (label) }
                input.short type="text" name=(name) value=(value) placeholder="2026-01-31";
            }
        }
    }
}

/// The times that are offered, as links.
pub(in crate::web::pages) fn periods(choice: &Choice, page: &str) -> Markup {
    let chosen = choice.get("since").unwrap_or(EVER);
    let is_open = choice.get("until").is_none();
    html! {
        nav.periods aria-label="Time" {
            @for (value, name) in PERIODS {
                // All time has to be said: without a word it is another time.
                @let link = choice.link(page, &[("since", ""), ("until", "")]);
                @let mark = if link.contains('?') { '&' } else { '?' };
                a href=(format!("{link}{mark}since={value}"))
                    aria-current=[(is_open && value == chosen).then_some("true")] { (name) }
            }
        }
    }
}
