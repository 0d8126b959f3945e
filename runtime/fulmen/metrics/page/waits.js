// What a topology waits for, how far it is behind, and what authors count.

const unreadTexts = (c) => Object.entries(c.unread).map(([stream, n]) =>
  `${c.name}: ${count(n)} ${n === 1 ? "tuple" : "tuples"} on stream '${stream}', which no bolt reads${stream === "late" ? ", and in no result" : ""}`);
const keptText = ([name, { until }]) =>
  `component '${name}' is not in the topology, and the checkpoint keeps its state${until && ` until ${until}`}`;
/** What timers of event time wait for is told beside these. */
const showWaits = ({ waits, components, kept_state }) =>
  setText(byId("waits"), [...waits.filter((w) => w.kind !== "time").map((w) => w.sentence),
    ...Object.entries(kept_state).map(keptText), ...components.flatMap(unreadTexts)].join("\n"));

const seconds = (s) => millis(1000 * s);
function lagText(lag) {
  const parts = [];
  if (lag?.messages != null) parts.push(count(lag.messages));
  if (lag?.seconds != null) parts.push(seconds(lag.seconds));
  return parts.join(", ") || "–";
}

/** Of all spouts together; null if none says it. */
function wholeLag({ components }) {
  const told = components.map((c) => c.lag).filter((lag) => lag != null);
  if (!told.length) return null;
  const of = (key) => told.map((lag) => lag[key]).filter((n) => n != null);
  const messages = of("messages"), ages = of("seconds");
  return { messages: messages.length ? messages.reduce((sum, n) => sum + n, 0) : null,
    seconds: ages.length ? Math.max(...ages) : null };
}

const lagTiles = (lag) => [
  ...(lag?.messages != null ? [["lag", large(lag.messages)]] : []),
  ...(lag?.seconds != null ? [["lag, age", seconds(lag.seconds)]] : []),
];

const metricsOf = (c) => Object.entries(c.metrics).map(([name, value]) => ({ name, value }));
/** Of a histogram: even within a bucket, as Prometheus takes it to be. */
function quantile({ count: all, buckets }, q) {
  let below = 0, from = 0;
  for (const [bound, within] of Object.entries(buckets).sort(([a], [b]) => limit(a) - limit(b))) {
    if (within >= q * all) {
      const to = limit(bound);
      return to === Infinity ? from : from + (to - from) * (q * all - below) / (within - below || 1);
    }
    below = within, from = limit(bound);
  }
  return from;
}
const limit = (bound) => bound === "+Inf" ? Infinity : +bound;

const figure = (n) => Number.isInteger(n) ? count(n) : String(+n.toPrecision(4));
const metricColumns = [
  { title: "metric", value: (m) => m.name },
  { title: "value", value: (m) => m.value.count ?? m.value, cell: (m) => m.value.count == null
    ? figure(m.value) : `${count(m.value.count)}, mean ${figure(m.value.sum / m.value.count)}, p50 ${
      figure(quantile(m.value, 0.5))}, p99 ${figure(quantile(m.value, 0.99))}` },
];
