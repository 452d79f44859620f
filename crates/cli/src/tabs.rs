//! Aligns columns as Go's tabwriter does, which kubectl and the predecessor use.

/// Blanks between two columns.
const PADDING: usize = 2;

/// Aligns cells that end in a tab. A column spans the neighbouring lines that have it; the text after the
/// last tab of a line belongs to no column.
pub(crate) fn align(text: &str) -> String {
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    let mut widths: Vec<Vec<usize>> = lines.iter().map(|_| Vec::new()).collect();
    set_widths(&lines, &mut widths, 0, 0, lines.len());
    let mut aligned = String::new();
    for (cells, widths) in lines.iter().zip(&widths) {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            line.push_str(cell);
            let blanks = widths.get(column).map_or(0, |width| width - length(cell));
            line.extend(std::iter::repeat_n(' ', blanks));
        }
        aligned.push_str(line.trim_end());
        aligned.push('\n');
    }
    aligned
}

fn length(cell: &str) -> usize {
    cell.chars().count()
}

/// Sets the widths of this column and those to its right in lines `from` to `to`.
fn set_widths(
    lines: &[Vec<&str>],
    widths: &mut [Vec<usize>],
    column: usize,
    from: usize,
    to: usize,
) {
    let has = |line: usize| {
        lines
            .get(line)
            .is_some_and(|cells| cells.len() > column + 1)
    };
    let mut line = from;
    while line < to {
        let end = (line..to).find(|line| !has(*line)).unwrap_or(to);
        let block = lines.get(line..end).unwrap_or_default();
        let cells = block.iter().filter_map(|cells| cells.get(column));
        let width = cells.map(|cell| length(cell)).max().unwrap_or(0) + PADDING;
        for widths in widths.get_mut(line..end).unwrap_or_default() {
            widths.push(width);
        }
        if line < end {
            set_widths(lines, widths, column + 1, line, end);
        }
        line = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::align;

    #[test]
    fn a_column_is_as_wide_as_its_widest_cell_and_two_blanks() {
        assert_eq!(
            align("a\tbbb\tc\nlong\tb\td\n"),
            "a     bbb  c\nlong  b    d\n"
        );
    }

    #[test]
    fn a_line_without_the_column_ends_it() {
        assert_eq!(
            align("wide cell\tb\n---\na\tb\n"),
            "wide cell  b\n---\na  b\n"
        );
    }

    #[test]
    fn a_short_line_does_not_end_the_columns_to_its_left() {
        let text = "n\tspace\tx\t\nAllocated :\t6 (20%)\t\n";
        assert_eq!(
            align(text),
            "n            space    x\nAllocated :  6 (20%)\n"
        );
    }

    #[test]
    fn an_empty_cell_keeps_its_column() {
        assert_eq!(
            align("a\tPENDING\tz\nb\t\ty\n"),
            "a  PENDING  z\nb           y\n"
        );
    }
}
