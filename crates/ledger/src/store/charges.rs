//! Charges and their corrections.
//!
//! The charges of a pod that were not reversed join without gaps, from its begin to how far it is charged. A charge
//! is accepted only if it joins the last one, so a second charge for the same time finds that time already charged.
//!
//! The changes of a batch are decided in memory on its [`Sheet`], one after the other, from what the ledger knew of
//! the pods when the transaction began. What was accepted is then written in few statements ([`writing`]).

mod taking_back;
mod writing;

use std::collections::{BTreeMap, BTreeSet};

use super::accounts::Heading;
use super::sql::{Each, Transaction, int, optional_int, text};
use super::{Batch, Change, Outcome, Settlement, StoreError};
use crate::Seconds;
use crate::journal::{self, Transfer};
use crate::meter::{Charge, HeldCard};

/// What a batch knows of its pods, and what it has accepted and not written yet.
#[derive(Debug)]
pub(super) struct Sheet<'a> {
    batch: &'a Batch,
    /// By the pods' uids.
    runs: BTreeMap<&'a str, Run<'a>>,
    accepted: Vec<Accepted<'a>>,
}

/// How far a pod is charged.
#[derive(Debug)]
struct Run<'a> {
    state: State<'a>,
    through: Seconds,
    /// Grows with each correction, so that time that was reversed can be charged again.
    revision: i64,
    end: Option<Seconds>,
}

#[derive(Debug)]
enum State<'a> {
    /// In the ledger under this number, and not changed on this sheet.
    Written(i64),
    /// In the ledger under this number, but changed on this sheet.
    Changed(i64),
    New {
        /// Statements list pods in the order in which they were charged first.
        place: usize,
        namespace: &'a str,
        name: &'a str,
        begin: Seconds,
        cards: &'a [HeldCard],
    },
}

/// A charge that joins its pod's last one.
#[derive(Debug)]
struct Accepted<'a> {
    charge: &'a Charge,
    revision: i64,
    transfers: Vec<Transfer>,
}

const RUNS: Each = Each {
    ints: &[],
    texts: &["uid"],
    sql: "SELECT r.pod_uid, r.id, r.through_s, r.revision, r.end_s FROM given JOIN runs r ON r.pod_uid = given.uid",
};

impl<'a> Sheet<'a> {
    /// Reads everything that the ledger knows of the batch's pods.
    pub(super) async fn read<T: Transaction>(
        tx: &mut T,
        batch: &'a Batch,
    ) -> Result<Self, StoreError> {
        let pods = batch.changes.iter().filter_map(|change| match change {
            Change::Charge(charge) => Some(charge.pod.as_str()),
            Change::Settle(settlement) => Some(settlement.pod.as_str()),
            _ => None,
        });
        let pods: BTreeSet<&'a str> = pods.collect();
        let given: Vec<_> = pods.iter().map(|pod| vec![(*pod).into()]).collect();
        let mut runs = BTreeMap::new();
        for row in tx.each(&RUNS, &given).await? {
            let run = Run {
                state: State::Written(int(&row, 1)?),
                through: int(&row, 2)?,
                revision: int(&row, 3)?,
                end: optional_int(&row, 4)?,
            };
            if let Some(pod) = pods.get(text(&row, 0)?.as_str()) {
                runs.insert(*pod, run);
            }
        }
        Ok(Self {
            batch,
            runs,
            accepted: Vec::new(),
        })
    }

    /// Accepts a charge, or says why not.
    pub(super) fn charge(&mut self, charge: &'a Charge) -> Result<Outcome, StoreError> {
        if charge.to <= charge.from {
            let refused = format!("pod {} would be charged for no time at all", charge.pod);
            return Err(StoreError::Refused(refused));
        }
        let place = self.runs.len();
        let run = self.runs.entry(charge.pod.as_str()).or_insert_with(|| Run {
            through: charge.from,
            revision: 0,
            end: None,
            state: State::New {
                place,
                namespace: &charge.namespace,
                name: &charge.name,
                begin: charge.from,
                cards: &charge.cards,
            },
        });
        if charge.to <= run.through {
            return Ok(Outcome::AlreadyThere);
        }
        if let Some(end) = run.end {
            return Err(StoreError::Settled {
                pod: charge.pod.clone(),
                end,
            });
        }
        if charge.from != run.through {
            return Err(StoreError::Apart {
                pod: charge.pod.clone(),
                through: run.through,
                from: charge.from,
            });
        }
        self.accepted.push(Accepted {
            charge,
            revision: run.revision,
            transfers: journal::charge(&charge.namespace, &charge.legs, charge.amount()?),
        });
        run.advance(charge.to, None);
        Ok(Outcome::Applied)
    }

    /// Records a pod's end. If the pod is charged past it, everything accepted so far is written, and the excess is
    /// reversed at once.
    pub(super) async fn settle<T: Transaction>(
        &mut self,
        tx: &mut T,
        settlement: &'a Settlement,
    ) -> Result<Outcome, StoreError> {
        let Settlement {
            pod,
            namespace,
            name,
            end,
        } = settlement;
        let place = self.runs.len();
        let run = self.runs.entry(pod.as_str()).or_insert_with(|| Run {
            through: *end,
            revision: 0,
            end: None,
            state: State::New {
                place,
                namespace,
                name,
                begin: *end,
                cards: &[],
            },
        });
        match run.end {
            Some(known) if known == *end => return Ok(Outcome::AlreadyThere),
            Some(known) if known < *end => {
                return Err(StoreError::Settled {
                    pod: pod.clone(),
                    end: known,
                });
            }
            _ => {}
        }
        if run.through < *end {
            return Err(StoreError::Apart {
                pod: pod.clone(),
                through: run.through,
                from: *end,
            });
        }
        if run.through > *end {
            self.write(tx).await?;
            self.take_back(tx, pod.as_str(), *end).await?;
        }
        if let Some(run) = self.runs.get_mut(pod.as_str()) {
            run.advance(*end, Some(*end));
        }
        Ok(Outcome::Applied)
    }

    fn heading(&self, kind: &'static str, identity: String) -> Heading<'a> {
        Heading::new(kind, Some(identity), self.batch.epoch, self.batch.now)
    }
}

impl Run<'_> {
    fn advance(&mut self, through: Seconds, end: Option<Seconds>) {
        (self.through, self.end) = (through, end);
        if let State::Written(id) = self.state {
            self.state = State::Changed(id);
        }
    }

    /// Its number in the ledger, if it has one already.
    fn id(&self) -> Option<i64> {
        match self.state {
            State::Written(id) | State::Changed(id) => Some(id),
            State::New { .. } => None,
        }
    }
}

/// Makes a second charge for the same time impossible. The time comes first, so that charges that are written
/// together are also close together in the index.
fn identity(run: i64, revision: i64, from: Seconds) -> String {
    format!("charge/{from}/{run}/{revision}")
}
