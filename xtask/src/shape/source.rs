//! Reads the shape of Rust source: how long its functions are, how many parameters they take.
//!
//! A parser would be exact and heavy. The source is formatted, so a function ends where a line
//! closes at its own indentation, and that is enough to measure it.

/// A source file, measured.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    /// Lines without tests.
    pub(crate) lines: usize,
    /// Lines that are not blank.
    pub(crate) written: usize,
    /// Lines that are comments.
    pub(crate) comments: usize,
    /// Whether the file says that it is a table.
    pub(crate) is_table: bool,
    pub(crate) functions: Vec<Function>,
}

/// A function, measured.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Line it begins at, counted from 1.
    pub(crate) line: usize,
    pub(crate) lines: usize,
    /// Without `self`.
    pub(crate) parameters: usize,
}

/// Measures the text of a file, its tests left out.
pub(crate) fn measure(text: &str) -> Measures {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let lines: Vec<&str> = text.lines().collect();
    let count = |wanted: &dyn Fn(&str) -> bool| lines.iter().filter(|line| wanted(line)).count();
    Measures {
        lines: lines.len(),
        written: count(&|line| !line.trim().is_empty()),
        comments: count(&|line| line.trim_start().starts_with("//")),
        is_table: lines.iter().any(|line| line.starts_with("//!") && line.contains("table")),
        functions: (0..lines.len()).filter_map(|at| function(&lines[at..], at + 1)).collect(),
    }
}

/// Measures the function that begins with the first of these lines, if one does.
fn function(lines: &[&str], line: usize) -> Option<Function> {
    let rest = after_qualifiers(lines[0].trim_start()).strip_prefix("fn ")?;
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let margin = indentation(lines[0]);
    let closes = |line: &str| {
        // A declaration in a trait ends with a semicolon, everything else with a brace.
        indentation(line) == margin && (line.trim_start() == "}" || line.ends_with(';'))
    };
    let length = if lines[0].ends_with(['}', ';']) {
        1
    } else {
        lines[1..].iter().position(|line| closes(line))? + 2
    };
    let parameters = parameters(&lines[..length].join(" "));
    Some(Function { name, line, lines: length, parameters })
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn after_qualifiers(mut line: &str) -> &str {
    const QUALIFIERS: [&str; 6] =
        ["pub(crate) ", "pub(super) ", "pub ", "const ", "async ", "unsafe "];
    while let Some(rest) = QUALIFIERS.iter().find_map(|word| line.strip_prefix(word)) {
        line = rest;
    }
    line
}

/// Counts the parameters of the function that a text begins with.
fn parameters(text: &str) -> usize {
    let from = text.find("fn ").unwrap_or(0);
    // Generics before the list and types in it have brackets and commas of their own.
    let (mut depth, mut before, mut inside) = (0, ' ', false);
    let mut parts = vec![String::new()];
    for character in text[from..].chars() {
        match character {
            '>' if before == '-' => {}
            '(' | '[' | '<' => depth += 1,
            ')' | ']' | '>' => depth -= 1,
            _ => {}
        }
        before = character;
        match character {
            '(' if !inside => inside = depth == 1,
            _ if !inside => {}
            ')' if depth == 0 => break,
            ',' if depth == 1 => parts.push(String::new()),
            _ => parts.last_mut().expect("there is always a part").push(character),
        }
    }
    parts.iter().filter(|part| is_parameter(part)).count()
}

fn is_parameter(part: &str) -> bool {
    let part = part.trim();
    !part.is_empty() && part.split(' ').next_back().is_some_and(|word| !word.ends_with("self"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, usize, usize)]) {
        let measured = measure(text).functions;
        let measured: Vec<(&str, usize, usize)> = measured
            .iter()
            .map(|function| (&*function.name, function.lines, function.parameters))
            .collect();
        assert_eq!(measured, expected, "{text}");
    }

    #[test]
    fn a_function_ends_where_its_indentation_does() {
        check("fn a() {\n    {\n    }\n}\n\nfn b() {}\n", &[("a", 4, 0), ("b", 1, 0)]);
        check("impl X {\n    pub(crate) fn a(&self) {\n        b()\n    }\n}\n", &[("a", 3, 0)]);
    }

    #[test]
    fn declarations_end_with_a_semicolon() {
        check("trait X {\n    fn a(&self, b: u8);\n    fn c();\n}\n", &[("a", 1, 1), ("c", 1, 0)]);
    }

    #[test]
    fn parameters_are_counted_without_self_and_not_inside_types() {
        check("fn a(b: HashMap<K, V>, c: (u8, u8)) {}", &[("a", 1, 2)]);
        check("fn a<F: Fn(u8, u8) -> u8, G>(&mut self, f: F) {}", &[("a", 1, 1)]);
        check("pub(super) fn a<'s>(f: &dyn Fn(&str) -> Option<u8>, b: u8) {}", &[("a", 1, 2)]);
        check("fn a(\n    &self,\n    b: u8,\n    c: u8,\n) -> u8 {\n    b\n}\n", &[("a", 7, 2)]);
    }

    #[test]
    fn tests_and_blank_lines_do_not_count() {
        let measured = measure("//! A table.\n\nfn a() {}\n#[cfg(test)]\nmod tests {\n}\n");
        assert_eq!((measured.lines, measured.written, measured.comments), (3, 2, 1));
        assert!(measured.is_table);
    }
}
