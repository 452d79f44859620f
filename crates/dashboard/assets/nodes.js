// @ts-check
// The list of nodes: searched, filtered and sorted here; only the rows in sight are in the page.

import { h, place, unseen } from "./dom.js";
import { byName, count, counted, percent, share } from "./format.js";
import { store } from "./store.js";
import { columns, meter } from "./charts.js";

/** @typedef {import("./store.js").NodeRow} NodeRow */

const ROW = 48;
const SPARE = 8;

/** @type {Record<string, (a: NodeRow, b: NodeRow) => number>} */
const ORDERS = {
  full: (a, b) => share(b.memory) - share(a.memory) || byName(a.name, b.name),
  free: (a, b) => share(a.memory) - share(b.memory) || byName(a.name, b.name),
  name: (a, b) => byName(a.name, b.name),
};

/** @param {NodeRow} node */
function state(node) {
  if (node.error) return h("span", { class: "chip bad", title: node.error }, "unreadable");
  if (node.sick) return h("span", { class: "chip bad" }, `${count(node.sick)} unhealthy`);
  if (node.cordoned) return h("span", { class: "chip warn" }, "cordoned");
  return h("span", { class: "chip good" }, "ok");
}

/**
 * @param {NodeRow} node
 * @param {number} index
 */
function row(node, index) {
  return h(
    "tr",
    { "aria-rowindex": index + 2 },
    h("th", { scope: "row", class: "name" }, h("a", { href: place("nodes", node.name) }, node.name)),
    h("td", { class: "models" }, node.models.join(", ")),
    h("td", {}, columns(node.full), unseen(`${counted(node.cards, "card")}, ${node.full.map((value) => `${value} %`).join(", ")} full`)),
    h("td", {}, meter(node.memory, percent(share(node.memory)))),
    h("td", {}, meter(node.core, percent(share(node.core)), "core")),
    h("td", { class: "number" }, count(node.pods)),
    h("td", {}, state(node)),
  );
}

/** The query in the address, such as ?model=A100, so that a filtered list can be linked to. */
function asked() {
  return new URLSearchParams(location.hash.split("?")[1] ?? "");
}

export function nodes() {
  const search = h("input", { type: "search", id: "search", placeholder: "Search nodes and models", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/" });
  const model = h("select", { id: "model" }, h("option", { value: "" }, "All models"));
  const order = h("select", { id: "order" }, h("option", { value: "full" }, "Fullest first"), h("option", { value: "free" }, "Emptiest first"), h("option", { value: "name" }, "By name"));
  const found = h("p", { class: "hint", role: "status" });
  const before = h("td", { colspan: 7 });
  const after = h("td", { colspan: 7 });
  const body = h("tbody");
  const head = ["Node", "Models", "Cards", "Memory", "Compute", "Pods", "State"].map((text) => h("th", { scope: "col", class: text === "Pods" ? "number" : null }, text));
  const table = h("table", { class: "nodes" }, h("caption", { class: "unseen" }, "Nodes with cards"), h("thead", {}, h("tr", { "aria-rowindex": 1 }, ...head)), h("tbody", { "aria-hidden": "true" }, h("tr", {}, before)), body, h("tbody", { "aria-hidden": "true" }, h("tr", {}, after)));
  const scroll = h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "List of nodes" }, table);
  /** @type {NodeRow[]} */
  let rows = [];
  let said = "";
  let wanted = asked().get("model") ?? "";

  function draw() {
    const first = Math.max(0, Math.floor(scroll.scrollTop / ROW) - SPARE);
    const last = Math.min(rows.length, first + Math.ceil((scroll.clientHeight || 600) / ROW) + 2 * SPARE);
    before.style.height = `${first * ROW}px`;
    after.style.height = `${(rows.length - last) * ROW}px`;
    const focused = document.activeElement instanceof HTMLAnchorElement && body.contains(document.activeElement) ? document.activeElement.hash : null;
    body.replaceChildren(...rows.slice(first, last).map((node, at) => row(node, first + at)));
    if (focused) {
      const link = [...body.querySelectorAll("a")].find((other) => other.hash === focused);
      link?.focus({ preventScroll: true });
    }
  }

  function choose() {
    const text = search.value.trim().toLowerCase();
    const all = [...store.nodes.values()];
    rows = all.filter((node) => (wanted === "" || node.models.includes(wanted)) && (text === "" || node.name.toLowerCase().includes(text) || node.models.some((name) => name.toLowerCase().includes(text))));
    rows.sort(ORDERS[order.value] ?? ORDERS.full);
    table.setAttribute("aria-rowcount", String(rows.length + 1));
    const text2 = rows.length === all.length ? counted(all.length, "node") : `${count(rows.length)} of ${counted(all.length, "node")}`;
    if (text2 !== said) found.textContent = said = text2;
    draw();
  }

  function offer() {
    const names = Object.keys(store.overview?.models ?? {}).sort(byName);
    if (names.join("\n") === [...model.options].slice(1).map((option) => option.value).join("\n")) return;
    model.replaceChildren(h("option", { value: "" }, "All models"), ...names.map((name) => h("option", { value: name }, name)));
    model.value = wanted;
  }

  const again = () => {
    scroll.scrollTop = 0;
    choose();
  };
  search.addEventListener("input", again);
  order.addEventListener("change", again);
  model.addEventListener("change", () => {
    wanted = model.value;
    again();
  });
  scroll.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe(scroll);

  const element = h(
    "div",
    { class: "view" },
    h("h1", {}, "Nodes"),
    h("div", { class: "tools", role: "search" }, h("label", { for: "search", class: "unseen" }, "Search nodes and models"), search, h("label", { for: "model", class: "unseen" }, "Model"), model, h("label", { for: "order", class: "unseen" }, "Order"), order, found),
    h("section", { class: "panel flush", "aria-label": "Nodes" }, scroll),
  );
  return {
    title: "Nodes",
    element,
    /** @param {import("./store.js").Change} change */
    update(change) {
      if (change.overview) offer();
      if (change.nodes) choose();
    },
  };
}
