//! What the ledger's statements need from a database. SQLite and PostgreSQL understand the same text: parameters
//! `$1`, `$2`, …; only whole numbers and texts.

use super::StoreError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Int(i64),
    Text(String),
    Null,
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

pub(super) type Row = Vec<Value>;

/// A statement for many rows at once. It reads them from the table `given`, and must have the same effect whether it
/// gets them all together or one by one.
#[derive(Debug)]
pub(super) struct Each {
    /// The first columns of `given`, with whole numbers.
    pub(super) ints: &'static [&'static str],
    /// The columns after them, with texts.
    pub(super) texts: &'static [&'static str],
    pub(super) sql: &'static str,
}

impl Each {
    /// The whole statement; the query `rows` produces the table `given`.
    pub(super) fn text(&self, rows: &str) -> String {
        let columns = [self.ints, self.texts].concat().join(", ");
        format!("WITH given ({columns}) AS ({rows}) {}", self.sql)
    }

    /// How many columns `given` has.
    pub(super) fn width(&self) -> usize {
        self.ints.len() + self.texts.len()
    }
}

/// A transaction.
pub(super) trait Transaction: Send {
    /// Runs a statement and returns its rows.
    fn query(
        &mut self,
        sql: &str,
        parameters: &[Value],
    ) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;

    /// Runs a statement and returns how many rows it changed.
    fn execute(
        &mut self,
        sql: &str,
        parameters: &[Value],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Runs a statement for all these rows, if there are any, and returns its rows in any order.
    fn each(
        &mut self,
        statement: &'static Each,
        rows: &[Row],
    ) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;
}

pub(super) fn int(row: &Row, column: usize) -> Result<i64, StoreError> {
    match row.get(column) {
        Some(Value::Int(number)) => Ok(*number),
        other => Err(StoreError::Strange(format!("{other:?} for a number"))),
    }
}

pub(super) fn optional_int(row: &Row, column: usize) -> Result<Option<i64>, StoreError> {
    match row.get(column) {
        Some(Value::Null) => Ok(None),
        _ => int(row, column).map(Some),
    }
}

pub(super) fn text(row: &Row, column: usize) -> Result<String, StoreError> {
    match row.get(column) {
        Some(Value::Text(text)) => Ok(text.clone()),
        other => Err(StoreError::Strange(format!("{other:?} for a text"))),
    }
}

pub(super) fn optional_text(row: &Row, column: usize) -> Result<Option<String>, StoreError> {
    match row.get(column) {
        Some(Value::Null) => Ok(None),
        _ => text(row, column).map(Some),
    }
}

/// The only number of the only row.
pub(super) async fn number<T: Transaction>(
    tx: &mut T,
    sql: &str,
    parameters: &[Value],
) -> Result<i64, StoreError> {
    let rows = tx.query(sql, parameters).await?;
    rows.first().map_or_else(
        || {
            Err(StoreError::Strange(
                "no row where there is always one".to_owned(),
            ))
        },
        |row| int(row, 0),
    )
}
