// @ts-check
// Which view is shown, and when it is drawn again.

import { h } from "./dom.js";
import { clock, count } from "./format.js";
import { follow, store } from "./store.js";
import { overview } from "./overview.js";
import { nodes } from "./nodes.js";
import { node } from "./node.js";
import { pending } from "./pending.js";
import { pod } from "./pod.js";
import { budgets } from "./budgets.js";

/** @typedef {import("./store.js").Change} Change */
/** @typedef {{title: string, element: HTMLElement, update: (change: Change) => void}} View */

/** @typedef {{tab: string, show: (...parts: string[]) => View}} Place */

/** @type {Place} */
const HOME = { tab: "overview", show: overview };
/** @type {Record<string, Place>} */
const VIEWS = {
  nodes: { tab: "nodes", show: (name, card) => (name === undefined ? nodes() : node(name, card)) },
  pending: { tab: "pending", show: pending },
  pods: { tab: "", show: pod },
  budgets: { tab: "budgets", show: budgets },
};

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const live = /** @type {HTMLElement} */ (document.getElementById("live"));
const waiting = /** @type {HTMLElement} */ (document.getElementById("pending-count"));

/** @type {View | null} */
let shown = null;
/** @type {Change | null} */
let due = null;
/** When the page last heard from its dashboard. */
let heard = new Date();
const loading = h("p", { class: "loading", role: "status" }, "Reading the cluster…");

function route() {
  const path = location.hash.split("?")[0] ?? "";
  const parts = path.replace(/^#\/?/, "").split("/").map(decode);
  const view = VIEWS[parts[0] ?? ""] ?? HOME;
  const restFocus = shown !== null;
  shown = view.show(...parts.slice(1));
  document.title = `${shown.title} · gpushare`;
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.getAttribute("data-view") === view.tab;
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.replaceChildren(store.overview ? shown.element : loading);
  if (store.overview) shown.update({ overview: true, nodes: true, pending: true, budgets: true, history: true, touched: null });
  if (restFocus) {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

/** @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {Change} change */
function changed(change) {
  heard = new Date();
  const first = due === null;
  const touched = due?.touched === null || change.touched === null ? null : new Set([...(due?.touched ?? []), ...change.touched]);
  due = {
    overview: change.overview || Boolean(due?.overview),
    nodes: change.nodes || Boolean(due?.nodes),
    pending: change.pending || Boolean(due?.pending),
    budgets: change.budgets || Boolean(due?.budgets),
    history: change.history || Boolean(due?.history),
    touched: first ? change.touched : touched,
  };
  // A hidden page draws when it becomes visible again.
  if (first) requestAnimationFrame(draw);
}

function draw() {
  if (!due) return;
  const change = due;
  due = null;
  const pendingNow = store.overview?.pending ?? 0;
  waiting.hidden = pendingNow === 0;
  waiting.textContent = count(pendingNow);
  if (shown && loading.isConnected) main.replaceChildren(shown.element);
  shown?.update(change);
}

/**
 * @param {boolean} connected
 * @param {string} [problem]
 */
function connection(connected, problem) {
  const old = store.overview ? ` · as of ${clock(heard)}` : "";
  const text = connected ? "Live" : `Connecting again${old}`;
  live.classList.toggle("on", connected);
  if (live.textContent !== text) live.textContent = text;
  if (problem) loading.textContent = `The cluster cannot be shown yet: ${problem}`;
}

/** @param {KeyboardEvent} event */
function shortcut(event) {
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = main.querySelector("input[type=search]");
  if (search instanceof HTMLInputElement) {
    event.preventDefault();
    search.focus();
  }
}

document.getElementById("skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.addEventListener("keydown", shortcut);
window.addEventListener("hashchange", route);
route();
follow(changed, connection);

// Without access control there is no session to end, and the login page redirects to the dashboard.
const logout = /** @type {HTMLButtonElement} */ (document.getElementById("logout"));
fetch("/login", { method: "HEAD" }).then((answer) => {
  logout.hidden = answer.redirected;
});
logout.addEventListener("click", async () => {
  await fetch("/logout", { method: "POST" });
  location.assign("/login");
});
