//! Converts colours to those the terminal supports: 24-bit, 256, or the sixteen of its theme.

use anstyle::{Ansi256Color, AnsiColor, Color, RgbColor};

/// The range of colours that a terminal supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    All,
    Indexed,
    Basic,
}

/// The levels of each channel in the cube of 256 colours.
const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// Returns a colour, or the nearest one that the terminal supports. `None` is the colour of text.
pub(crate) fn supported_color(color: RgbColor) -> Option<Color> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    shown_in(color, color_depth(&variable("COLORTERM"), &variable("TERM")))
}

fn shown_in(color: RgbColor, depth: Depth) -> Option<Color> {
    match depth {
        Depth::All => Some(Color::Rgb(color)),
        Depth::Indexed => Some(Color::Ansi256(Ansi256Color(indexed_color(color)))),
        Depth::Basic => nearest_ansi_color(color).map(Color::Ansi),
    }
}

fn color_depth(colorterm: &str, term: &str) -> Depth {
    // The Windows console sets neither variable and supports 24-bit colours.
    if matches!(colorterm, "truecolor" | "24bit") || cfg!(windows) {
        Depth::All
    } else if term.contains("256color") || term.contains("direct") {
        Depth::Indexed
    } else {
        Depth::Basic
    }
}

fn indexed_color(RgbColor(red, green, blue): RgbColor) -> u8 {
    let level = |channel: u8| {
        let far = |at: &usize| LEVELS[*at].abs_diff(channel);
        (0..LEVELS.len()).min_by_key(far).unwrap_or(0) as u8
    };
    16 + 36 * level(red) + 6 * level(green) + level(blue)
}

/// Returns the colour of the terminal's theme that is nearest in hue; grey becomes the colour of
/// text.
pub(crate) fn nearest_ansi_color(RgbColor(red, green, blue): RgbColor) -> Option<AnsiColor> {
    let (red, green, blue) = (f32::from(red), f32::from(green), f32::from(blue));
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    let range = most - least;
    if range < 32.0 {
        return None;
    }
    let hue = if most <= red {
        60.0 * ((green - blue) / range).rem_euclid(6.0)
    } else if most <= green {
        60.0 * ((blue - red) / range + 2.0)
    } else {
        60.0 * ((red - green) / range + 4.0)
    };
    Some(match hue as u32 {
        12..70 => AnsiColor::Yellow,
        70..160 => AnsiColor::Green,
        160..200 => AnsiColor::Cyan,
        200..250 => AnsiColor::Blue,
        250..335 => AnsiColor::Magenta,
        _ => AnsiColor::Red,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(windows))]
    #[test]
    fn all_colours_are_used_only_where_the_terminal_says_that_it_has_them() {
        let check = |colorterm: &str, term: &str, expected: Depth| {
            assert_eq!(color_depth(colorterm, term), expected, "{colorterm} {term}");
        };
        check("truecolor", "xterm", Depth::All);
        check("24bit", "", Depth::All);
        check("", "xterm-256color", Depth::Indexed);
        check("", "linux", Depth::Basic);
        check("yes", "xterm", Depth::Basic);
    }

    #[test]
    fn a_colour_becomes_the_nearest_there_is() {
        assert_eq!(indexed_color(RgbColor(255, 255, 255)), 231);
        assert_eq!(indexed_color(RgbColor(2, 132, 199)), 32);
        let basic = shown_in(RgbColor(2, 132, 199), Depth::Basic);
        assert_eq!(basic, Some(Color::Ansi(AnsiColor::Blue)));
        assert_eq!(shown_in(RgbColor(120, 120, 120), Depth::Basic), None);
    }
}
