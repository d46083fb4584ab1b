//! A ranking: names with bars beside them, the longest first. It is a table itself, so it needs no
//! further one.

use maud::{Markup, html};

use super::{format_px, series_class};

/// A ranked list of names with numbers.
pub(crate) struct Ranking<'a> {
    /// The id of its element in the page.
    pub(crate) id: &'a str,
    /// The title above it.
    pub(crate) title: &'a str,
    /// A note beside the title.
    pub(crate) note: String,
    /// The noun for a name, at the head of its column.
    pub(crate) unit: &'a str,
    /// The heads of the number columns.
    pub(crate) heads: Vec<&'a str>,
    /// The rows, the first rank first.
    pub(crate) ranks: Vec<Rank>,
    /// The number of rows that are visible before the rest is unfolded.
    pub(crate) seen: usize,
}

/// A row of a ranking.
pub(crate) struct Rank {
    /// The name that is shown.
    pub(crate) name: String,
    /// A longer description, such as a path.
    pub(crate) detail: Option<String>,
    /// The URL that lists the sessions behind it.
    pub(crate) link: Option<String>,
    /// The value that determines the length of its bar.
    pub(crate) size: f64,
    /// The share of the bar that marks failures, from 0 to 1.
    pub(crate) bad: f64,
    /// The index of its colour.
    pub(crate) color: usize,
    /// The formatted numbers, one for each column.
    pub(crate) cells: Vec<String>,
}

impl Ranking<'_> {
    /// Renders the ranking; rows after the first `visible_rows` are folded.
    pub(crate) fn draw_ranking(&self) -> Markup {
        let (seen, rest) = self.ranks.split_at(self.seen.min(self.ranks.len()));
        html! {
            section.chart.ranking id=(self.id) aria-labelledby=(format!("{}-title", self.id)) {
                h3 id=(format!("{}-title", self.id)) {
                    (self.title) @if !self.note.is_empty() { " " span.note { (self.note) } }
                }
                @if self.ranks.is_empty() { (super::empty_chart()) } @else { (self.ranking_table(seen)) }
                @if !rest.is_empty() {
                    details.numbers {
                        summary { (rest.len()) " more" span.sr { " of " (self.title) } }
                        (self.ranking_table(rest))
                    }
                }
            }
        }
    }

    fn ranking_table(&self, ranks: &[Rank]) -> Markup {
        let largest = self.ranks.iter().map(|rank| rank.size).fold(0.0, f64::max);
        html! {
            table {
                thead { tr {
                    th scope="col" { (self.unit) }
                    td.wide aria-hidden="true" {}
                    @for head in &self.heads { th.number scope="col" { (head) } }
                } }
                tbody {
                    @for rank in ranks {
                        tr {
                            th scope="row" title=[rank.detail.as_ref()] {
                                @match &rank.link {
                                    Some(link) => a href=(link) { (rank.name) },
                                    None => (rank.name),
                                }
                            }
                            td.wide aria-hidden="true" { (rank_bar(rank, largest)) }
                            @for cell in &rank.cells { td.number { (cell) } }
                        }
                    }
                }
            }
        }
    }
}

fn rank_bar(rank: &Rank, largest: f64) -> Markup {
    let share = if largest > 0.0 { rank.size / largest } else { 0.0 };
    let width = if rank.size > 0.0 { (share * 100.0).max(0.5) } else { 0.0 };
    let bad = width * rank.bad.clamp(0.0, 1.0);
    html! {
        svg.length viewBox="0 0 100 10" preserveAspectRatio="none" {
            rect.bar.(series_class(rank.color)) width=(format_px(width)) height="10" {}
            @if bad > 0.0 {
                rect.bar.bad x=(format_px(width - bad)) width=(format_px(bad.max(0.5))) height="10" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(name: &str, size: f64, bad: f64) -> Rank {
        Rank {
            name: name.to_owned(),
            detail: None,
            link: Some(format!("/sessions?project={name}")),
            size,
            bad,
            color: 0,
            cells: vec![format!("{size}")],
        }
    }

    fn drawn(ranks: Vec<Rank>) -> String {
        let ranking = Ranking {
            id: "tools",
            title: "Tools",
            note: String::new(),
            unit: "Tool",
            heads: vec!["Calls"],
            ranks,
            seen: 2,
        };
        ranking.draw_ranking().into_string()
    }

    #[test]
    fn bars_are_as_long_as_their_share_of_the_longest() {
        let text = drawn(vec![rank("bash", 40.0, 0.25), rank("grep", 10.0, 0.0)]);
        assert!(text.contains(r#"<rect class="bar s1" width="100" height="10">"#), "{text}");
        assert!(text.contains(r#"<rect class="bar bad" x="75" width="25" height="10">"#), "{text}");
        assert!(text.contains(r#"<rect class="bar s1" width="25" height="10">"#), "{text}");
        assert!(text.contains(r#"<a href="/sessions?project=bash">bash</a>"#), "{text}");
    }

    #[test]
    fn names_beyond_the_first_are_folded_and_keep_their_scale() {
        let text = drawn(["a", "b", "c"].map(|name| rank(name, 8.0, 0.0)).into());
        let (_, folded) = text.split_once("1 more").unwrap();
        assert!(folded.contains("/sessions?project=c") && folded.contains(r#"width="100""#));
    }

    #[test]
    fn nothing_to_rank_says_so() {
        assert!(drawn(Vec::new()).contains("No sessions match"));
    }
}
