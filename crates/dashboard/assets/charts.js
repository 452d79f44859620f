// @ts-check
// Bars and curves. Every picture has a text that says the same.

import { h, svg, unseen } from "./dom.js";
import { count as written, duration, mark, percent, step } from "./format.js";

/** @typedef {import("./store.js").Level} Level */

/**
 * How much of something is used, as a bar with its text.
 * @param {Level} level
 * @param {string} text
 * @param {string} [tone]
 */
export function meter(level, text, tone = "memory") {
  const part = level.size > 0 ? Math.min(1, level.used / level.size) : 0;
  const fill = h("span", { class: `fill ${tone}` });
  fill.style.width = `${part * 100}%`;
  return h("span", { class: "meter" }, h("span", { class: "track", "aria-hidden": "true" }, fill), h("span", { class: "value" }, text));
}

/** @typedef {{used: number, label: string, name: string, tone: string}} Segment */

/**
 * A card's amount, divided among those who hold it.
 * @param {string} label
 * @param {number} size
 * @param {Segment[]} segments
 * @param {string} text
 */
export function stack(label, size, segments, text) {
  const bar = h("div", { class: "stack", role: "img", "aria-label": `${label}: ${text}` });
  for (const segment of segments) {
    if (segment.used <= 0) continue;
    const part = h("span", { class: `part ${segment.tone}`, title: `${segment.name}: ${segment.label}` });
    part.style.width = `${Math.min(1, segment.used / Math.max(1, size)) * 100}%`;
    bar.append(part);
  }
  return h("div", { class: "stacked" }, h("div", { class: "stack-head" }, h("span", {}, label), h("span", { class: "value" }, text)), bar);
}

/**
 * Small columns, one for each card.
 * @param {number[]} full percents
 */
export function columns(full) {
  const strip = h("span", { class: "columns", "aria-hidden": "true", title: full.map((value) => `${value} %`).join(", ") });
  for (const value of full.slice(0, 16)) {
    const fill = h("span", { class: level(value) });
    fill.style.height = `${value > 0 ? Math.max(8, value) : 0}%`;
    strip.append(h("span", { class: "column" }, fill));
  }
  return strip;
}

/** @param {number} value percent */
function level(value) {
  if (value >= 95) return "full";
  return value >= 60 ? "busy" : "light";
}

/** @typedef {{name: string, tone: string, points: [number, number][], dashed?: boolean}} Series */

/**
 * Curves over time. Points are a time in seconds and a value between 0 and `top`.
 * @param {Series[]} series
 * @param {{label: string, from: number, to: number, top: number, value: (value: number) => string}} options
 */
export function curves(series, { label, from, to, top, value }) {
  const [width, height] = [1000, 200];
  const x = (/** @type {number} */ time) => ((time - from) / Math.max(1, to - from)) * width;
  const y = (/** @type {number} */ at) => height - (Math.max(0, Math.min(top, at)) / Math.max(1e-9, top)) * height;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" });
  for (const line of [0, 0.25, 0.5, 0.75, 1]) {
    picture.append(svg("line", { class: "grid", x1: 0, x2: width, y1: y(top * line), y2: y(top * line) }));
  }
  for (const { tone, points, dashed } of series) {
    const path = points.map(([time, at]) => `${x(time).toFixed(1)},${y(at).toFixed(1)}`).join(" ");
    picture.append(svg("polyline", { class: `curve ${tone}${dashed ? " dashed" : ""}`, points: path }));
    const last = points[points.length - 1];
    // Marks the current value, which is visible even before there is a curve.
    if (last && !dashed) picture.append(svg("line", { class: `curve now ${tone}`, x1: x(last[0]), x2: x(last[0]), y1: y(last[1]), y2: y(last[1]) }));
  }
  const scale = h("div", { class: "scale", "aria-hidden": "true" }, h("span", {}, value(top)), h("span", {}, value(top / 2)), h("span", {}, value(0)));
  const times = h("div", { class: "times", "aria-hidden": "true" }, h("span", {}, mark(from, to - from)), h("span", {}, mark(to, to - from)));
  return h("div", { class: "curves" }, scale, h("div", { class: "plot" }, picture), times, unseen(label));
}

/** @param {Series[]} series */
export function legend(series) {
  const items = series.map(({ name, tone, dashed }) => h("li", {}, h("span", { class: `key ${tone}${dashed ? " dashed" : ""}`, "aria-hidden": "true" }), name));
  return h("ul", { class: "legend" }, ...items);
}

/**
 * How many cards are how full.
 * @param {number[]} counts from empty to full
 */
export function histogram(counts) {
  const most = Math.max(1, ...counts);
  const bars = counts.map((count, at) => {
    const fill = h("span", { class: `fill ${level(at * 10 + 5)}` });
    fill.style.height = `${count > 0 ? Math.max(2, (count / most) * 100) : 0}%`;
    return h("li", {}, h("span", { class: "number" }, written(count)), h("span", { class: "bar", "aria-hidden": "true" }, fill), h("span", { class: "step" }, at * 10, h("span", { class: "rest" }, `–${at * 10 + 10} %`)));
  });
  return h("ol", { class: "histogram" }, ...bars);
}

/**
 * @param {import("./store.js").Sample[]} history
 */
export function packing(history) {
  const points = (/** @type {"memory" | "core" | "usable"} */ key) => history.map((sample) => /** @type {[number, number]} */ ([sample.time, sample[key] / 1000]));
  /** @type {Series[]} */
  const series = [
    { name: "memory in use", tone: "memory", points: points("memory") },
    { name: "compute in use", tone: "core", points: points("core") },
    { name: "usable part of idle memory", tone: "idle", points: points("usable") },
  ];
  const last = history[history.length - 1];
  const first = history[0];
  if (!last || !first) return { series, chart: h("p", { class: "hint" }, "The first sample is taken soon.") };
  const said = series.map(({ name, points: all }) => `${name} ${percent(all[all.length - 1]?.[1] ?? 0)}`).join(", ");
  const label = `Over the last ${duration(Math.max(1, last.time - first.time))}; now ${said}.`;
  const from = Math.min(first.time, last.time - 5);
  return { series, chart: curves(series, { label, from, to: last.time, top: 1, value: step }) };
}
