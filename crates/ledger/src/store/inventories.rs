//! The cards of nodes whose pods are not settled, kept beside the ledger: a node's object may go before its pods', and
//! what they held must still have a price.

use super::sql::{Transaction, text};
use super::{Outcome, StoreError};

/// What is to be known of a node's cards from now on; nothing forgets it.
pub(super) async fn remember<T: Transaction>(
    tx: &mut T,
    node: &str,
    cards: Option<&str>,
) -> Result<Outcome, StoreError> {
    let changed = if let Some(cards) = cards {
        let sql = "INSERT INTO inventories (node, cards) VALUES ($1, $2) \
            ON CONFLICT (node) DO UPDATE SET cards = excluded.cards";
        tx.execute(sql, &[node.into(), cards.into()]).await?
    } else {
        let sql = "DELETE FROM inventories WHERE node = $1";
        tx.execute(sql, &[node.into()]).await?
    };
    Ok(match changed {
        0 => Outcome::AlreadyThere,
        _ => Outcome::Applied,
    })
}

/// Each node with its cards.
pub(super) async fn all<T: Transaction>(tx: &mut T) -> Result<Vec<(String, String)>, StoreError> {
    let sql = "SELECT node, cards FROM inventories ORDER BY node";
    let rows = tx.query(sql, &[]).await?;
    rows.iter()
        .map(|row| Ok((text(row, 0)?, text(row, 1)?)))
        .collect()
}
