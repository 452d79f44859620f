// @ts-check
// Budgets: what is left of the period, and whether it will last.

import { h } from "./dom.js";
import { byName, gpuTime, moment, percent } from "./format.js";
import { store } from "./store.js";
import { curves, legend, stack } from "./charts.js";

/** @typedef {import("./store.js").BudgetRow} BudgetRow */

/** @type {Record<string, string>} */
const ENDS = { Demote: "pods go on at the lowest priority", ThrottleNew: "new pods wait", EvictWithGrace: "pods are evicted after a grace" };
/** @type {Record<string, string>} */
const PERIODS = { Month: "each month", Week: "each week", Day: "each day", Rolling: "in a rolling window" };

/**
 * @param {BudgetRow} budget
 * @param {import("./store.js").BudgetStatus} status
 */
function burndown(budget, status) {
  const total = status.usedSeconds + status.heldSeconds + Math.max(0, status.remainingSeconds);
  const now = Date.now() / 1000;
  if (!status.start || !status.end) return null;
  /** @type {[number, number][]} */
  const seen = budget.points.filter(([time]) => time >= /** @type {number} */ (status.start));
  const current = /** @type {[number, number]} */ ([Math.min(now, status.end), status.remainingSeconds]);
  const first = seen[0] ?? current;
  /** @type {import("./charts.js").Series[]} */
  const series = [
    { name: "even pace", tone: "pace", dashed: true, points: [[status.start, total], [status.end, 0]] },
    { name: "remaining", tone: "memory", points: [...seen, current] },
  ];
  if (first[0] - status.start > 60) series.push({ name: "before the dashboard began to look", tone: "memory", dashed: true, points: [[status.start, total], first] });
  if (status.exhausts) series.push({ name: "if all goes on as now", tone: "alarm", dashed: true, points: [current, [status.exhausts, 0]] });
  const label = `${gpuTime(Math.max(0, status.remainingSeconds))} of ${gpuTime(total)} remain; the period ends ${moment(status.end)}${status.exhausts ? `, and at this pace nothing remains at ${moment(status.exhausts)}` : ""}.`;
  return h("div", {}, legend(series), curves(series, { label, from: status.start, to: status.end, top: Math.max(1, total), value: gpuTime }));
}

/** @param {BudgetRow} budget */
function verdict(budget) {
  const status = budget.status;
  if (budget.problem) return h("span", { class: "chip bad" }, "not charged");
  if (!status) return h("span", { class: "chip" }, "not settled yet");
  if (status.exhausted) return h("span", { class: "chip bad" }, "exhausted");
  if (status.exhausts) return h("span", { class: "chip warn" }, `gone ${moment(status.exhausts)}`);
  return h("span", { class: "chip good" }, "lasts");
}

/** @param {BudgetRow} budget */
function panel(budget) {
  const id = `budget-${budget.name}`;
  const status = budget.status;
  const parts = [
    h("div", { class: "card-head" }, h("h2", { id }, budget.name), verdict(budget)),
    h("p", { class: "hint" }, `${budget.amount} of GPU time ${PERIODS[budget.period] ?? budget.period}; then ${ENDS[budget.whenExhausted] ?? budget.whenExhausted}.`, budget.parent ? ` A part of ${budget.parent}.` : ""),
    budget.problem ? h("p", { class: "problem" }, budget.problem) : null,
  ];
  if (status) {
    const total = status.usedSeconds + status.heldSeconds + Math.max(0, status.remainingSeconds);
    const gone = (status.usedSeconds + status.heldSeconds) / Math.max(1, total);
    parts.push(
      stack("Used", total, [{ used: status.usedSeconds, label: status.used, name: "charged", tone: "memory" }, { used: status.heldSeconds, label: status.held, name: "not charged yet", tone: "claimed" }], `${percent(gone)} · ${status.remaining || gpuTime(Math.max(0, status.remainingSeconds))} left`),
      burndown(budget, status),
    );
  }
  const payers = budget.namespaces.length ? budget.namespaces.join(", ") : "no namespace";
  parts.push(h("p", { class: "hint payers" }, `Pays for ${payers}.`));
  return h("section", { class: "panel", "aria-labelledby": id }, ...parts.filter((part) => part !== null));
}

export function budgets() {
  const list = h("div", { class: "cards" });
  const none = h("p", { class: "empty panel" }, "No budgets: GPU time is not limited in this cluster.");
  const element = h("div", { class: "view" }, h("h1", {}, "Budgets"), none, list);
  return {
    title: "Budgets",
    element,
    /** @param {import("./store.js").Change} change */
    update(change) {
      if (!change.budgets) return;
      const rows = [...store.budgets.values()].sort((a, b) => byName(a.name, b.name));
      none.hidden = rows.length > 0;
      list.replaceChildren(...rows.map(panel));
    },
  };
}
