// @ts-check
// Making elements. Text is always text: nothing from the cluster ever becomes markup.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Props */

/**
 * @param {Element} element
 * @param {Props} props
 * @param {Child[]} children
 */
function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, props, children);
  return element;
}

/**
 * @param {string} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function svg(tag, props = {}, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS("http://www.w3.org/2000/svg", tag));
  fill(element, props, children);
  return element;
}

/**
 * Text for people who do not see the picture.
 * @param {string} text
 */
export function unseen(text) {
  return h("span", { class: "unseen" }, text);
}

/**
 * A link to a place in this page; parts are names from the cluster.
 * @param {string} view
 * @param {...(string | number)} parts
 */
export function place(view, ...parts) {
  return `#/${[view, ...parts].map((part) => encodeURIComponent(part)).join("/")}`;
}

/** The query in the address, such as ?model=A100. It lets people link to a searched list and return to it. */
export function asked() {
  return new URLSearchParams(location.hash.split("?")[1] ?? "");
}

/**
 * Keeps the search of a list in the address, without a history entry for each letter.
 * @param {string} view
 * @param {Record<string, string>} query
 */
export function keep(view, query) {
  const said = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""));
  const text = said.toString();
  history.replaceState(null, "", text ? `${place(view)}?${text}` : place(view));
}
