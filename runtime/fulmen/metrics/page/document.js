"use strict";
// Building and updating the document, with text and attributes only; numbers as people read them.

const byId = (id) => document.getElementById(id);

function build(namespace, tag, attributes, children) {
  const made = document.createElementNS(namespace, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
const html = (tag, attributes = {}, ...children) =>
  build("http://www.w3.org/1999/xhtml", tag, attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  build("http://www.w3.org/2000/svg", tag, attributes, children);

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Make a list's children those of `items`, each kept for as long as its key is there. */
function keyed(parent, items, key, make, update) {
  const known = parent.known ??= new Map(), seen = new Set();
  let place = null;
  for (const item of items) {
    const name = String(key(item));
    seen.add(name);
    if (!known.has(name)) known.set(name, make(item));
    const node = known.get(name), next = place ? place.nextSibling : parent.firstChild;
    if (node !== next) parent.insertBefore(node, next);
    update(node, item);
    place = node;
  }
  for (const [name, node] of known) {
    if (!seen.has(name)) { node.remove(); known.delete(name); }
  }
}

/** Buttons of which one is pressed; `choose` is called with the chosen one's value. */
function choices(parent, options, choose) {
  const buttons = options.map(([label, value, name]) => {
    const button = html("button", { type: "button", ...(name ? { "aria-label": name } : {}) }, label);
    button.addEventListener("click", () => { press(value); choose(value); });
    parent.append(button);
    return [button, value];
  });
  const press = (value) => buttons.forEach(([button, own]) =>
    button.setAttribute("aria-pressed", String(own === value)));
  press(options[0][1]);
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const count = (n) => n == null ? "–" : whole.format(n);
const large = (n) => n < 1e7 ? whole.format(n) : short.format(n);
const rate = (n) => n >= 100000 ? short.format(n) : n > 0 && n < 10 ? n.toFixed(1) : whole.format(n);
const share = (x) => x == null ? "–" : `${x > 0 && x < .1 ? (100 * x).toFixed(1) : Math.round(100 * x)} %`;
function bytes(n) {
  if (n == null) return "–";
  const power = Math.min(4, Math.floor(Math.log10(Math.max(1, n)) / 3));
  return `${+(n / 1000 ** power).toPrecision(3)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}
function millis(ms) {
  if (ms == null) return "–";
  if (ms >= 1000) return `${(ms / 1000).toFixed(ms >= 10000 ? 1 : 2)} s`;
  if (ms >= 1) return `${ms >= 100 ? whole.format(ms) : ms.toFixed(1)} ms`;
  return `${ms * 1000 >= 100 ? whole.format(ms * 1000) : (ms * 1000).toFixed(1)} µs`;
}
function duration(seconds) {
  let rest = Math.floor(seconds);
  const parts = [];
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]) {
    if (rest >= size) parts.push(`${Math.floor(rest / size)} ${unit}`);
    rest %= size;
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString();
const tick = (ms) => ms < 1000 ? `${+ms.toPrecision(2)} ms` : `${+(ms / 1000).toPrecision(2)} s`;
const level = (busy) => `hsl(${Math.round(130 * (1 - Math.min(1, Math.max(0, busy))))} 65% var(--level))`;

function bar(busy) {
  const fill = html("i");
  fill.style.width = `${Math.min(100, 100 * busy)}%`;
  fill.style.background = level(busy);
  return html("span", { class: "bar", "aria-hidden": "true" }, fill);
}
const withBar = (text, busy) => html("span", {}, text, bar(busy));

const pen = document.createElement("canvas").getContext("2d"), cuts = new Map();

/** The text, or both its ends if it is wider than so many pixels: names often differ at the end. */
function fitted(text, width, style) {
  const key = `${style}\n${width}\n${text}`;
  if (!cuts.has(key)) {
    if (cuts.size > 2000) cuts.clear();
    cuts.set(key, withoutMiddle(text, width, style));
  }
  return cuts.get(key);
}
function withoutMiddle(text, width, style) {
  pen.font = `${style} system-ui, "DejaVu Sans", sans-serif`;
  const fits = (t) => pen.measureText(t).width <= width, letters = [...text];
  const ends = (n) => letters.slice(0, Math.ceil(n / 2)).join("") + "…" +
    letters.slice(letters.length - Math.floor(n / 2)).join("");
  if (fits(text)) return text;
  let least = 0, most = letters.length - 1;
  while (least < most) {
    const n = Math.ceil((least + most) / 2);
    if (fits(ends(n))) least = n; else most = n - 1;
  }
  return ends(least);
}
