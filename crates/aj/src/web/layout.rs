//! The frame of every page: head, navigation and the list of keys.

use agent_journal::Journal;
use agent_journal::connectors::Agent;
use maud::{DOCTYPE, Markup, html};

/// The page that the navigation marks as current.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Nav {
    /// The list of sessions, and each session.
    Sessions,
    /// The search.
    Search,
    /// Statistics of many sessions.
    Analytics,
    /// Scores and tips.
    Insights,
    /// The sources of the journal.
    Sources,
    /// A page that is not in the navigation.
    None,
}

const PLACES: [(Nav, &str, &str, &str); 5] = [
    (Nav::Sessions, "/", "Sessions", "1"),
    (Nav::Search, "/search", "Search", "2"),
    (Nav::Analytics, "/analytics", "Analytics", "3"),
    (Nav::Insights, "/insights", "Insights", "4"),
    (Nav::Sources, "/sources", "Sources", "5"),
];

const KEYS: [(&str, &str); 11] = [
    ("/", "search"),
    ("1 – 5", "go to a page"),
    ("j k  ↓ ↑", "next and previous row or result"),
    ("Enter", "open the selected row"),
    ("n p", "next and previous prompt, in a session"),
    ("u U", "next and previous tool, in a session"),
    ("e E", "next and previous failure, in a session"),
    ("o", "expand or collapse all tool calls"),
    ("t", "switch theme: light, dark, system"),
    ("Esc", "leave a text field, close this dialog"),
    ("?", "show this list of keys"),
];

/// Puts the body of a page into the common frame.
#[expect(
    clippy::needless_pass_by_value,
    reason = "a page gives its body away: it has no other use"
)]
pub(super) fn page_layout(title: &str, nav: Nav, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · agent-journal" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/style.css";
                script src="/assets/theme.js" {}
                script type="module" src="/assets/app.js" {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                (navigation_bar(nav))
                main id="main" tabindex="-1" { (body) }
                (keyboard_help())
            }
        }
    }
}

fn navigation_bar(nav: Nav) -> Markup {
    html! {
        header.side {
            a.brand href="/" { span.mark aria-hidden="true" {} "agent-journal" }
            nav aria-label="Pages" {
                @for (place, href, name, _) in PLACES {
                    a href=(href) aria-current=[(place == nav).then_some("page")] { (name) }
                }
            }
            div.foot {
                p.live id="live" role="status" {}
                button type="button" id="theme" hidden { "Theme" }
                button type="button" id="keys-open" hidden aria-haspopup="dialog" { "Keys " kbd { "?" } }
            }
        }
    }
}

fn keyboard_help() -> Markup {
    html! {
        dialog id="keys" aria-labelledby="keys-title" {
            h2 id="keys-title" { "Keys" }
            dl {
                @for (key, does) in KEYS {
                    dt { @for one in key.split(' ').filter(|one| !one.is_empty()) { kbd { (one) } " " } }
                    dd { (does) }
                }
            }
            form method="dialog" { button { "Close" } }
        }
    }
}

/// Renders the badge of an agent, by its id.
pub(super) fn agent_badge_markup(id: &str) -> Markup {
    let agent: Option<&Agent> = Journal::supported_agents().find(|agent| agent.id == id);
    let (name, full) = agent.map_or((id, id), |agent| (agent.badge, agent.name));
    html! { span class={ "badge agent-" (id) } title=(full) { (name) } }
}

/// Returns the name of an agent, by its id.
pub(super) fn agent_display_name(id: &str) -> String {
    Journal::supported_agents()
        .find(|agent| agent.id == id)
        .map_or(id, |agent| agent.name)
        .to_owned()
}
