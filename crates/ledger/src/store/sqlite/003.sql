-- The ledger, version 3: what each pod holds, so that a bill says what it is for. Not known of pods that were there before.
ALTER TABLE runs ADD COLUMN cards TEXT;
