//! What every page has: head, navigation, the sheet of keys.

use agent_journal::Journal;
use agent_journal::connectors::Agent;
use maud::{DOCTYPE, Markup, html};

/// The page that is shown, in the navigation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Nav {
    /// The list of sessions, and each of them.
    Sessions,
    /// The search.
    Search,
    /// What many sessions come to.
    Analytics,
    /// How well it goes.
    Insights,
    /// Where it all comes from.
    Sources,
    /// None of them.
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
    ("Enter", "open it"),
    ("n p", "next and previous prompt, in a session"),
    ("u U", "next and previous tool, in a session"),
    ("e E", "next and previous failure, in a session"),
    ("o", "fold or unfold every tool call"),
    ("t", "light, dark, as the system has it"),
    ("Esc", "leave a field, close this"),
    ("?", "these keys"),
];

/// Puts a page's body into the frame that all pages share.
#[expect(
    clippy::needless_pass_by_value,
    reason = "a page gives its body away: it has no other use"
)]
pub(super) fn page(title: &str, nav: Nav, body: Markup) -> Markup {
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
                (navigation(nav))
                main id="main" tabindex="-1" { (body) }
                (keys())
            }
        }
    }
}

fn navigation(nav: Nav) -> Markup {
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

fn keys() -> Markup {
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

/// The badge of an agent, by its id.
pub(super) fn badge(id: &str) -> Markup {
    let agent: Option<&Agent> = Journal::agents().find(|agent| agent.id == id);
    let (name, full) = agent.map_or((id, id), |agent| (agent.badge, agent.name));
    html! { span class={ "badge agent-" (id) } title=(full) { (name) } }
}

/// The name of an agent, by its id.
pub(super) fn agent_name(id: &str) -> String {
    Journal::agents().find(|agent| agent.id == id).map_or(id, |agent| agent.name).to_owned()
}
