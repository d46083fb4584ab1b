//! Markdown and what a terminal shows of it.

use unicode_width::UnicodeWidthStr;

use super::*;

/// The lines without their styles.
fn shown(text: &str, width: usize) -> Vec<String> {
    let lines = markdown_lines(text, width);
    lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(shown(text, 24), expected);
}

/// The piece of text that has a style.
#[track_caller]
fn styled(text: &str, style: Style, piece: &str) {
    let line = markdown_lines(text, 80).join("\n");
    let expected = format!("{style}{piece}{style:#}");
    assert!(line.contains(&expected), "{line:?} has no {expected:?}");
}

#[test]
fn headings_and_paragraphs_stand_apart() {
    check("# One\ntext\n## Two\n\nmore\ntext", &["One", "", "text", "", "Two", "", "more", "text"]);
    styled("# One", BOLD.underline(), "One");
    styled("### Three", BOLD, "Three");
}

#[test]
fn emphasis_is_a_style_and_code_keeps_its_marks() {
    check("*a* **b** ~~c~~ `d*e*`", &["a b c `d*e*`"]);
    styled("an *em*", Style::new().italic(), "em");
    styled("a **strong *both***", BOLD.italic(), "both");
    styled("~~gone~~", Style::new().strikethrough(), "gone");
    styled("`code`", CODE, "code");
    check("snake_case_name and 2 * 3 * 4", &["snake_case_name and 2 *", "3 * 4"]);
}

#[test]
fn lists_hang_and_nest() {
    let text = "Do:\n- one that is longer than a line\n  - inner\n- [x] done\n\n9. nine\n10. ten";
    check(
        text,
        &[
            "Do:",
            "",
            "• one that is longer",
            "  than a line",
            "  • inner",
            "• ☑ done",
            "",
            "9. nine",
            "10. ten",
        ],
    );
    check("- a\n\n- b\n\n  c\n-", &["• a", "", "• b", "", "  c", "•"]);
    check("1. a\n   ```\n   x\n   ```\n2. b", &["1. a", "     x", "2. b"]);
}

#[test]
fn quotes_have_a_bar_before_every_line() {
    check(
        "> one two three four five six\n>\n> > inner\n\nout",
        &["│ one two three four", "│ five six", "│", "│ │ inner", "", "out"],
    );
}

#[test]
fn code_blocks_are_as_they_were_written() {
    check(
        "So:\n```rust\nfn a() {\n\n    b(*c);\n}\n```\nend",
        &["So:", "", "  fn a() {", "", "      b(*c);", "  }", "", "end"],
    );
    styled("```\nlet x\n```", CODE, "let x");
    check("```\nunfinished", &["  unfinished"]);
}

#[test]
fn tables_have_columns_that_fit() {
    check(
        "| name | n |\n|---|--:|\n| a | 1 |\n| 検索 | 12 |",
        &["name │  n", "─────┼───", "a    │  1", "検索 │ 12"],
    );
    check(
        "| key | meaning |\n|---|---|\n| `x` | a sentence that is too long |",
        &[
            "key │ meaning",
            "────┼───────────────────",
            "`x` │ a sentence that is",
            "    │ too long",
        ],
    );
    let many = "|a|b|c|d|e|f|g|h|\n|-|-|-|-|-|-|-|-|\n|one|two|three|four|five|six|seven|eight|";
    assert_eq!(shown(many, 24)[0], "a │ b │ c │ d │ e │ f │");
}

#[test]
fn links_tell_where_they_lead() {
    check("<https://a.example>", &["https://a.example"]);
    check("[docs](https://a.example)", &["docs (https://a.example)"]);
    check("![plot](a.png)", &["plot (a.png)"]);
}

#[test]
fn tags_are_text() {
    check(
        "<task>\ndo it\n</task>\n\na <b>c</b>",
        &["<task>", "do it", "</task>", "", "a <b>c</b>"],
    );
}

#[test]
fn nothing_steers_the_terminal() {
    check("a&#27;[2Jb&#x202e;c&#7;d `\x1b[1me`", &["a[2Jbcd `e`"]);
    check("a \x1b[31mred\x1b[0m *b*", &["a red b"]);
    check("[x](http://e/\u{202e}y)", &["x (http://e/y)"]);
}

#[test]
fn no_line_is_wider_than_asked_for() {
    let deep = format!("{}end", "> ".repeat(300));
    let list = (0..60).map(|at| "  ".repeat(at) + "- x").collect::<Vec<_>>().join("\n");
    let wide = "検索エンジン".repeat(40);
    let family = "👨‍👩‍👧".repeat(40);
    let table = format!("|a|b|\n|-|-|\n|{wide}|{}|", "word ".repeat(50));
    for text in [&deep, &list, &wide, &family, &table, &format!("- {wide}\n  > {family}")] {
        for width in [8, 13, 24, 80] {
            for line in shown(text, width) {
                assert!(line.width() <= width, "{width}: {line:?}");
            }
        }
    }
}
