// @ts-check
// One pod: where it is, or why it waits.

import { h, place } from "./dom.js";
import { amount, counted, moment, since } from "./format.js";
import { read } from "./store.js";

/** @typedef {{id: string, index?: number, model?: string, used: Record<string, number>}} Held */
/** @typedef {{reason: string, count: number, nodes: string[], help: string[]}} Group */
/** @typedef {{message: string, nodes: number, fitting: number, fitting_nodes: string[], groups: Group[]}} Report */
/** @typedef {{namespace: string, name: string, priority: number, created: number, running: boolean, deleting: boolean, node?: string, asks: string, wrong?: string, claimedOn?: string, gated: boolean, containers: {name: string, class: string, cards: Held[]}[], report?: Report}} Pod */
/** @typedef {{reason: string, message: string, time: number}} Said */

/** @type {Record<string, string>} */
const UNITS = { memory: "MiB", core: "%" };

/** @param {string} name */
function node(name) {
  return h("a", { href: place("nodes", name) }, name);
}

/** @param {string[]} names */
function nodes(names) {
  return h("ul", { class: "names" }, ...names.map((name) => h("li", {}, node(name))));
}

/** @param {Pod} pod */
function facts(pod) {
  const state = pod.node ? (pod.deleting ? "ending" : pod.running ? "running" : "starting") : pod.wrong ? "invalid" : pod.gated ? "gated" : "waiting";
  const list = h("dl", { class: "facts-list" });
  /** @type {[string, Node | string][]} */
  const pairs = [["State", state], ["Asks for", pod.asks], ["Priority", String(pod.priority)], ["Age", since(pod.created)]];
  if (pod.node) pairs.splice(1, 0, ["Node", node(pod.node)]);
  if (pod.claimedOn) pairs.push(["Room is made on", node(pod.claimedOn)]);
  for (const [name, value] of pairs) if (value) list.append(h("div", {}, h("dt", {}, name), h("dd", {}, value)));
  return h("section", { class: "panel", "aria-label": "Facts" }, list);
}

/** @param {Pod} pod */
function containers(pod) {
  if (pod.containers.length === 0) return null;
  const rows = pod.containers.flatMap((container) =>
    container.cards.map((card) => h("tr", {}, h("th", { scope: "row" }, container.name), h("td", {}, card.index === undefined || !pod.node ? "unknown card" : h("a", { href: place("nodes", pod.node, card.index) }, `Card ${card.index}`)), h("td", {}, card.model ?? ""), h("td", {}, Object.entries(card.used).sort(([a], [b]) => Number(b === "memory") - Number(a === "memory")).map(([name, value]) => `${amount(value, UNITS[name] ?? "")} of ${name === "core" ? "compute" : name}`).join(", ")), h("td", { class: "id" }, card.id))),
  );
  const head = ["Container", "Card", "Model", "Holds", "Id"].map((text) => h("th", { scope: "col" }, text));
  return h("section", { class: "panel", "aria-labelledby": "h-cards" }, h("h2", { id: "h-cards" }, "Cards"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Cards of the pod" }, h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows))));
}

/** @param {Report} report */
function why(report) {
  const groups = report.groups.map((group) => {
    const help = group.help.length ? [h("h4", {}, "What would help"), h("ul", { class: "help" }, ...group.help.map((one) => h("li", {}, one)))] : [];
    return h("li", { class: "group" }, h("h3", {}, `${counted(group.count, "node")}: ${group.reason}`), ...help, h("details", {}, h("summary", {}, group.count > group.nodes.length ? `The ${group.nodes.length} nodes that lack least` : "The nodes"), nodes(group.nodes)));
  });
  const fits = report.fitting ? h("p", { class: "good-text" }, `${counted(report.fitting, "node")} could take the pod now; the scheduler has not come to it yet, or has reasons of its own.`, nodes(report.fitting_nodes)) : null;
  return h("section", { class: "panel", "aria-labelledby": "h-why" }, h("h2", { id: "h-why" }, "Why it waits"), fits, h("ul", { class: "groups" }, ...groups));
}

/** @param {Said[]} events */
function said(events) {
  if (events.length === 0) return null;
  const items = events.map((event) => h("li", {}, h("span", { class: "hint" }, `${moment(event.time)} · ${event.reason}`), h("p", {}, event.message)));
  return h("section", { class: "panel", "aria-labelledby": "h-events" }, h("h2", { id: "h-events" }, "Events"), h("ul", { class: "events" }, ...items));
}

/**
 * @param {string} namespace
 * @param {string} name
 */
export function pod(namespace = "", name = "") {
  const content = h("div", {}, h("p", { class: "loading" }, "Reading the pod…"));
  const title = `${namespace}/${name}`;
  const above = h("span", {}, h("a", { href: place("pending") }, "Pending"));
  const element = h("div", { class: "view" }, h("nav", { class: "path", "aria-label": "Path" }, above, h("span", { "aria-hidden": "true" }, " / "), h("span", { "aria-current": "page" }, title)), h("h1", {}, title), content);
  let last = "";
  let reading = false;

  async function refresh() {
    if (reading) return;
    reading = true;
    try {
      const answer = await read(`/api/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`);
      const text = JSON.stringify(answer);
      if (text !== last) {
        last = text;
        /** @type {{pod: Pod, events: Said[]}} */
        const { pod: found, events } = answer;
        if (found.node) above.replaceChildren(h("a", { href: place("nodes") }, "Nodes"), h("span", { "aria-hidden": "true" }, " / "), node(found.node));
        const parts = [facts(found), found.wrong ? h("section", { class: "panel problem-panel", "aria-label": "Problem" }, h("h2", {}, "What is wrong"), h("p", {}, found.wrong)) : null, containers(found), found.report ? why(found.report) : null, said(events)];
        content.replaceChildren(...parts.filter((part) => part !== null));
      }
    } catch (error) {
      last = "";
      content.replaceChildren(h("p", { class: "problem" }, error instanceof Error ? error.message : String(error)));
    }
    reading = false;
  }

  refresh();
  return {
    title,
    element,
    /** @param {import("./store.js").Change} change */
    update(change) {
      if (change.touched !== null && (change.pending || change.nodes)) refresh();
    },
  };
}
