// @ts-check
// The list of nodes: searched, filtered and sorted here; only the rows in sight are in the page.

import { asked, h, keep, place, unseen } from "./dom.js";
import { byName, count, counted, percent, share } from "./format.js";
import { read, store } from "./store.js";
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

/** The scroll position at which a list was left, restored when the viewer returns to the same list. */
let left = { hash: "", top: 0 };

/** @typedef {{namespace: string, name: string, node: string | null}} Named */

/** How long typing must pause before pods are searched, too. */
const PAUSE_MS = 200;

/** The pods that a search finds. The page does not have them, so it queries the dashboard. */
function finder() {
  const element = h("section", { class: "panel", "aria-label": "Pods", hidden: true });
  let asked = 0;
  let latest = "";

  /** @param {string} text */
  async function find(text) {
    const mine = ++asked;
    const answer = await read(`/api/pods?search=${encodeURIComponent(text)}`).catch(() => ({ total: 0, pods: [] }));
    if (mine !== asked || text !== latest) return;
    /** @type {{total: number, pods: Named[]}} */
    const { total, pods } = answer;
    const items = pods.map((pod) => h("li", {}, h("a", { href: place("pods", pod.namespace, pod.name) }, `${pod.namespace}/${pod.name}`), h("span", { class: "hint" }, pod.node ? ` on ${pod.node}` : " waits")));
    const more = total > pods.length ? `, the first ${count(pods.length)}` : "";
    element.replaceChildren(h("h2", {}, `${counted(total, "pod")} found${more}`), h("ul", { class: "names" }, ...items));
    element.hidden = total === 0;
  }

  return {
    element,
    /** @param {string} text */
    search(text) {
      latest = text;
      if (text === "") element.hidden = true;
      else setTimeout(() => text === latest && find(text), PAUSE_MS);
    },
  };
}

export function nodes() {
  const search = h("input", { type: "search", id: "search", placeholder: "Search nodes, models and pods", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/" });
  const model = h("select", { id: "model" }, h("option", { value: "" }, "All models"));
  const order = h("select", { id: "order" }, h("option", { value: "full" }, "Fullest first"), h("option", { value: "free" }, "Emptiest first"), h("option", { value: "name" }, "By name"));
  const found = h("p", { class: "hint", role: "status" });
  const before = h("td", { colspan: 7 });
  const after = h("td", { colspan: 7 });
  const body = h("tbody");
  const head = ["Node", "Models", "Cards", "Memory", "Compute", "Pods", "State"].map((text) => h("th", { scope: "col", class: text === "Pods" ? "number" : null }, text));
  const table = h("table", { class: "nodes" }, h("caption", { class: "unseen" }, "Nodes with cards"), h("thead", {}, h("tr", { "aria-rowindex": 1 }, ...head)), h("tbody", { "aria-hidden": "true" }, h("tr", {}, before)), body, h("tbody", { "aria-hidden": "true" }, h("tr", {}, after)));
  const scroll = h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "List of nodes" }, table);
  const none = h("p", { class: "empty", hidden: true });
  /** @type {NodeRow[]} */
  let rows = [];
  let said = "";
  const query = asked();
  let wanted = query.get("model") ?? "";
  search.value = query.get("search") ?? "";
  order.value = query.get("order") ?? "full";
  if (order.value === "") order.value = "full";
  let top = left.hash === location.hash ? left.top : 0;
  const pods = finder();
  pods.search(search.value.trim());

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
    none.hidden = rows.length > 0;
    scroll.hidden = rows.length === 0;
    none.textContent = all.length ? "No node or model has this in its name." : "No node has published cards yet: the agent, gpushare-node, does that on each node with GPUs.";
    draw();
    if (top > 0 && rows.length > 0) {
      scroll.scrollTop = top;
      top = 0;
    }
  }

  function offer() {
    const names = Object.keys(store.overview?.models ?? {}).sort(byName);
    if (names.join("\n") === [...model.options].slice(1).map((option) => option.value).join("\n")) return;
    model.replaceChildren(h("option", { value: "" }, "All models"), ...names.map((name) => h("option", { value: name }, name)));
    model.value = wanted;
  }

  const again = () => {
    scroll.scrollTop = 0;
    pods.search(search.value.trim());
    keep("nodes", { search: search.value.trim(), model: wanted, order: order.value === "full" ? "" : order.value });
    choose();
  };
  search.addEventListener("input", again);
  order.addEventListener("change", again);
  model.addEventListener("change", () => {
    wanted = model.value;
    again();
  });
  const scrolled = () => {
    if (scroll.isConnected) left = { hash: location.hash, top: scroll.scrollTop };
    draw();
  };
  scroll.addEventListener("scroll", scrolled, { passive: true });
  new ResizeObserver(draw).observe(scroll);

  const element = h(
    "div",
    { class: "view" },
    h("h1", {}, "Nodes"),
    h("div", { class: "tools", role: "search" }, h("label", { for: "search", class: "unseen" }, "Search nodes, models and pods"), search, h("label", { for: "model", class: "unseen" }, "Model"), model, h("label", { for: "order", class: "unseen" }, "Order"), order, found),
    pods.element,
    h("section", { class: "panel flush", "aria-label": "Nodes" }, none, scroll),
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
