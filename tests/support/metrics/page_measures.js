// Runs in the page: waits until figures are shown, does what a test asks for, then measures.

const SLACK = 1; // pixels: what rounding may do

const boxOf = (node) => {
  const { left, top, right, bottom } = node.getBoundingClientRect();
  return { left, top, right, bottom };
};
const overlap = (a, b) => a.left < b.right - SLACK && b.left < a.right - SLACK &&
  a.top < b.bottom - SLACK && b.top < a.bottom - SLACK;
const inside = (a, b) => a.left >= b.left - SLACK && a.right <= b.right + SLACK &&
  a.top >= b.top - SLACK && a.bottom <= b.bottom + SLACK;
const named = (node) => `${node.tagName.toLowerCase()}#${node.id}.${node.getAttribute("class") ?? ""} ` +
  node.textContent.trim().slice(0, 40);

/** Whether an ancestor within the card scrolls, and so holds the node. */
function isHeld(node, card) {
  for (let at = node.parentElement; at && at !== card; at = at.parentElement) {
    if (getComputedStyle(at).overflowX !== "visible") return true;
  }
  return false;
}

/** Elements that run out of their card, and cards that run out of the window. */
function runaways() {
  const found = [];
  const scrolled = document.documentElement;
  if (scrolled.scrollWidth > scrolled.clientWidth) found.push(`the page is ${scrolled.scrollWidth} wide`);
  for (const card of document.querySelectorAll("section, header")) {
    for (const node of card.querySelectorAll("*")) {
      if (node.closest(".hidden") || node.tagName === "title" || !node.getClientRects().length) continue;
      if (!isHeld(node, card) && !inside(boxOf(node), boxOf(card))) found.push(named(node));
    }
  }
  return found;
}

/** Cells and figures whose text is wider than they are, and texts that are cut off. */
function cutOff() {
  return [...document.querySelectorAll("td, th, dd, dt, h1, h2, h3, li, button, summary, .chip")]
    .filter((node) => !node.closest(".hidden") && node.getClientRects().length)
    .filter((node) => node.scrollWidth > node.clientWidth + SLACK && getComputedStyle(node).display !== "inline")
    .concat([...document.querySelectorAll("svg[role=img] text")]
      .filter((node) => !inside(boxOf(node), boxOf(node.closest("svg")))))
    .map(named);
}

function overlaps() {
  const texts = [...document.querySelectorAll("#graph text, #latency text, #throughput text")]
    .filter((node) => node.textContent).map((node) => ({ node, box: boxOf(node) }));
  const boxes = [...document.querySelectorAll("#graph rect.box")].map((node) => ({ node, box: boxOf(node) }));
  const found = [];
  texts.forEach((a, i) => {
    for (const b of texts.slice(i + 1)) if (overlap(a.box, b.box)) found.push(`${named(a.node)} on ${named(b.node)}`);
    for (const b of boxes) {
      const own = a.node.parentElement === b.node.parentElement;
      if (own ? !inside(a.box, b.box) : overlap(a.box, b.box)) found.push(`${named(a.node)} on a box`);
    }
  });
  boxes.forEach((a, i) => {
    for (const b of boxes.slice(i + 1)) if (overlap(a.box, b.box)) found.push("a box on a box");
  });
  return found;
}

/** The contrast of two colours as CSS has them, as WCAG defines it. */
function contrast(one, other) {
  const light = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}

/** Texts that are hard to read on their card, with their contrast. */
function faint() {
  const found = [];
  for (const card of document.querySelectorAll("section")) {
    const background = getComputedStyle(card).backgroundColor;
    for (const node of card.querySelectorAll("td, th, dt, dd, h2, .soft, .message, #graph text")) {
      const style = getComputedStyle(node);
      const colour = node.tagName === "text" ? style.fill : style.color;
      if (node.textContent && contrast(colour, background) < 4.5) found.push(`${named(node)} ${colour}`);
    }
  }
  return found;
}

function measured() {
  const graph = document.getElementById("graph"), picture = graph.querySelector("svg");
  const boxes = [...graph.querySelectorAll("rect.box")].map(boxOf);
  return {
    runaways: runaways(), cutOff: cutOff(), overlaps: overlaps(), faint: faint(),
    background: getComputedStyle(document.querySelector("section")).backgroundColor,
    window: [innerWidth, innerHeight],
    outside: boxes.filter((box) => !inside(box, boxOf(picture))).length,
    boxes: boxes.length,
    labels: graph.querySelectorAll(".edge text").length,
    edges: graph.querySelectorAll(".edge").length,
    largest: Math.max(...boxes.map((box) => box.right - box.left)),
    wantedEdges: new Set(latest.edges.map((e) => `${e.from} ${e.to}`)).size,
    names: [...graph.querySelectorAll("text.name")].map((node) => node.textContent),
  };
}

async function until(condition) {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 50));
}

/** Tell the test, by an element that it finds in the document. */
function tell(result) {
  const told = document.createElement("pre");
  told.id = "told";
  told.hidden = true;
  told.textContent = JSON.stringify(result);
  document.body.append(told);
}

/** Do something when figures are shown, and tell what comes of it. */
async function whenLive(act) {
  await until(() => document.getElementById("status").textContent === "live");
  try { tell(await act()); } catch (error) { tell({ error: String(error.stack) }); }
}
