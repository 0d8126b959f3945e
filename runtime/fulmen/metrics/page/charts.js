// Charts of the past.

const RANGES = [["5 min", 1], ["1 h", 12], ["6 h", 72], ["24 h", 288]]; // label, seconds of a point
const POINTS = 300, BRIDGED_SECONDS = 15; // a batch may take as long without leaving a gap in a line
const WIDEST = 7.5; // of a character beside an axis, in pixels
let points = [], step = 1;

/** Means of the last seconds: a batch that takes longer than one is not a row of needles. */
function smooth(key) {
  return points.map((point, i) => {
    const near = step > 1 ? [point] : points.slice(Math.max(0, i - 4), i + 1);
    return { uptime: point.uptime, [key]: near.reduce((sum, p) => sum + p[key], 0) / near.length };
  });
}

function chart(parent, lines, unit, label) {
  const width = Math.max(260, parent.clientWidth), height = 104, bottom = 16, end = points.at(-1)?.uptime ?? 0;
  const values = lines.flatMap(([key, , dots]) => dots.map((p) => p[key] ?? 0));
  const top = nice(Math.max(...values, 1e-3));
  const marks = [0, 0.5, 1].map((part) => [top * part, part ? unit(top * part) : "0"]);
  const left = Math.max(46, 12 + WIDEST * Math.max(...marks.map(([, text]) => text.length)));
  const span = Math.min(POINTS * step, Math.max(60 * step, end - (points[0]?.uptime ?? end)));
  const x = (p) => left + (width - left - 4) * (1 - (end - p.uptime) / span);
  const y = (value) => 6 + (height - bottom - 6) * (1 - value / top);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
  picture.setAttribute("aria-label", label);
  for (const [value, text] of marks) {
    picture.append(svg("line", { class: "grid", x1: left, x2: width, y1: y(value), y2: y(value) }),
      svg("text", { class: "soft", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, text));
  }
  picture.append(svg("text", { class: "soft", x: left, y: height - 2 }, `${duration(span)} ago`),
    svg("text", { class: "soft", x: width - 2, y: height - 2, "text-anchor": "end" }, "now"));
  for (const [key, style, dots] of lines) {
    let path = "", drawnTo = -Infinity;
    for (const dot of dots) {
      if (dot[key] == null) continue;
      const place = `${x(dot).toFixed(1)},${y(dot[key]).toFixed(1)}`;
      path += dot.uptime - drawnTo > BRIDGED_SECONDS + step ? `M${place}h0` : `L${place}`;
      drawnTo = dot.uptime;
    }
    if (path) picture.append(svg("path", { class: style, d: path }));
  }
  parent.replaceChildren(picture);
}
function nice(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * [1, 2, 4, 6, 8, 10].find((n) => n * unit >= value);
}

function showCharts(data) {
  const { p50, p99 } = data.complete_latency_ms;
  const latency = `p50 ${millis(p50)} (line), p99 ${millis(p99)} (dashed)`;
  setText(byId("latency-now"), latency);
  chart(byId("latency"), [["p50", "first", points], ["p99", "second", points]], tick, `Complete latency: ${latency}`);
  const sum = executedPerSecond(data);
  const [what, key, ended] = data.transactions ? ["transactions", "committed", data.transactions.committed_per_second]
    : ["trees", "acked", data.acked_per_second];
  const throughput = `${rate(sum)} tuples/s (line), ${rate(ended)} ${what}/s (dashed)`;
  setText(byId("throughput-now"), throughput);
  chart(byId("throughput"), [["executed", "first", smooth("executed")], [key, "second", smooth(key)]], short.format, `Throughput: ${throughput}`);
}
const executedPerSecond = (data) => data.components
  .reduce((sum, c) => sum + (c.kind === "bolt" ? c.executed_per_second : 0), 0);
