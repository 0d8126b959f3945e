// Where components, edges and their labels are: layer by layer. Nothing is drawn here.
//
// Components are in layers, and labels in columns of their own between two layers, one below the
// other. So a label can't lie on a component or on another label, and each edge leads through its
// label. A column has room for so many labels; those of the busiest edges are shown.

const DETAILED = { width: 168, height: 78, gap: 34, lead: 26, label: { width: 118, height: 36 } };
const COMPACT = { width: 150, height: 44, gap: 16, lead: 22, label: { width: 60, height: 20 } };
const BEND = 10, MARGIN = 8;

/** Longest paths decide about layers; an edge over several of them gets a bend in each. */
function layers(names, pairs) {
  const depth = new Map(names.map((name) => [name, 0]));
  for (let i = 0; i < names.length; i++) {
    let moved = false;
    for (const [from, to] of pairs) {
      if (depth.get(to) <= depth.get(from)) { depth.set(to, depth.get(from) + 1); moved = true; }
    }
    if (!moved) break;
  }
  const found = [], links = [], routes = new Map();
  const put = (node) => (found[node.layer] ??= []).push(node);
  const nodes = new Map(names.map((name) => [name, { name, layer: depth.get(name) }]));
  nodes.forEach(put);
  for (const [from, to] of pairs) {
    const route = [nodes.get(from)];
    for (let layer = depth.get(from) + 1; layer < depth.get(to); layer++) {
      const bend = { layer, bend: true };
      put(bend);
      route.push(bend);
    }
    route.push(nodes.get(to));
    route.forEach((node, i) => { if (i) links.push([route[i - 1], node]); });
    routes.set(`${from}\n${to}`, route);
  }
  order(found, links);
  return { found, nodes, routes };
}

/** Fewer crossings: each node moves towards the middle of its neighbours, a few times. */
function order(found, links) {
  const near = [new Map(), new Map()]; // by the link's second end, and by its first one
  for (const link of links) {
    for (const own of [0, 1]) {
      if (!near[own].has(link[own])) near[own].set(link[own], []);
      near[own].get(link[own]).push(link[1 - own]);
    }
  }
  const renumber = () => found.forEach((layer) => layer.forEach((node, i) => {
    node.place = i - (layer.length - 1) / 2;
  }));
  renumber();
  for (let sweep = 0; sweep < 8; sweep++) {
    for (const layer of found) {
      for (const node of layer) {
        const others = near[1 - sweep % 2].get(node) ?? [];
        node.wish = others.length
          ? others.reduce((sum, other) => sum + other.place, 0) / others.length : node.place;
      }
      layer.sort((a, b) => a.wish - b.wish);
    }
    renumber();
  }
}

/** Places near to the wishes, which ascend, each `size` from the next one, all within `room`. */
function spread(wishes, size, room) {
  const after = [], before = [], last = wishes.length - 1;
  wishes.forEach((wish, i) => { after[i] = i ? Math.max(wish, after[i - 1] + size) : wish; });
  for (let i = last; i >= 0; i--) {
    before[i] = i < last ? Math.min(wishes[i], before[i + 1] - size) : wishes[i];
  }
  const places = after.map((place, i) => (place + before[i]) / 2);
  for (let i = last; i >= 0; i--) places[i] = Math.min(places[i], room - size / 2 - (last - i) * size);
  return places.map((place, i) => Math.max(place, size / 2 + i * size));
}

/** Where the labels of edges that begin in one layer are, across: key of the edge -> place. */
function labelPlaces(column, placed, weights, size, room) {
  const from = ({ route }) => placed.get(route[0]).across;
  const wish = (edge) => (from(edge) + placed.get(edge.route[1]).across) / 2;
  const shown = [...column].sort((a, b) => weights.get(b.key) - weights.get(a.key))
    .slice(0, Math.max(1, Math.floor(room / size)))
    .sort((a, b) => wish(a) - wish(b) || from(a) - from(b));
  const places = spread(shown.map(wish), size, room);
  return new Map(shown.map(({ key }, i) => [key, places[i]]));
}

/**
 * Give each node of a structure that `layers` made its place.
 *
 * Layers follow one another along one axis, `along`: x, or y if `down`. Nodes of a layer are beside
 * each other on the other one, `across`. `weights` has a number for each edge: its tuples.
 */
function arrange({ found, nodes, routes }, weights, box, down) {
  const [deep, broad] = down ? [box.height, box.width] : [box.width, box.height];
  const label = down
    ? { deep: box.label.height, broad: box.label.width + 8 }
    : { deep: box.label.width, broad: box.label.height };
  const step = deep + 2 * box.lead + label.deep;
  const size = (node) => (node.bend ? BEND : broad) + box.gap;
  const extent = (layer) => layer.reduce((sum, node) => sum + size(node), -box.gap);
  const columns = found.map(() => []);
  for (const [key, route] of routes) columns[route[0].layer].push({ key, route });
  const needed = Math.max(...columns.map((column) => column.length)) * label.broad;
  const least = Math.max(...found.map(extent));
  const room = Math.max(least, Math.min(needed, 1.5 * least));

  const placed = new Map();
  for (const layer of found) {
    let across = (room - extent(layer)) / 2;
    for (const node of layer) {
      placed.set(node, { along: node.layer * step, across: across + (size(node) - box.gap) / 2 });
      across += size(node);
    }
  }
  const labels = new Map(columns.flatMap((column) =>
    [...labelPlaces(column, placed, weights, label.broad, room)]));
  const point = (along, across) => down
    ? { x: MARGIN + across, y: MARGIN + along } : { x: MARGIN + along, y: MARGIN + across };
  const boxes = new Map();
  for (const [name, node] of nodes) {
    const { along, across } = placed.get(node);
    boxes.set(name, point(along, across - broad / 2));
  }
  const edges = new Map();
  for (const [key, route] of routes) {
    const start = placed.get(route[0]).along + deep + box.lead;
    const own = labels.has(key) ? { start, end: start + label.deep, across: labels.get(key) } : null;
    edges.set(key, tracedEdge(route, own, placed, deep, point));
  }
  const depth = (found.length - 1) * step + deep;
  const [width, height] = down ? [room, depth] : [depth, room];
  return { box, down, boxes, edges, width: width + 2 * MARGIN, height: height + 2 * MARGIN };
}

/** The points of an edge: two and two of them have a curve between them, then a straight line. */
function tracedEdge(route, label, placed, deep, point) {
  const points = [];
  route.forEach((node, i) => {
    const { along, across } = placed.get(node);
    if (i) points.push(point(along, across));
    if (i < route.length - 1) points.push(point(along + deep, across));
    if (!i && label) points.push(point(label.start, label.across), point(label.end, label.across));
  });
  return { points, label: label && point((label.start + label.end) / 2, label.across) };
}

/** The arrangement that can be shown largest in a frame, with all details if they can be read. */
function bestArrangement(structure, weights, frame) {
  const fit = (a) => Math.min(1, frame.width / a.width, frame.height / a.height);
  const [across, down, compactAcross, compactDown] = [DETAILED, COMPACT].flatMap((box) =>
    [false, true].map((isDown) => arrange(structure, weights, box, isDown)));
  const better = (a, b) => fit(b) > 1.15 * fit(a) ? b : a;
  const detailed = better(across, down);
  const best = fit(detailed) >= 0.75 ? detailed : better(detailed, better(compactAcross, compactDown));
  return { ...best, fit: fit(best) };
}
