// Event time: how far each component is, what holds it, and what it waits for.

const moment = (s) => s == null ? "–" : new Date(1000 * s).toISOString().replace("T", " ").replace(".000Z", "").replace("Z", "");
const heldText = ({ held_by: held }) => held == null ? "–"
  : held.part == null ? held.component
  : `${held.part} of ${held.component}` + (held.silent_seconds < 10 ? "" : `, silent for ${duration(held.silent_seconds)}`);
const behindText = (s) => s == null ? "–" : s <= -1 ? `${duration(-s)} ahead` : duration(Math.max(0, s));
const REASONS = { unusable: "without a usable time", ahead: "ahead of the clock", ended: "too late" };
const lateText = ({ late }) => Object.entries(late).map(([reason, n]) => `${count(n)} ${REASONS[reason] ?? reason}`).join(", ");

const fillTimes = sortable(byId("times-table"), "times", "event time of each component", [
  { title: "component", value: (c) => c.name },
  { title: "watermark, UTC", value: (c) => c.time.watermark, cell: (c) => moment(c.time.watermark) },
  { title: "behind the clock", value: (c) => c.time.behind_seconds,
    cell: (c) => behindText(c.time.behind_seconds) },
  { title: "held by", value: (c) => heldText(c.time), cell: (c) => [heldText(c.time), "text"] },
  { title: "open windows", value: (c) => c.metrics.open_windows },
  { title: "timers", value: (c) => c.time.timers },
  { title: "late", value: (c) => lateText(c.time), cell: (c) => [lateText(c.time), "text"] },
], (c) => c.name);

/** What time means something to: not what only gets tuples with a time, such as a sink. */
const withTime = new Set();
const usesTime = ({ name, kind, time, metrics }) => kind === "spout" || time.timers > 0 || metrics.open_windows != null
  || time.due != null || Object.keys(time.late).length > 0;

function showTimes({ components }) {
  for (const c of components) if (c.time != null && usesTime(c)) withTime.add(c.name);
  const timed = components.filter((c) => c.time != null && withTime.has(c.name));
  byId("times-section").hidden = !timed.length;
  setText(byId("times-why"), timed.map((c) => c.time.why).filter((why) => why != null).join("\n"));
  fillTimes(timed);
  const found = timed.find((c) => c.name === selected) ?? timed.at(-1), line = byId("times-line");
  line.hidden = !found;
  if (!found) return;
  const dots = points.map((p) => ({ uptime: p.uptime, behind: p.behind?.[found.name] }));
  setText(byId("times-of"), `Watermark of ${found.name}, behind the clock`);
  chart(byId("times-chart"), [["behind", "first", dots]], duration, `Watermark of ${found.name}, behind the clock`);
}
