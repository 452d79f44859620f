//! Calls over the pipes: JSON texts, each ended by a zero byte. Each call has a number, which its answer repeats. Events
//! are kept until a caller takes them.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_mins(2);
/// Older events are dropped.
const MOST_EVENTS: usize = 4096;

#[derive(Debug)]
pub(crate) struct Pipe {
    to: Mutex<(u64, ChildStdin)>,
    heard: Arc<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct State {
    answers: HashMap<u64, Value>,
    events: VecDeque<Value>,
    ended: bool,
}

impl Pipe {
    pub(crate) fn new(to: ChildStdin, from: ChildStdout) -> Self {
        let heard = Arc::new(Heard::default());
        let listening = heard.clone();
        thread::spawn(move || listening.listen(from));
        Self {
            to: Mutex::new((0, to)),
            heard,
        }
    }

    pub(crate) fn call(
        &self,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> Result<Value> {
        let id = {
            let mut to = self.to.lock();
            to.0 += 1;
            let mut message = json!({"id": to.0, "method": method, "params": params});
            if let (Some(session), Some(message)) = (session, message.as_object_mut()) {
                message.insert("sessionId".to_owned(), session.into());
            }
            let mut text = message.to_string().into_bytes();
            text.push(0);
            to.1.write_all(&text)
                .and_then(|()| to.1.flush())
                .with_context(|| format!("cannot send {method} to Chromium"))?;
            to.0
        };
        let answer = self
            .heard
            .wait(|state| state.answers.remove(&id))
            .with_context(|| format!("no answer to {method}"))?;
        if let Some(error) = answer.get("error") {
            bail!("Chromium refused {method}: {error}");
        }
        Ok(answer.get("result").cloned().unwrap_or_default())
    }

    /// Takes the events of a session with this name that have come so far.
    pub(crate) fn take_events(&self, session: &str, method: &str) -> Vec<Value> {
        let mut state = self.heard.state.lock();
        let (mut ours, others): (Vec<Value>, Vec<Value>) =
            state.events.drain(..).partition(|event| {
                let is = |field, text| event.get(field).and_then(Value::as_str) == Some(text);
                is("sessionId", session) && is("method", method)
            });
        state.events = others.into();
        let params = |event: &mut Value| event.get_mut("params").map(Value::take);
        ours.iter_mut().filter_map(params).collect()
    }
}

impl Heard {
    fn listen(&self, from: ChildStdout) {
        let mut from = BufReader::new(from);
        let mut text = Vec::new();
        while from.read_until(0, &mut text).is_ok_and(|read| read > 0) {
            text.pop();
            if let Ok(message) = serde_json::from_slice::<Value>(&text) {
                let mut state = self.state.lock();
                match message.get("id").and_then(Value::as_u64) {
                    Some(id) => {
                        state.answers.insert(id, message);
                    }
                    None => state.events.push_back(message),
                }
                if state.events.len() > MOST_EVENTS {
                    state.events.pop_front();
                }
                self.more.notify_all();
            }
            text.clear();
        }
        self.state.lock().ended = true;
        self.more.notify_all();
    }

    fn wait<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + TIMEOUT;
        let mut state = self.state.lock();
        loop {
            if let Some(found) = look(&mut state) {
                return Ok(found);
            }
            if state.ended {
                bail!("Chromium has ended");
            }
            if self.more.wait_until(&mut state, deadline).timed_out() {
                bail!("Chromium did not answer within {TIMEOUT:?}");
            }
        }
    }
}
