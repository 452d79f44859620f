// @ts-check
// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en");
const one = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** @param {number} value */
export function count(value) {
  return whole.format(value);
}

/**
 * @param {number} value
 * @param {string} noun
 */
export function counted(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** @param {number} mib */
export function memory(mib) {
  if (mib >= 1024 * 1024 * 1024) return `${one.format(mib / 1024 / 1024 / 1024)} PiB`;
  if (mib >= 1024 * 1024) return `${one.format(mib / 1024 / 1024)} TiB`;
  if (mib >= 1024) return `${one.format(mib / 1024)} GiB`;
  return `${count(mib)} MiB`;
}

/**
 * An amount of any dimension.
 * @param {number} value
 * @param {string} unit
 */
export function amount(value, unit) {
  return unit === "MiB" ? memory(value) : `${count(value)} ${unit}`;
}

/** @param {{used: number, size: number}} level */
export function share(level) {
  return level.size > 0 ? level.used / level.size : 0;
}

/** @param {number} part between 0 and 1 */
export function percent(part) {
  return `${tenths.format(Math.min(part, 9.99) * 100)} %`;
}

/** @param {number} part between 0 and 1, one of a scale's */
export function step(part) {
  return `${count(Math.round(part * 100))} %`;
}

/** @param {number} seconds */
export function duration(seconds) {
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  if (days > 0) return hours % 24 ? `${days}d ${hours % 24}h` : `${days}d`;
  if (hours > 0) return minutes % 60 ? `${hours}h ${minutes % 60}m` : `${hours}h`;
  if (minutes > 0) return `${minutes}m`;
  return `${Math.max(0, Math.floor(seconds))}s`;
}

/**
 * GPU time, in hours as budgets are written.
 * @param {number} seconds
 */
export function gpuTime(seconds) {
  return `${one.format(seconds / 3600)} h`;
}

/** @param {number} time seconds since 1970 */
export function since(time) {
  return time > 0 ? duration(Date.now() / 1000 - time) : "";
}

/** @param {number} time seconds since 1970 */
export function moment(time) {
  return new Date(time * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}

/**
 * The start or end of a span, as short as possible while the two still differ.
 * @param {number} time seconds since 1970
 * @param {number} length of the span, in seconds
 */
export function mark(time, length) {
  return length < 600 ? clock(new Date(time * 1000)) : moment(time);
}

/** @param {Date} time */
export function clock(time) {
  return time.toLocaleTimeString("en-GB");
}

const HUES = 10;

/**
 * A colour of the palette for each name. A name keeps its colour if possible, and none repeats while others are free.
 * @param {string[]} names
 * @returns {Map<string, string>}
 */
export function hues(names) {
  /** @type {Map<string, string>} */
  const chosen = new Map();
  const taken = new Set();
  for (const name of names) {
    let hash = 0;
    for (let at = 0; at < name.length; at += 1) hash = (hash * 31 + name.charCodeAt(at)) >>> 0;
    let hue = hash % HUES;
    while (taken.has(hue) && taken.size < HUES) hue = (hue + 3) % HUES;
    taken.add(hue);
    chosen.set(name, `hue-${hue}`);
  }
  return chosen;
}

/**
 * In the order people expect: gpu-2 before gpu-10.
 * @type {(a: string, b: string) => number}
 */
export const byName = new Intl.Collator("en", { numeric: true }).compare;
