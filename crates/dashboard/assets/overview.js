// @ts-check
// The whole cluster.

import { h, place } from "./dom.js";
import { byName, count, counted, memory, percent, share } from "./format.js";
import { store } from "./store.js";
import { histogram, legend, meter, packing } from "./charts.js";

/** @typedef {import("./store.js").Overview} Overview */

/**
 * @param {string} name
 * @param {string} value
 * @param {string} note
 * @param {string} [tone]
 * @param {string} [link]
 */
function tile(name, value, note, tone = "", link = "") {
  const term = link ? h("a", { href: link }, name) : name;
  return h("div", { class: `tile ${tone}` }, h("dt", {}, term), h("dd", { class: "big" }, value), h("dd", { class: "note" }, note));
}

/** @param {Overview} now */
function tiles(now) {
  const free = Math.max(0, now.memory.size - now.memory.used);
  const usual = now.usual === null ? "no pod shares a card yet" : `where a pod of ${memory(now.usual)} still fits`;
  return [
    tile("Cards", count(now.cards), `on ${counted(now.nodes, "node")}${now.sick ? `, ${count(now.sick)} unhealthy` : ""}`, now.sick ? "warn" : "", place("nodes")),
    tile("Memory in use", percent(share(now.memory)), `${memory(now.memory.used)} of ${memory(now.memory.size)}`, "memory"),
    tile("Compute in use", percent(share(now.core)), `of ${counted(Math.round(now.core.size / 100), "card")}`, "core"),
    tile("Usable idle", percent(share(now.idle)), `of ${memory(free)} idle: ${usual}`, "idle"),
    tile("Pods", count(now.pods), "hold cards"),
    tile("Pending", count(now.pending), now.pending ? "wait for cards" : "nobody waits", now.pending ? "warn" : "", place("pending")),
  ];
}

/** @param {Overview} now */
function models(now) {
  const rows = Object.entries(now.models)
    .sort(([, a], [, b]) => b.memory.size - a.memory.size)
    .map(([name, model]) =>
      h("tr", {}, h("th", { scope: "row" }, h("a", { href: `${place("nodes")}?model=${encodeURIComponent(name)}` }, name)), h("td", { class: "number" }, count(model.nodes)), h("td", { class: "number" }, count(model.cards)), h("td", {}, meter(model.memory, percent(share(model.memory)))), h("td", {}, meter(model.core, percent(share(model.core)), "core")), h("td", {}, meter(model.idle, percent(share(model.idle)), "idle"))),
    );
  const head = ["Model", "Nodes", "Cards", "Memory in use", "Compute in use", "Usable idle"].map((text, at) => h("th", { scope: "col", class: at === 1 || at === 2 ? "number" : null }, text));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Models" }, h("table", {}, h("caption", { class: "unseen" }, "Cards by model"), h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows)));
}

/** @param {import("./store.js").NodeRow} a */
function fullness(a) {
  return share(a.memory);
}

function fullest() {
  const top = [...store.nodes.values()].sort((a, b) => fullness(b) - fullness(a) || byName(a.name, b.name)).slice(0, 5);
  return h("ol", { class: "plain" }, ...top.map((node) => h("li", {}, h("a", { href: place("nodes", node.name) }, node.name), meter(node.memory, percent(share(node.memory))))));
}

export function overview() {
  const numbers = h("dl", { class: "tiles" });
  const curve = h("div");
  const bars = h("div");
  const byModel = h("div");
  const top = h("div");
  const element = h(
    "div",
    { class: "view" },
    h("h1", {}, "Cluster"),
    numbers,
    h("section", { class: "panel", "aria-labelledby": "h-packing" }, h("h2", { id: "h-packing" }, "Packing over time"), curve),
    h("div", { class: "pair" }, h("section", { class: "panel", "aria-labelledby": "h-full" }, h("h2", { id: "h-full" }, "Cards by memory in use"), bars), h("section", { class: "panel", "aria-labelledby": "h-top" }, h("h2", { id: "h-top" }, "Fullest nodes"), top)),
    h("section", { class: "panel", "aria-labelledby": "h-models" }, h("h2", { id: "h-models" }, "Models"), byModel),
  );
  return {
    title: "Cluster",
    element,
    /** @param {import("./store.js").Change} change */
    update(change) {
      if (!store.overview) return;
      if (change.overview) {
        numbers.replaceChildren(...tiles(store.overview));
        bars.replaceChildren(histogram(store.overview.fullness));
        byModel.replaceChildren(models(store.overview));
      }
      if (change.nodes) top.replaceChildren(fullest());
      if (change.history) {
        const { series, chart } = packing(store.history);
        curve.replaceChildren(legend(series), chart);
      }
    },
  };
}
