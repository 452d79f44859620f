-- The ledger, version 1. Times are seconds since 1970, amounts millionths of a GPU-second.

-- Who may write: whoever took over last.
CREATE TABLE writer (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    epoch INTEGER NOT NULL,
    holder TEXT NOT NULL
) STRICT;
INSERT INTO writer VALUES (1, 0, '');

-- Up to where details may go.
CREATE TABLE retention (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    before_s INTEGER NOT NULL
) STRICT;
INSERT INTO retention VALUES (1, -9223372036854775808);

-- The two sums are those of the account's transfers, kept because there are many.
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('budget', 'usage', 'descendants', 'amounts', 'grants', 'unbudgeted')),
    name TEXT NOT NULL,
    slot_s INTEGER NOT NULL,
    paid_in INTEGER NOT NULL DEFAULT 0 CHECK (paid_in >= 0),
    paid_out INTEGER NOT NULL DEFAULT 0 CHECK (paid_out >= 0),
    UNIQUE (kind, name, slot_s)
) STRICT;

CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('charge', 'reversal', 'issue', 'rollover', 'grant', 'carry')),
    identity TEXT UNIQUE,
    epoch INTEGER NOT NULL,
    written_s INTEGER NOT NULL,
    author TEXT,
    reason TEXT,
    CHECK (kind <> 'grant' OR (author <> '' AND reason <> '')),
    CHECK (kind NOT IN ('charge', 'reversal', 'rollover', 'grant') OR identity IS NOT NULL)
) STRICT;

-- Both sides of a movement in one row: an entry cannot be out of balance.
CREATE TABLE transfers (
    id INTEGER PRIMARY KEY,
    entry INTEGER NOT NULL REFERENCES entries (id),
    from_account INTEGER NOT NULL REFERENCES accounts (id),
    to_account INTEGER NOT NULL REFERENCES accounts (id),
    amount INTEGER NOT NULL CHECK (amount > 0),
    CHECK (from_account <> to_account)
) STRICT;
CREATE INDEX transfers_by_entry ON transfers (entry);
CREATE INDEX transfers_by_source ON transfers (from_account, to_account);
CREATE INDEX transfers_by_target ON transfers (to_account, from_account);

-- How far each pod is charged.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    pod_uid TEXT NOT NULL UNIQUE,
    namespace TEXT NOT NULL,
    pod TEXT NOT NULL,
    begin_s INTEGER NOT NULL,
    through_s INTEGER NOT NULL CHECK (through_s >= begin_s),
    revision INTEGER NOT NULL,
    end_s INTEGER CHECK (end_s = through_s),
    carried INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX runs_unsettled ON runs (id) WHERE end_s IS NULL;
CREATE INDEX runs_by_namespace ON runs (namespace);

CREATE TABLE charges (
    entry INTEGER PRIMARY KEY REFERENCES entries (id),
    run INTEGER NOT NULL REFERENCES runs (id),
    revision INTEGER NOT NULL,
    from_s INTEGER NOT NULL,
    to_s INTEGER NOT NULL CHECK (to_s > from_s),
    rate INTEGER NOT NULL CHECK (rate >= 0),
    formula TEXT NOT NULL,
    UNIQUE (run, revision, from_s),
    UNIQUE (run, revision, to_s)
) STRICT;

CREATE TABLE reversals (
    entry INTEGER PRIMARY KEY REFERENCES entries (id),
    charge INTEGER NOT NULL UNIQUE REFERENCES charges (entry)
) STRICT;

-- What is written stays as it is.
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER transfers_stay BEFORE UPDATE ON transfers BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER charges_stay BEFORE UPDATE ON charges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER reversals_stay BEFORE UPDATE ON reversals BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- Only what has grown old may go. Entries and reversals go with their charges, by the references above.
CREATE TRIGGER charges_are_kept BEFORE DELETE ON charges
WHEN NOT EXISTS (SELECT 1 FROM runs r, retention t WHERE r.id = OLD.run AND r.end_s < t.before_s)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER transfers_are_kept BEFORE DELETE ON transfers
WHEN NOT EXISTS (
    SELECT 1 FROM charges c JOIN runs r ON r.id = c.run JOIN retention t ON r.end_s < t.before_s
    WHERE c.entry = OLD.entry OR c.entry = (SELECT x.charge FROM reversals x WHERE x.entry = OLD.entry)
)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entries_are_kept BEFORE DELETE ON entries
WHEN OLD.kind NOT IN ('charge', 'reversal')
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
