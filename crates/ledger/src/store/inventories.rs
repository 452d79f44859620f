//! The cards of nodes that have unsettled pods, stored beside the ledger. A node's object may be deleted before its
//! pods, and what they held must still have a price.

use super::sql::{Transaction, text};
use super::{Outcome, StoreError};

/// Stores the cards of a node; `None` forgets the node.
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
