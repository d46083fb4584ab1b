//! Gauges: a ring for a score, a bar for a part of one.

use maud::{Markup, html};

/// Renders a ring that is closed at 100, with the score inside; `None` leaves the ring empty.
pub(crate) fn score_ring(score: Option<u64>, name: &str) -> Markup {
    let label = match score {
        Some(score) => format!("{name}: {score} of 100"),
        None => format!("{name}: not enough sessions for a score"),
    };
    html! {
        svg.ring.(level_class(score.unwrap_or(0), 100)) viewBox="0 0 120 120" role="img" aria-label=(label) {
            title { (label) }
            circle.track cx="60" cy="60" r="52" {}
            @if let Some(score) = score.filter(|score| *score > 0) {
                circle.value cx="60" cy="60" r="52" pathLength="100" transform="rotate(-90 60 60)"
                    stroke-dasharray=(format!("{} 100", score.min(100))) {}
            }
            text.total x="60" y="69" text-anchor="middle" {
                (score.map_or("–".to_owned(), |score| score.to_string()))
            }
            text.tick x="60" y="86" text-anchor="middle" { "of 100" }
        }
    }
}

/// Renders a bar that is full at `most`. Its number is printed beside it.
pub(crate) fn points_meter(points: u64, most: u64) -> Markup {
    let width = (points * 100).checked_div(most).unwrap_or(0).min(100);
    html! {
        svg.meter.(level_class(points, most)) viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
            rect.track width="100" height="8" rx="1" {}
            @if width > 0 { rect.value width=(width) height="8" rx="1" {} }
        }
    }
}

/// Returns the CSS class for a share of points.
fn level_class(points: u64, most: u64) -> &'static str {
    match (points * 100).checked_div(most).unwrap_or(0) {
        75.. => "good",
        50.. => "fair",
        _ => "poor",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_closed_by_its_score() {
        let text = score_ring(Some(72), "web").into_string();
        assert!(text.contains(r#"stroke-dasharray="72 100""#), "{text}");
        assert!(text.contains(r#"aria-label="web: 72 of 100""#) && text.contains(">72</text>"));
        assert!(text.contains("ring fair") && !text.contains("style"));
    }

    #[test]
    fn a_ring_without_a_score_shows_none() {
        let text = score_ring(None, "web").into_string();
        assert!(text.contains("not enough sessions") && text.contains(">–</text>"));
        assert!(!text.contains("stroke-dasharray"));
    }

    #[test]
    fn a_meter_is_as_full_as_its_points() {
        assert!(points_meter(15, 20).into_string().contains(r#"<rect class="value" width="75""#));
        assert!(!points_meter(0, 20).into_string().contains("value"));
        assert_eq!(level_class(10, 20), "fair");
    }
}
