//! Tables in Markdown.

use std::fmt::Write as _;

/// A table with a heading for each column.
pub(crate) fn table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> String {
    let mut text = format!("\n| {} |\n|{}\n", headings.join(" | "), "---|".repeat(N));
    for row in rows {
        let cells = row.each_ref().map(|cell| one_line(cell));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

fn one_line(cell: &str) -> String {
    let words: Vec<&str> = cell.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

/// The text as code, or nothing if it is empty.
pub(crate) fn code(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("`{text}`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_line_and_keeps_the_table_whole() {
        let row = ["a\n b".to_owned(), code("x|y")];
        let expected = "\n| one | two |\n|---|---|\n| a b | `x\\|y` |\n";
        assert_eq!(table(["one", "two"], &[row]), expected);
    }
}
