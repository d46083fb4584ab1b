//! Removes remote content from recorded Markdown, so that a viewer fetches nothing: remote pictures
//! become links, and tags that load something become text. Code is not changed.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{Event, Options as Extensions, Parser, Tag, TagEnd};

use super::text::fenced_code;

/// Tags that make a viewer fetch something, or apply fetched content.
const FETCHING: &[&str] = &[
    "img", "image", "iframe", "frame", "video", "audio", "source", "track", "picture", "link",
    "style", "script", "object", "embed", "applet", "svg", "use", "base", "meta", "input",
    "portal", "feimage", "bgsound", "body",
];

/// Attributes that make a viewer fetch something.
const ATTRIBUTES: &[&str] =
    &["src", "srcset", "poster", "background", "style", "xlink:href", "data", "lowsrc", "ping"];

/// Returns a text without the content that a viewer would fetch from another machine.
pub(super) fn without_remote(text: &str) -> Cow<'_, str> {
    if !text.contains("![") && !text.contains('<') {
        return text.into();
    }
    let marks = remote_marks(text);
    if marks.is_empty() {
        return text.into();
    }
    let mut kept = String::with_capacity(text.len() + marks.len() * 3);
    let mut at = 0;
    for mark in marks {
        kept.push_str(&text[at..mark]);
        // A second `!` before the link would turn it into a picture again.
        let is_twice = text[..mark].ends_with('!');
        kept.push_str(match (&text[mark..=mark], is_twice) {
            ("<", _) => "&lt;",
            (_, true) => "\\!",
            _ => "",
        });
        at = mark + 1;
    }
    kept.push_str(&text[at..]);
    if remote_marks(&kept).is_empty() { kept.into() } else { fenced_code(text, "markdown").into() }
}

/// Returns the positions of the `!` and `<` signs that begin remote pictures and fetching tags, in
/// order.
fn remote_marks(text: &str) -> Vec<usize> {
    let extensions = Extensions::ENABLE_TABLES | Extensions::ENABLE_FOOTNOTES;
    let mut marks = Vec::new();
    let mut block: Option<Range<usize>> = None;
    for (event, range) in Parser::new_ext(text, extensions).into_offset_iter() {
        match event {
            Event::Start(Tag::Image { dest_url, .. }) if is_remote(&dest_url) => {
                marks.push(range.start);
            }
            Event::Start(Tag::HtmlBlock) => block = Some(range),
            Event::End(TagEnd::HtmlBlock) => {
                marks.extend(block.take().into_iter().flat_map(|range| tag_marks(text, range)));
            }
            Event::InlineHtml(_) => marks.extend(tag_marks(text, range)),
            _ => {}
        }
    }
    marks.retain(|mark| matches!(text.as_bytes()[*mark], b'!' | b'<'));
    marks.sort_unstable();
    marks.dedup();
    marks
}

/// Returns whether an address is on another machine.
fn is_remote(address: &str) -> bool {
    let address: String =
        address.chars().filter(|one| !one.is_control() && !one.is_whitespace()).collect();
    let lower = address.to_ascii_lowercase().replace('\\', "/");
    lower.starts_with("//")
        || lower.contains("://")
        || lower.starts_with("http:")
        || lower.starts_with("https:")
}

/// Returns the positions of all tags in a piece of HTML, if one of them fetches something.
fn tag_marks(text: &str, range: Range<usize>) -> Vec<usize> {
    let html = &text[range.clone()];
    if !can_fetch(&html.to_ascii_lowercase()) {
        return Vec::new();
    }
    html.match_indices('<').map(|(at, _)| range.start + at).collect()
}

fn can_fetch(lower: &str) -> bool {
    let is_tag = lower.match_indices('<').any(|(at, _)| {
        let rest = lower[at + 1..].trim_start_matches('/');
        let name = rest.split(|one: char| !one.is_ascii_alphanumeric()).next().unwrap_or_default();
        FETCHING.contains(&name)
    });
    let has_attribute = ATTRIBUTES.iter().any(|name| {
        lower.match_indices(name).any(|(at, _)| {
            let is_begun =
                lower[..at].ends_with(|one: char| one.is_whitespace() || "\"'/".contains(one));
            is_begun && lower[at + name.len()..].trim_start().starts_with('=')
        })
    });
    is_tag || has_attribute || lower.contains("url(") || lower.contains("@import")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_from_elsewhere_become_links() {
        let check = |text: &str, expected: &str| assert_eq!(without_remote(text), expected);
        check("see ![a](http://x.example/a.png) there", "see [a](http://x.example/a.png) there");
        check("![a][r]\n\n[r]: https://x.example/a.png", "[a][r]\n\n[r]: https://x.example/a.png");
        check("![r]\n\n[r]: //x.example/a.png", "[r]\n\n[r]: //x.example/a.png");
        check("!![a](http://x.example)", "!\\![a](http://x.example)");
        check(
            "[![b](http://x.example/b.svg)](http://y.example)",
            "[[b](http://x.example/b.svg)](http://y.example)",
        );
        check("![a](&#104;ttp://x.example)", "[a](&#104;ttp://x.example)");
        check(
            "![a](./a.png) and ![b](data:image/png;base64,AA==)",
            "![a](./a.png) and ![b](data:image/png;base64,AA==)",
        );
    }

    #[test]
    fn tags_that_fetch_become_text_and_others_stay() {
        let check = |text: &str, expected: &str| assert_eq!(without_remote(text), expected);
        check("a <img src=http://x.example/a> b", "a &lt;img src=http://x.example/a> b");
        check(
            "<iframe src=\"//x.example\"></iframe>",
            "&lt;iframe src=\"//x.example\">&lt;/iframe>",
        );
        check(
            "<div\n style=\"background:url(http://x.example)\">\nx\n</div>",
            "&lt;div\n style=\"background:url(http://x.example)\">\nx\n&lt;/div>",
        );
        check(
            "<details><summary>x</summary>\n\ny\n\n</details>",
            "<details><summary>x</summary>\n\ny\n\n</details>",
        );
        check("a < b and `<img src=http://x.example>`", "a < b and `<img src=http://x.example>`");
    }

    #[test]
    fn code_stays_as_it_is() {
        for text in [
            "```html\n<img src=http://x.example>\n![a](http://x.example)\n```",
            "    <img src=http://x.example>",
            "`![a](http://x.example)`",
        ] {
            assert_eq!(without_remote(text), text);
        }
    }
}
