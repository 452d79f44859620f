//! Tables in text files: comma-separated values with a header, read field by field so that a mistake is
//! reported with its file, line and column.

use std::path::{Path, PathBuf};

use thiserror::Error;

#[derive(Debug, Error)]
pub enum TableError {
    #[error("cannot read {}: check that the file exists and is readable", file.display())]
    Read {
        file: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}:{line}: {problem}", file.display())]
    Line {
        file: PathBuf,
        line: usize,
        problem: String,
    },
    #[error("{}:{line}: column {column}: {expected}, found {found:?}", file.display())]
    Field {
        file: PathBuf,
        line: usize,
        column: String,
        expected: String,
        found: String,
    },
}

/// A file's text and its name for messages.
#[derive(Clone, Debug)]
pub struct Source {
    pub file: PathBuf,
    pub text: String,
}

impl Source {
    pub fn open(file: &Path) -> Result<Self, TableError> {
        let text = std::fs::read_to_string(file).map_err(|source| TableError::Read {
            file: file.into(),
            source,
        })?;
        Ok(Self {
            file: file.into(),
            text,
        })
    }

    /// Lines that are not blank, with their number counted from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines
            .map(|(index, line)| (index + 1, line))
            .filter(|(_, line)| !line.trim().is_empty())
    }

    pub fn problem(&self, line: usize, problem: impl Into<String>) -> TableError {
        TableError::Line {
            file: self.file.clone(),
            line,
            problem: problem.into(),
        }
    }

    pub fn unexpected(
        &self,
        line: usize,
        column: &str,
        expected: impl Into<String>,
        found: &str,
    ) -> TableError {
        TableError::Field {
            file: self.file.clone(),
            line,
            column: column.into(),
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// A table with named columns.
#[derive(Debug)]
pub struct Table<'a> {
    source: &'a Source,
    columns: Vec<String>,
    rows: Vec<(usize, Vec<String>)>,
}

/// One row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    table: &'a Table<'a>,
    line: usize,
    fields: &'a [String],
}

impl<'a> Table<'a> {
    /// Reads a table that must have the `needed` columns, in any order and among others.
    pub fn parse(source: &'a Source, needed: &[&str]) -> Result<Self, TableError> {
        let mut lines = source.lines();
        let Some((line, header)) = lines.next() else {
            return Err(source.problem(1, format!("empty: expected a header {}", needed.join(","))));
        };
        let columns = split(header).map_err(|problem| source.problem(line, problem))?;
        for column in needed {
            if !columns.iter().any(|name| name == column) {
                let problem = format!("no column {column}: expected {}", needed.join(","));
                return Err(source.problem(line, problem));
            }
        }
        let mut rows = Vec::new();
        for (line, text) in lines {
            let fields = split(text).map_err(|problem| source.problem(line, problem))?;
            if fields.len() != columns.len() {
                let problem = format!(
                    "{} fields where the header has {}",
                    fields.len(),
                    columns.len()
                );
                return Err(source.problem(line, problem));
            }
            rows.push((line, fields));
        }
        Ok(Self {
            source,
            columns,
            rows,
        })
    }

    pub fn rows(&'a self) -> impl Iterator<Item = Row<'a>> {
        self.rows.iter().map(move |(line, fields)| Row {
            table: self,
            line: *line,
            fields,
        })
    }
}

impl<'a> Row<'a> {
    /// The field, empty if the table has no such column.
    pub fn text(&self, column: &str) -> &'a str {
        let index = self.table.columns.iter().position(|name| name == column);
        index
            .and_then(|index| self.fields.get(index))
            .map_or("", |field| field.trim())
    }

    /// A whole number in `range`.
    pub fn number(
        &self,
        column: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<i64, TableError> {
        let text = self.text(column);
        match text.parse() {
            Ok(number) if range.contains(&number) => Ok(number),
            _ => Err(self.unexpected(
                column,
                format!(
                    "expected a whole number from {} to {}",
                    range.start(),
                    range.end()
                ),
            )),
        }
    }

    pub fn unexpected(&self, column: &str, expected: impl Into<String>) -> TableError {
        let found = self.text(column);
        self.table
            .source
            .unexpected(self.line, column, expected, found)
    }
}

/// Fields of one line. A field in double quotes may hold commas; two quotes there mean one.
///
/// The crate `csv` is not used, because it accepts a quote that is never closed: the rows after the quote become a part
/// of the field. A replay of a part of a trace would then look like a replay of all of it.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                push(&mut fields, '"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => push(&mut fields, other),
        }
    }
    if quoted {
        return Err("a quoted field does not end on this line".into());
    }
    Ok(fields)
}

fn push(fields: &mut [String], character: char) {
    if let Some(field) = fields.last_mut() {
        field.push(character);
    }
}
