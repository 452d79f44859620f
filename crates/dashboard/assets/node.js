// @ts-check
// One node: its cards, each divided among the pods on it.

import { h, place, unseen } from "./dom.js";
import { amount, count, counted, hues, memory, percent, share, since } from "./format.js";
import { read, store } from "./store.js";
import { stack } from "./charts.js";

/** @typedef {{namespace: string, name: string, priority: number, created: number, running: boolean, deleting: boolean, used: Record<string, number>}} Holder */
/** @typedef {{index: number, id: string, class: string, model: string, healthy: boolean, capacity: Record<string, number>, used: Record<string, number>, claimed: Record<string, number>, units: Record<string, string>, pods: Holder[]}} Card */
/** @typedef {import("./store.js").NodeRow & {devices: Card[], unproven: {namespace: string, name: string, why: string}[]}} Detail */

/** @type {Record<string, string>} */
const TITLES = { memory: "Memory", core: "Compute" };

/** @param {string} dimension */
function title(dimension) {
  return TITLES[dimension] ?? dimension;
}

/** @param {string[]} names memory before the others */
function ordered(names) {
  return [...names].sort((a, b) => Number(b === "memory") - Number(a === "memory") || a.localeCompare(b));
}

/** @param {{namespace: string, name: string}} pod */
function fullName(pod) {
  return `${pod.namespace}/${pod.name}`;
}

/**
 * @param {Card} card
 * @param {string} dimension
 * @param {Map<string, string>} tones
 */
function bar(card, dimension, tones) {
  const unit = card.units[dimension] ?? "";
  const size = card.capacity[dimension] ?? 0;
  const used = card.used[dimension] ?? 0;
  const claimed = card.claimed[dimension] ?? 0;
  const segments = card.pods.map((pod) => ({ used: pod.used[dimension] ?? 0, label: amount(pod.used[dimension] ?? 0, unit), name: fullName(pod), tone: tones.get(fullName(pod)) ?? "" }));
  if (claimed > 0) segments.push({ used: claimed, label: amount(claimed, unit), name: "kept for a pod that is to come", tone: "claimed" });
  const text = unit === "%" ? `${count(used)} of ${count(size)} %` : `${amount(used, unit)} of ${amount(size, unit)}`;
  return stack(title(dimension), size, segments, text);
}

/**
 * @param {Card} card
 * @param {string[]} dimensions
 * @param {Map<string, string>} tones
 */
function holders(card, dimensions, tones) {
  if (card.pods.length === 0) return h("p", { class: "hint" }, card.healthy ? "No pod is on this card." : "No pod is on this card, and none will come: it is unhealthy.");
  const head = ["Pod", ...dimensions.map(title), "Priority", "Age"].map((text, at) => h("th", { scope: "col", class: at > 0 ? "number" : null }, text));
  const rows = card.pods.map((pod) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("span", { class: `key ${tones.get(fullName(pod))}`, "aria-hidden": "true" }), h("a", { href: place("pods", pod.namespace, pod.name) }, fullName(pod)), pod.deleting ? h("span", { class: "chip warn" }, "ending") : pod.running ? null : h("span", { class: "chip" }, "starting")),
      ...dimensions.map((dimension) => h("td", { class: "number" }, amount(pod.used[dimension] ?? 0, card.units[dimension] ?? ""))),
      h("td", { class: "number" }, count(pod.priority)),
      h("td", { class: "number" }, since(pod.created)),
    ),
  );
  return h("table", {}, h("caption", { class: "unseen" }, `Pods on card ${card.index}`), h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
}

/** @param {Card} card */
function panel(card) {
  const dimensions = ordered(Object.keys(card.capacity));
  const tones = hues(card.pods.map(fullName));
  const id = `card-${card.index}-${card.class}`;
  return h(
    "section",
    { class: "panel card", "aria-labelledby": id },
    h("div", { class: "card-head" }, h("h2", { id, tabindex: "-1" }, `Card ${card.index}`), h("span", { class: "model" }, card.model), card.healthy ? h("span", { class: "chip good" }, "healthy") : h("span", { class: "chip bad" }, "unhealthy")),
    h("p", { class: "id" }, unseen("Id "), card.id),
    ...dimensions.map((dimension) => bar(card, dimension, tones)),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Pods on card ${card.index}` }, holders(card, dimensions, tones)),
  );
}

/** @param {Detail} node */
function summary(node) {
  const facts = [counted(node.cards, "card"), `${memory(node.memory.used)} of ${memory(node.memory.size)} memory (${percent(share(node.memory))})`, counted(node.pods, "pod")];
  return h("p", { class: "facts" }, facts.join(" · "), node.cordoned ? h("span", { class: "chip warn" }, "cordoned") : null, node.sick ? h("span", { class: "chip bad" }, `${count(node.sick)} unhealthy`) : null);
}

/** @param {Detail} node */
function unproven(node) {
  if (node.unproven.length === 0) return null;
  const items = node.unproven.map((pod) => h("li", {}, h("a", { href: place("pods", pod.namespace, pod.name) }, fullName(pod)), `: ${pod.why}`));
  return h("section", { class: "panel problem-panel", "aria-labelledby": "h-unproven" }, h("h2", { id: "h-unproven" }, "Pods that no card counts"), h("ul", {}, ...items));
}

/**
 * @param {string} name
 * @param {string} [card] the index of the card to scroll to
 */
export function node(name, card) {
  const content = h("div", {}, h("p", { class: "loading" }, "Reading the node…"));
  const element = h("div", { class: "view" }, h("nav", { class: "path", "aria-label": "Path" }, h("a", { href: place("nodes") }, "Nodes"), h("span", { "aria-hidden": "true" }, " / "), h("span", { "aria-current": "page" }, name)), h("h1", {}, name), content);
  let reading = false;
  let again = false;
  let sought = card;

  async function refresh() {
    if (reading) {
      again = true;
      return;
    }
    reading = true;
    try {
      const detail = /** @type {Detail} */ (await read(`/api/nodes/${encodeURIComponent(name)}`));
      const focused = document.activeElement !== null && content.contains(document.activeElement) ? document.activeElement : null;
      content.replaceChildren(...[summary(detail), detail.error ? h("p", { class: "problem" }, detail.error) : null, unproven(detail), h("div", { class: "cards" }, ...detail.devices.map(panel))].filter((part) => part !== null));
      const found = detail.devices.find((device) => String(device.index) === sought);
      sought = undefined;
      if (found) {
        const heading = document.getElementById(`card-${found.index}-${found.class}`);
        heading?.scrollIntoView({ block: "center" });
        heading?.focus({ preventScroll: true });
      }
      if (focused instanceof HTMLAnchorElement) [...content.querySelectorAll("a")].find((link) => link.hash === focused.hash)?.focus({ preventScroll: true });
      else if (focused?.id) document.getElementById(focused.id)?.focus({ preventScroll: true });
    } catch (error) {
      content.replaceChildren(h("p", { class: "problem" }, error instanceof Error ? error.message : String(error)));
    }
    reading = false;
    if (again) {
      again = false;
      refresh();
    }
  }

  refresh();
  return {
    title: name,
    element,
    /** @param {import("./store.js").Change} change */
    update(change) {
      if (change.touched?.has(name) || (change.touched === null && store.nodes.has(name))) refresh();
    },
  };
}
