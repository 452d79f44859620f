// @ts-check
// Pods that wait, why, and what would help.

import { asked, h, keep, place } from "./dom.js";
import { count, counted, since } from "./format.js";
import { store } from "./store.js";

/** @typedef {import("./store.js").PendingRow} PendingRow */

/** How many pods are shown. A search finds the others. */
const MOST = 200;

/** @type {Record<string, [string, string]>} */
const STATES = {
  waiting: ["warn", "no room"],
  fits: ["good", "fits now"],
  preempting: ["good", "room is made"],
  gated: ["", "gated"],
  invalid: ["bad", "invalid"],
};

/**
 * The heading of a cell, for small windows, which do not show the table's head.
 * @param {string} text
 */
function label(text) {
  return h("span", { class: "label" }, text);
}

/** @param {PendingRow} pod */
function row(pod) {
  const [tone, text] = STATES[pod.state] ?? ["", pod.state];
  const fits = pod.state === "fits" ? h("span", { class: "hint" }, "Its cards are free. The scheduler has not come to it yet, or says on the pod’s page what else is in the way.") : null;
  const help = pod.help.length ? h("ul", { class: "help" }, ...pod.help.map((one) => h("li", {}, one))) : fits;
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, h("a", { href: place("pods", pod.namespace, pod.name) }, `${pod.namespace}/${pod.name}`), h("span", { class: `chip ${tone}` }, text)),
    h("td", { class: "number" }, label("Waits"), since(pod.created)),
    h("td", {}, label("Asks for"), pod.asks),
    h("td", { class: "why" }, label("Why"), pod.reason ?? "Open the pod to see why."),
    h("td", {}, help && label("What would help"), help),
  );
}

export function pending() {
  const search = h("input", { type: "search", id: "search", placeholder: "Search pods and reasons", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/" });
  const found = h("p", { class: "hint", role: "status" });
  const body = h("tbody");
  const head = ["Pod", "Waits", "Asks for", "Why", "What would help"].map((text) => h("th", { scope: "col", class: text === "Waits" ? "number" : null }, text));
  const table = h("table", { class: "waiting" }, h("caption", { class: "unseen" }, "Pods that wait for cards"), h("thead", {}, h("tr", {}, ...head)), body);
  const none = h("p", { class: "empty" }, "No pod waits for cards.");
  const list = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Pods that wait" }, table);
  let said = "";

  function draw() {
    const text = search.value.trim().toLowerCase();
    const all = [...store.pending.values()];
    const rows = all.filter((pod) => text === "" || `${pod.namespace}/${pod.name} ${pod.reason ?? ""} ${pod.asks}`.toLowerCase().includes(text));
    rows.sort((a, b) => b.priority - a.priority || a.created - b.created);
    const shown = rows.slice(0, MOST);
    const focused = document.activeElement instanceof HTMLAnchorElement && body.contains(document.activeElement) ? document.activeElement.hash : null;
    body.replaceChildren(...shown.map(row));
    if (focused) [...body.querySelectorAll("a")].find((link) => link.hash === focused)?.focus({ preventScroll: true });
    none.hidden = all.length > 0;
    list.hidden = all.length === 0;
    const more = rows.length > shown.length ? `, the first ${count(shown.length)} are shown` : "";
    const now = text ? `${count(rows.length)} of ${counted(all.length, "pod")}${more}` : `${counted(all.length, "pod")}${more}`;
    if (now !== said) found.textContent = said = now;
  }

  search.value = asked().get("search") ?? "";
  search.addEventListener("input", () => {
    keep("pending", { search: search.value.trim() });
    draw();
  });
  const element = h("div", { class: "view" }, h("h1", {}, "Pending pods"), h("div", { class: "tools", role: "search" }, h("label", { for: "search", class: "unseen" }, "Search pods and reasons"), search, found), h("section", { class: "panel flush", "aria-label": "Pods" }, none, list));
  return {
    title: "Pending pods",
    element,
    /** @param {import("./store.js").Change} change */
    update(change) {
      if (change.pending) draw();
    },
  };
}
