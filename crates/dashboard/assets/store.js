// @ts-check
// What the page knows: one snapshot, then only what changes.

/** @typedef {{used: number, size: number}} Level */
/** @typedef {{name: string, models: string[], cards: number, sick: number, pods: number, memory: Level, core: Level, full: number[], cordoned: boolean, error?: string}} NodeRow */
/** @typedef {{namespace: string, name: string, created: number, priority: number, state: string, asks: string, reason: string | null, help: string[]}} PendingRow */
/** @typedef {{used: string, held: string, remaining: string, usedSeconds: number, heldSeconds: number, remainingSeconds: number, exhausted: boolean, start: number | null, end: number | null, exhausts: number | null}} BudgetStatus */
/** @typedef {{name: string, parent: string | null, namespaces: string[], amount: string, period: string, whenExhausted: string, status: BudgetStatus | null, problem: string | null, points: [number, number][]}} BudgetRow */
/** @typedef {{cards: number, nodes: number, memory: Level, core: Level, idle: Level}} OfModel */
/** @typedef {{nodes: number, cards: number, sick: number, pods: number, pending: number, memory: Level, core: Level, idle: Level, usual: number | null, models: Record<string, OfModel>, fullness: number[]}} Overview */
/** @typedef {{time: number, memory: number, core: number, usable: number, pods: number, pending: number}} Sample */
/** @typedef {{overview: boolean, nodes: boolean, pending: boolean, budgets: boolean, history: boolean, touched: Set<string> | null}} Change */

const MOST_SAMPLES = 360;
const RETRY_MS = 2000;

export const store = {
  /** @type {Overview | null} */
  overview: null,
  /** @type {Map<string, NodeRow>} */
  nodes: new Map(),
  /** @type {Map<string, PendingRow>} */
  pending: new Map(),
  /** @type {Map<string, BudgetRow>} */
  budgets: new Map(),
  /** @type {Sample[]} */
  history: [],
};

/** @type {(change: Change) => void} */
let changed = () => {};
/** @type {(live: boolean, problem?: string) => void} */
let connection = () => {};

/** @param {{namespace: string, name: string}} pod */
export function podKey(pod) {
  return `${pod.namespace}/${pod.name}`;
}

/** @param {any} snapshot */
function replace(snapshot) {
  store.overview = snapshot.overview;
  store.nodes = new Map(snapshot.nodes.map((/** @type {NodeRow} */ row) => [row.name, row]));
  store.pending = new Map(snapshot.pending.map((/** @type {PendingRow} */ row) => [podKey(row), row]));
  store.budgets = new Map(snapshot.budgets.map((/** @type {BudgetRow} */ row) => [row.name, row]));
  store.history = snapshot.history;
  changed({ overview: true, nodes: true, pending: true, budgets: true, history: true, touched: null });
}

/**
 * @template R
 * @param {Map<string, R>} rows
 * @param {{set: R[], gone: string[]} | undefined} change
 * @param {(row: R) => string} key
 */
function merge(rows, change, key) {
  if (!change) return false;
  for (const row of change.set) rows.set(key(row), row);
  for (const gone of change.gone) rows.delete(gone);
  return true;
}

/** @param {any} delta */
function apply(delta) {
  if (delta.overview) store.overview = delta.overview;
  const nodes = merge(store.nodes, delta.nodes, (row) => row.name);
  const pending = merge(store.pending, delta.pending, podKey);
  const budgets = merge(store.budgets, delta.budgets, (row) => row.name);
  if (delta.sample) {
    store.history.push(delta.sample);
    if (store.history.length > MOST_SAMPLES) store.history.shift();
  }
  const touched = new Set(/** @type {string[]} */ (delta.touched ?? []));
  changed({ overview: Boolean(delta.overview), nodes, pending, budgets, history: Boolean(delta.sample), touched });
}

/**
 * Reads from the dashboard. Without a session, the browser goes to the login page.
 * @param {string} path
 */
export async function read(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  // The hash is kept, so that the same view is shown after the login.
  if (answer.status === 401 || answer.status === 403) location.assign(`/login${location.hash}`);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}

async function connect() {
  try {
    const snapshot = await read("/api/snapshot");
    replace(snapshot);
    const stream = new EventSource(`/api/stream?after=${encodeURIComponent(snapshot.id)}`);
    stream.addEventListener("open", () => connection(true));
    stream.addEventListener("snapshot", (event) => replace(JSON.parse(event.data)));
    stream.addEventListener("delta", (event) => apply(JSON.parse(event.data)));
    stream.addEventListener("error", () => {
      // Streams end now and then, and the browser resumes by itself after the last event that it received. The page
      // reports this only if it takes long.
      setTimeout(() => {
        if (stream.readyState !== EventSource.OPEN) connection(false);
      }, RETRY_MS);
      if (stream.readyState === EventSource.CLOSED) setTimeout(connect, RETRY_MS);
    });
  } catch (error) {
    connection(false, error instanceof Error ? error.message : String(error));
    setTimeout(connect, RETRY_MS);
  }
}

/**
 * @param {(change: Change) => void} onChange
 * @param {(live: boolean, problem?: string) => void} onConnection
 */
export function follow(onChange, onConnection) {
  changed = onChange;
  connection = onConnection;
  connect();
}
