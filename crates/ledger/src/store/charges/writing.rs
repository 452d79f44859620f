//! Writes what a batch has accepted: one statement for all rows of a table, and one sum for each account.

use std::collections::BTreeMap;

use super::{Accepted, Run, Sheet, State, identity};
use crate::journal::Account;
use crate::store::accounts::{self, Sums};
use crate::store::sql::{Each, Row, Transaction, Value, int, text};
use crate::store::{StoreError, cards};

const BEGIN: Each = Each {
    ints: &["begins", "through", "ends"],
    texts: &["uid", "namespace", "name", "cards"],
    sql: "INSERT INTO runs (pod_uid, namespace, pod, begin_s, through_s, revision, end_s, cards) \
        SELECT uid, namespace, name, begins, through, 0, ends, cards FROM given RETURNING pod_uid, id",
};
const ADVANCE: Each = Each {
    ints: &["run", "through", "revision", "ends"],
    texts: &[],
    sql: "UPDATE runs SET through_s = given.through, revision = given.revision, end_s = given.ends \
        FROM given WHERE runs.id = given.run",
};
pub(super) const CHARGE: Each = Each {
    ints: &["entry", "run", "revision", "begins", "ends", "rate"],
    texts: &["formula"],
    sql: "INSERT INTO charges (entry, run, revision, from_s, to_s, rate, formula) \
        SELECT entry, run, revision, begins, ends, rate, formula FROM given",
};

impl Sheet<'_> {
    /// Writes everything that was accepted and how far the pods are now charged. Nothing unwritten is left on the sheet.
    pub(in crate::store) async fn write<T: Transaction>(
        &mut self,
        tx: &mut T,
    ) -> Result<(), StoreError> {
        self.write_runs(tx).await?;
        let accepted = std::mem::take(&mut self.accepted);
        if accepted.is_empty() {
            return Ok(());
        }
        let entries = self.write_entries(tx, &accepted).await?;
        let transfers = || accepted.iter().flat_map(|accepted| &accepted.transfers);
        let accounts = transfers().flat_map(|transfer| [&transfer.from, &transfer.to]);
        let numbers = accounts::numbers(tx, accounts.collect()).await?;
        let number = |account: &Account| {
            let number = numbers.get(account).copied();
            number.ok_or_else(|| lost(&account.to_string()))
        };
        let (mut charges, mut moved, mut sums) = (Vec::new(), Vec::new(), Sums::default());
        for (accepted, (entry, run)) in accepted.iter().zip(&entries) {
            charges.push(accepted.row(*entry, *run));
            for transfer in &accepted.transfers {
                let (from, to) = (number(&transfer.from)?, number(&transfer.to)?);
                let amount = transfer.amount;
                let ids = [*entry, from, to, amount.micros()];
                moved.push(ids.map(Value::from).to_vec());
                sums.add((from, to), amount)?;
            }
        }
        tx.each(&CHARGE, &charges).await?;
        accounts::transfer(tx, &moved, &sums).await
    }

    async fn write_runs<T: Transaction>(&mut self, tx: &mut T) -> Result<(), StoreError> {
        let changed: Vec<Row> = self.runs.values().filter_map(Run::changed).collect();
        tx.each(&ADVANCE, &changed).await?;
        let new = self
            .runs
            .iter()
            .filter_map(|(pod, run)| run.begun(pod).transpose());
        let mut new: Vec<(usize, Row)> = new.collect::<Result<_, _>>()?;
        new.sort_unstable_by_key(|(place, _)| *place);
        let new: Vec<Row> = new.into_iter().map(|(_, row)| row).collect();
        for row in tx.each(&BEGIN, &new).await? {
            let (pod, id) = (text(&row, 0)?, int(&row, 1)?);
            if let Some(run) = self.runs.get_mut(pod.as_str()) {
                run.state = State::Written(id);
            }
        }
        for run in self.runs.values_mut() {
            if let State::Changed(id) = run.state {
                run.state = State::Written(id);
            }
        }
        Ok(())
    }

    /// Returns the numbers of the entry and the run for each accepted charge.
    async fn write_entries<T: Transaction>(
        &self,
        tx: &mut T,
        accepted: &[Accepted<'_>],
    ) -> Result<Vec<(i64, i64)>, StoreError> {
        let mut identities = Vec::with_capacity(accepted.len());
        for Accepted {
            charge, revision, ..
        } in accepted
        {
            let run = self.runs.get(charge.pod.as_str()).and_then(Run::id);
            let run = run.ok_or_else(|| lost(charge.pod.as_str()))?;
            identities.push((identity(run, *revision, charge.from), run));
        }
        let headings = identities
            .iter()
            .map(|(identity, _)| self.heading("charge", identity.clone()).row());
        let mut entries = BTreeMap::new();
        for row in tx
            .each(&accounts::ENTRY, &headings.collect::<Vec<_>>())
            .await?
        {
            entries.insert(text(&row, 0)?, int(&row, 1)?);
        }
        let entry = |(identity, run): (String, i64)| {
            let entry = entries.get(&identity).copied();
            Ok((entry.ok_or_else(|| lost(&identity))?, run))
        };
        identities.into_iter().map(entry).collect()
    }
}

impl Run<'_> {
    fn changed(&self) -> Option<Row> {
        let State::Changed(id) = self.state else {
            return None;
        };
        let (through, revision) = (self.through.into(), self.revision.into());
        Some(vec![id.into(), through, revision, self.end.into()])
    }

    fn begun(&self, pod: &str) -> Result<Option<(usize, Row)>, StoreError> {
        let State::New {
            place,
            namespace,
            name,
            begin,
            cards,
        } = self.state
        else {
            return Ok(None);
        };
        let mut row: Row = vec![begin.into(), self.through.into(), self.end.into()];
        row.extend([pod, namespace, name].map(Value::from));
        row.push(cards::written(cards)?.as_deref().into());
        Ok(Some((place, row)))
    }
}

impl Accepted<'_> {
    fn row(&self, entry: i64, run: i64) -> Row {
        let charge = self.charge;
        vec![
            entry.into(),
            run.into(),
            self.revision.into(),
            charge.from.into(),
            charge.to.into(),
            charge.rate.micros().into(),
            charge.formula.as_str().into(),
        ]
    }
}

fn lost(what: &str) -> StoreError {
    StoreError::Strange(format!("no number of {what}, which was just written"))
}
