-- The ledger, version 2: the cards of nodes with pods whose end is not charged, because a node may go before its pods.
CREATE TABLE inventories (
    node TEXT PRIMARY KEY,
    cards TEXT NOT NULL
) STRICT;
