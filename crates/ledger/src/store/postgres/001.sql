-- The ledger, version 1. Times are seconds since 1970, amounts millionths of a GPU-second.

-- Who may write: whoever took over last.
CREATE TABLE writer (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    epoch BIGINT NOT NULL,
    holder TEXT NOT NULL
);
INSERT INTO writer VALUES (1, 0, '');

-- Up to where details may go.
CREATE TABLE retention (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    before_s BIGINT NOT NULL
);
INSERT INTO retention VALUES (1, -9223372036854775808);

-- The two sums are those of the account's transfers, kept because there are many.
CREATE TABLE accounts (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('budget', 'usage', 'descendants', 'amounts', 'grants', 'unbudgeted')),
    name TEXT NOT NULL,
    slot_s BIGINT NOT NULL,
    paid_in BIGINT NOT NULL DEFAULT 0 CHECK (paid_in >= 0),
    paid_out BIGINT NOT NULL DEFAULT 0 CHECK (paid_out >= 0),
    UNIQUE (kind, name, slot_s)
);

CREATE TABLE entries (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('charge', 'reversal', 'issue', 'rollover', 'grant', 'carry')),
    identity TEXT UNIQUE,
    epoch BIGINT NOT NULL,
    written_s BIGINT NOT NULL,
    author TEXT,
    reason TEXT,
    CHECK (kind <> 'grant' OR (author <> '' AND reason <> '')),
    CHECK (kind NOT IN ('charge', 'reversal', 'rollover', 'grant') OR identity IS NOT NULL)
);

-- Both sides of a movement in one row: an entry cannot be out of balance.
CREATE TABLE transfers (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    entry BIGINT NOT NULL REFERENCES entries (id),
    from_account BIGINT NOT NULL REFERENCES accounts (id),
    to_account BIGINT NOT NULL REFERENCES accounts (id),
    amount BIGINT NOT NULL CHECK (amount > 0),
    CHECK (from_account <> to_account)
);
CREATE INDEX transfers_by_entry ON transfers (entry);
CREATE INDEX transfers_by_source ON transfers (from_account, to_account);
CREATE INDEX transfers_by_target ON transfers (to_account, from_account);

-- How far each pod is charged.
CREATE TABLE runs (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pod_uid TEXT NOT NULL UNIQUE,
    namespace TEXT NOT NULL,
    pod TEXT NOT NULL,
    begin_s BIGINT NOT NULL,
    through_s BIGINT NOT NULL CHECK (through_s >= begin_s),
    revision BIGINT NOT NULL,
    end_s BIGINT CHECK (end_s = through_s),
    carried BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX runs_unsettled ON runs (id) WHERE end_s IS NULL;
CREATE INDEX runs_by_namespace ON runs (namespace);

CREATE TABLE charges (
    entry BIGINT PRIMARY KEY REFERENCES entries (id),
    run BIGINT NOT NULL REFERENCES runs (id),
    revision BIGINT NOT NULL,
    from_s BIGINT NOT NULL,
    to_s BIGINT NOT NULL CHECK (to_s > from_s),
    rate BIGINT NOT NULL CHECK (rate >= 0),
    formula TEXT NOT NULL,
    UNIQUE (run, revision, from_s),
    UNIQUE (run, revision, to_s)
);

CREATE TABLE reversals (
    entry BIGINT PRIMARY KEY REFERENCES entries (id),
    charge BIGINT NOT NULL UNIQUE REFERENCES charges (entry)
);

-- What is written stays as it is.
CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only';
END $$;
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries FOR EACH ROW EXECUTE FUNCTION stay();
CREATE TRIGGER transfers_stay BEFORE UPDATE ON transfers FOR EACH ROW EXECUTE FUNCTION stay();
CREATE TRIGGER charges_stay BEFORE UPDATE ON charges FOR EACH ROW EXECUTE FUNCTION stay();
CREATE TRIGGER reversals_stay BEFORE UPDATE ON reversals FOR EACH ROW EXECUTE FUNCTION stay();

-- Only what has grown old may go. Entries and reversals go with their charges, by the references above.
CREATE FUNCTION keep_charge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM runs r, retention t WHERE r.id = OLD.run AND r.end_s < t.before_s) THEN
        RAISE EXCEPTION 'the ledger is append-only';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER charges_are_kept BEFORE DELETE ON charges FOR EACH ROW EXECUTE FUNCTION keep_charge();
CREATE FUNCTION keep_transfer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM charges c JOIN runs r ON r.id = c.run JOIN retention t ON r.end_s < t.before_s
        WHERE c.entry = OLD.entry OR c.entry = (SELECT x.charge FROM reversals x WHERE x.entry = OLD.entry)
    ) THEN
        RAISE EXCEPTION 'the ledger is append-only';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER transfers_are_kept BEFORE DELETE ON transfers FOR EACH ROW EXECUTE FUNCTION keep_transfer();
CREATE TRIGGER entries_are_kept BEFORE DELETE ON entries FOR EACH ROW
WHEN (OLD.kind NOT IN ('charge', 'reversal')) EXECUTE FUNCTION stay();
