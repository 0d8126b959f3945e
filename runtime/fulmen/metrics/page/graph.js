// The graph of components: drawn so that all of it is seen, and zoomed by keys, buttons and wheel.

const LARGEST = 2; // of a pixel of the drawing, in pixels of the screen
const ZOOM_STEP = 1.3, MOVE_PIXELS = 60, DRAG_PIXELS = 4;
let drawn = { signature: "", nodes: new Map(), edges: new Map() };
const view = { zoom: 1, x: 0, y: 0 };

const shownInGraph = (data) => data.components.filter((c) => c.kind !== "acker");
const grouping = (edge) =>
  (edge.stream === "default" ? "" : `${edge.stream}: `) + edge.grouping +
  (edge.fields.length ? ` ${edge.fields.join(", ")}` : "");

function draw(data) {
  const names = shownInGraph(data).map((c) => c.name), weights = new Map();
  for (const e of data.edges) {
    const key = `${e.from}\n${e.to}`;
    weights.set(key, (weights.get(key) ?? 0) + e.executed);
  }
  byId("main").classList.toggle("large", names.length > 8);
  const place = byId("graph");
  const frame = { width: place.clientWidth, height: Math.max(360, Math.min(760, 0.8 * innerHeight)) };
  const signature = JSON.stringify([names, [...weights.keys()], frame]);
  if (drawn.signature === signature) return;
  const structure = layers(names, [...weights.keys()].map((key) => key.split("\n")));
  const found = bestArrangement(structure, weights, frame);
  const height = Math.min(frame.height, found.height * found.fit);
  const picture = svg("svg", { width: frame.width, height });
  drawn = {
    signature, picture, ...found, frame: { width: frame.width, height }, nodes: new Map(), edges: new Map(),
  };
  for (const [key, edge] of found.edges) drawn.edges.set(key, drawEdge(picture, edge));
  for (const [name, at] of found.boxes) drawn.nodes.set(name, drawNode(picture, name, at));
  place.replaceChildren(picture);
  showAll();
}

function drawEdge(picture, { points, label }) {
  const [start, end] = [points[0], points.at(-1)], { down } = drawn;
  let path = `M${start.x},${start.y}`;
  points.slice(1).forEach((to, i) => {
    const from = points[i], tip = to === end ? 7 : 0;
    if (i % 2) path += ` L${to.x},${to.y}`; // through a label, or a bend
    else if (down) {
      const half = (from.y + to.y) / 2;
      path += ` C${from.x},${half} ${to.x},${half} ${to.x},${to.y - tip}`;
    } else {
      const half = (from.x + to.x) / 2;
      path += ` C${half},${from.y} ${half},${to.y} ${to.x - tip},${to.y}`;
    }
  });
  const tip = down ? `M${end.x - 4},${end.y - 8}l4,8l4,-8z` : `M${end.x - 8},${end.y - 4}l8,4l-8,4z`;
  const title = svg("title"), line = svg("path", { d: path });
  const lines = drawn.box === DETAILED ? [-5, 14] : [down ? 4 : -4];
  const texts = label ? lines.map((dy) => svg("text", { x: label.x, y: label.y + dy })) : [];
  const group = svg("g", { class: "edge" }, title, line, svg("path", { class: "tip", d: tip }), ...texts);
  picture.append(group);
  return { group, title, line, texts };
}

function drawNode(picture, name, { x, y }) {
  const { width, height } = drawn.box, wide = width - 30, isDetailed = drawn.box === DETAILED;
  const text = (dy, style) => svg("text", { x: x + 16, y: y + dy, class: style });
  const part = { wide, title: svg("title"), name: text(isDetailed ? 21 : 18, "name"), rate: text(isDetailed ? 40 : 35, "") };
  part.stripe = svg("rect", { x, y: y + 9, width: 5, height: height - 18, rx: 2.5 });
  const details = [];
  if (isDetailed) {
    part.small = text(56, "small");
    part.track = svg("rect", { class: "track", x: x + 16, y: y + 64, width: wide, height: 5, rx: 2.5 });
    part.fill = svg("rect", { x: x + 16, y: y + 64, width: 0, height: 5, rx: 2.5 });
    details.push(part.small, part.track, part.fill);
  }
  part.group = svg("g", { class: "node", tabindex: "0", role: "button" }, part.title,
    svg("rect", { class: "box", x, y, width, height, rx: 10 }),
    part.stripe, part.name, part.rate, ...details);
  part.group.addEventListener("click", () => select(name));
  part.group.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); select(name); }
  });
  part.group.addEventListener("focus", () => {
    if (view.zoom > 1) look(x + width / 2, y + height / 2);
  });
  picture.append(part.group);
  return part;
}

function showGraph(data) {
  draw(data);
  const fastest = Math.max(1, ...data.edges.map((e) => e.executed_per_second));
  for (const component of shownInGraph(data)) showNode(drawn.nodes.get(component.name), component, data);
  const streams = new Map();
  for (const e of data.edges) {
    const key = `${e.from}\n${e.to}`;
    if (!streams.has(key)) streams.set(key, []);
    streams.get(key).push(e);
  }
  const room = drawn.box.label.width - 6;
  for (const [key, part] of drawn.edges) {
    const own = streams.get(key), sum = own.reduce((n, e) => n + e.executed_per_second, 0);
    const texts = [`${rate(sum)}/s`, [...new Set(own.map(grouping))].join(", ")];
    part.texts.forEach((text, i) => setText(text, fitted(texts[i], room, "11px")));
    setText(part.title, own.map((e) => `${e.from} ${e.stream} → ${e.to}, ${grouping(e)}: ` +
      `${count(e.executed)} tuples, ${rate(e.executed_per_second)}/s`).join("\n"));
    part.line.style.strokeWidth = `${1.2 + 4 * Math.log1p(sum) / Math.log1p(fastest)}px`;
    part.group.classList.toggle("marked", key.split("\n").includes(selected));
  }
}

function showNode(part, component, { transactions }) {
  const isSpout = component.kind === "spout", busy = component.capacity ?? 0;
  const perSecond = isSpout ? component.emitted_per_second : component.executed_per_second;
  const what = isSpout ? "emitted" : "executed";
  setText(part.name, fitted(component.name, part.wide, "600 13px"));
  setText(part.rate, fitted(`${rate(perSecond)} ${what}/s`, part.wide, "12px"));
  part.stripe.style.fill = isSpout ? "var(--accent)" : level(busy);
  if (part.small) {
    const small = isSpout ? transactions ? `${count(activeOf(transactions))} transactions active`
      : `${count(component.pending)} pending` :
      `capacity ${busy.toFixed(2)}, ${millis(component.execute_ms)}`;
    setText(part.small, fitted(small, part.wide, "11px"));
    part.fill.style.fill = level(busy);
    part.fill.setAttribute("width", part.wide * Math.min(1, busy));
    part.track.style.display = part.fill.style.display = isSpout ? "none" : "";
  }
  const label = `${component.kind} ${component.name}: ${component.tasks} tasks, ` +
    `${component.executors} executors, ${rate(perSecond)} tuples ${what} per second` +
    (isSpout ? "" : `, capacity ${busy.toFixed(2)}`);
  setText(part.title, label);
  part.group.setAttribute("aria-label", label);
  part.group.setAttribute("aria-pressed", String(selected === component.name));
}

// ---- zoom

function showAll() {
  view.zoom = 1;
  look(drawn.width / 2, drawn.height / 2);
}

/** Have this point of the drawing in the middle, as far as nothing beside the drawing is seen. */
function look(x, y) {
  const scale = drawn.fit * view.zoom;
  const [width, height] = [drawn.frame.width / scale, drawn.frame.height / scale];
  const within = (at, seen, all) =>
    seen >= all ? all / 2 : Math.max(seen / 2, Math.min(all - seen / 2, at));
  [view.x, view.y] = [within(x, width, drawn.width), within(y, height, drawn.height)];
  drawn.picture.setAttribute("viewBox", `${view.x - width / 2} ${view.y - height / 2} ${width} ${height}`);
  byId("graph").classList.toggle("zoomed", view.zoom > 1);
}

/** Zoom by a factor. The point at `dx`, `dy` screen pixels from the middle stays where it is. */
function zoom(factor, dx = 0, dy = 0) {
  if (!drawn.picture) return;
  const old = drawn.fit * view.zoom;
  view.zoom = Math.max(1, Math.min(LARGEST / drawn.fit, view.zoom * factor));
  const now = drawn.fit * view.zoom;
  look(view.x + dx / old - dx / now, view.y + dy / old - dy / now);
}
function move(dx, dy) {
  const scale = drawn.fit * view.zoom;
  look(view.x + dx / scale, view.y + dy / scale);
}

function listen(place) {
  for (const [text, name, act] of [["−", "Zoom out", () => zoom(1 / ZOOM_STEP)],
    ["fit", "Show all", () => drawn.picture && showAll()], ["+", "Zoom in", () => zoom(ZOOM_STEP)]]) {
    const button = html("button", { type: "button", "aria-label": name }, text);
    button.addEventListener("click", act);
    byId("zoom").append(button);
  }
  const keys = {
    "+": () => zoom(ZOOM_STEP), "=": () => zoom(ZOOM_STEP), "-": () => zoom(1 / ZOOM_STEP), 0: showAll,
    ArrowLeft: () => move(-MOVE_PIXELS, 0), ArrowRight: () => move(MOVE_PIXELS, 0),
    ArrowUp: () => move(0, -MOVE_PIXELS), ArrowDown: () => move(0, MOVE_PIXELS),
  };
  place.addEventListener("keydown", (event) => {
    const act = keys[event.key], isArrow = event.key.startsWith("Arrow");
    if (!act || event.ctrlKey || event.metaKey || event.altKey || !drawn.picture) return;
    if (isArrow && view.zoom === 1) return; // the page scrolls
    event.preventDefault();
    act();
  });
  place.addEventListener("wheel", (event) => {
    if (!drawn.picture || !(event.ctrlKey || event.metaKey)) return; // the page scrolls
    event.preventDefault();
    const at = drawn.picture.getBoundingClientRect();
    zoom(event.deltaY < 0 ? ZOOM_STEP : 1 / ZOOM_STEP,
      event.clientX - at.x - at.width / 2, event.clientY - at.y - at.height / 2);
  }, { passive: false });
  let from = null, isDragged = false;
  place.addEventListener("pointerdown", (event) => {
    from = view.zoom > 1 ? event : null;
    isDragged = false;
  });
  place.addEventListener("pointermove", (event) => {
    if (!from || !(event.buttons & 1)) return;
    const [dx, dy] = [event.clientX - from.clientX, event.clientY - from.clientY];
    if (!isDragged && Math.hypot(dx, dy) < DRAG_PIXELS) return;
    isDragged = true;
    move(-dx, -dy);
    from = event;
  });
  place.addEventListener("click", (event) => { if (isDragged) event.stopPropagation(); }, true);
}
listen(byId("graph"));
