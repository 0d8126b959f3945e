// What a topology waits for, how far it is behind, and what authors count.

const awayText = (a) =>
  `${a.component} waits for ${a.service || "a service"} since ${clock(a.since)} (${duration(a.seconds)}): ${a.reason}`;
const holdText = (h) =>
  `spouts rest: ${h.component} holds them (${count(h.tasks)} ${h.tasks === 1 ? "task" : "tasks"}): ${h.reason}`;
const restText = (r) =>
  `${count(r.messages)} ${r.messages === 1 ? "message" : "messages"} of ${r.component} failed (up to ${count(r.failures)} ${r.failures === 1 ? "time" : "times"}) and will be tried again; the last reason: ${r.reason}`;
const fullText = (f) =>
  `${f.component} emits nothing: ${count(f.messages)} messages are pending, as many as maxSpoutPending allows, and none has ended for ${duration(f.seconds)}`
  + f.bolts.map((bolt) => `; ${bolt} has not acked all that it received`).join("");
const leftOutText = (t) => `${t.component}, task ${t.task}, is left out since ${clock(t.since)}: ${t.reason}`;
const longCallText = (c) => `${c.who}: ${c.callback} runs since ${clock(c.since)}`;
const unreadText = (c) =>
  `${c.name}: ${count(c.unread_errors)} ${c.unread_errors === 1 ? "tuple" : "tuples"} on stream 'errors', which no bolt reads`;
const showWaits = ({ long_calls, left_out, away, holds, full, resting, components }) =>
  setText(byId("waits"), [...long_calls.map(longCallText), ...left_out.map(leftOutText), ...away.map(awayText),
    ...holds.map(holdText), ...full.map(fullText), ...resting.map(restText),
    ...components.filter((c) => c.unread_errors).map(unreadText)].join("\n"));

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
const figure = (n) => Number.isInteger(n) ? count(n) : String(+n.toPrecision(4));
const metricColumns = [
  { title: "metric", value: (m) => m.name },
  { title: "value", value: (m) => m.value.count ?? m.value, cell: (m) => m.value.count == null
    ? figure(m.value) : `${count(m.value.count)}, mean ${figure(m.value.sum / m.value.count)}` },
];
