// The parts of the page that are numbers and texts.

const bad = (n) => [count(n), n ? "bad" : ""];

function showTiles(data) {
  const { trees, batches } = data;
  const latency = data.complete_latency_ms, lag = wholeLag(data);
  const tiles = data.transactions ? transactionTiles(data, executedPerSecond(data)) : [
    ["trees acked/s", rate(data.acked_per_second)],
    ["executed/s", rate(executedPerSecond(data))],
    ["latency p50", millis(latency.p50)],
    ["latency p99", millis(latency.p99)],
    ["trees pending", large(trees.pending)],
    ["trees acked", large(trees.acked)],
    ["failed", large(trees.failed), trees.failed],
    ["timed out", large(trees.timed_out), trees.timed_out],
    ["replayed", large(trees.replayed)],
    ["dead letters", large(trees.dead_lettered), trees.dead_lettered],
    ...lagTiles(lag),
    ["batches", large(batches.count)],
    ...FIGURES.of_topology.map(({ name, title, is_bad }) => [title, large(batches[name]), is_bad && batches[name]]),
  ];
  keyed(byId("tiles"), tiles, (t) => t[0], ([label]) =>
    html("div", {}, html("dt", {}, label), html("dd")), (tile, [, text, isBad]) => {
    setText(tile.lastChild, text);
    tile.lastChild.className = isBad ? "bad" : "";
  });
}

// ---- components, and the streams and tasks of the selected one

const perSecond = (c) => c.kind === "spout" ? c.emitted_per_second : c.executed_per_second;
const isUneven = (c) => c.tasks > 1 && c.busiest_task != null && c.busiest_task.share > 2 / c.tasks;
const time = (title, key) => ({ title, value: (of) => of[key], cell: (of) => millis(of[key]) });
const number = (title, key = title) => ({ title, value: (of) => of[key] });
const counted = ({ name, title, of_bolts, is_bad }) => ({
  title, value: (c) => of_bolts && c.kind === "spout" ? null : c[name], ...(is_bad ? { cell: (c) => bad(c[name]) } : {}),
});

const fillComponents = sortable(byId("components-table"), "components", "statistics of each component", [
  { title: "component", value: (c) => c.name, cell: (c) => {
    const button = html("button", { type: "button" }, c.name);
    button.addEventListener("click", () => select(c.name));
    return button;
  } },
  number("executors"), number("tasks"), ...FIGURES.of_tuples.map(counted),
  { title: "per second", value: perSecond, cell: (c) => rate(perSecond(c)) },
  time("execute", "execute_ms"), time("process", "process_ms"), time("complete", "complete_ms"),
  { title: "capacity", value: (c) => c.capacity,
    cell: (c) => c.capacity == null ? "–" : withBar(c.capacity.toFixed(2), c.capacity) },
  { title: "busiest task", value: (c) => c.busiest_task?.share, cell: (c) => c.busiest_task
    ? [`${c.busiest_task.task}: ${share(c.busiest_task.share)}`, isUneven(c) ? "bad" : ""] : "–" },
  { title: "lag", value: (c) => c.lag?.messages ?? c.lag?.seconds, cell: (c) => lagText(c.lag) },
  ...FIGURES.of_components.map(counted),
], (c) => c.name);

function showComponents(data) {
  fillComponents(data.components);
  for (const row of byId("components").children) {
    const button = row.querySelector("button");
    button.setAttribute("aria-pressed", String(button.textContent === selected));
  }
  showDetails(data.components.find((c) => c.name === selected), data);
}

function showDetails(component, data) {
  keyed(byId("details"), component ? [component] : [], (c) => c.name, ({ name, kind }) => {
    const [inputs, outputs, tasks, metrics, steps] = ["", "", "", "", ""].map(() => html("div"));
    const own = html("div", {}, html("h3", {}, `Metrics of ${name}`), metrics);
    const made = html("div", {}, html("h3", {}, `Inputs of ${name}`), inputs,
      html("h3", {}, `Outputs of ${name}`), outputs, html("h3", {}), tasks, html("p"),
      html("div", {}, html("h3", {}, `Steps of ${name}, and ahead of its inputs`), steps), own);
    made.fill = [
      sortable(inputs, "inputs", `inputs of ${name}`, [
        { title: "stream", value: (i) => i.from }, number("executed"), number("acked"), number("failed"),
        time("execute", "execute_ms"), time("process", "process_ms")], (i) => i.from),
      sortable(outputs, "outputs", `outputs of ${name}`, [
        { title: "stream", value: (o) => o.stream }, number("emitted"), number("transferred")], (o) => o.stream),
      sortable(tasks, "tasks", `tasks of ${name}`, taskColumns(kind), (t) => t.task),
      sortable(metrics, "metrics", `metrics of ${name}`, metricColumns, (m) => m.name),
      sortable(steps, "steps", `steps of ${name}`, [
        { title: "step", value: (s) => s.step }, number("rows"), number("given"),
        { title: "failed", value: (s) => s.failed, cell: (s) => bad(s.failed) }], (s) => s.step),
    ];
    return made;
  }, (node, c) => {
    const tasks = data.tasks_of === c.name ? data.tasks : [];
    setText(node.children[4], `Tasks of ${c.name}` + (tasks.length && tasks.length < c.tasks
      ? `: the ${tasks.length} with the most to do, of ${count(c.tasks)}` : ""));
    setText(node.children[6], resultsText(c));
    const metrics = metricsOf(c);
    node.lastChild.hidden = !metrics.length;
    node.children[7].hidden = !c.steps.length;
    [c.inputs, c.outputs, tasks, metrics, c.steps].forEach((items, i) => node.fill[i](items));
  });
}
const resultsText = ({ results: r }) => r ? `Results, which it emits by itself: ${count(r.acked)} acked, ` +
  `${count(r.failed)} failed, ${count(r.timed_out)} timed out, ${count(r.pending)} pending, ${count(r.resting)} resting, ` +
  `${count(r.replayed)} replayed, ${count(r.dead_lettered)} dead-lettered` : "";
const taskColumns = (kind) => [
  number("task"), number("worker"), number("executor"),
  ...(kind === "spout" ? [] : [number("executed"), { title: "executed/s", value: (t) => t.executed_per_second,
    cell: (t) => rate(t.executed_per_second) }]),
  number("emitted"),
  { title: "emitted/s", value: (t) => t.emitted_per_second, cell: (t) => rate(t.emitted_per_second) },
  ...(kind === "spout" ? [] : [{ title: "failed", value: (t) => t.failed, cell: (t) => bad(t.failed) }]),
  ...(kind === "bolt" ? [] : [number("pending")]),
  { title: "share", value: (t) => t.share, cell: (t) => withBar(share(t.share), t.share) },
  ...(kind === "spout" ? [] : [{ title: "at work", value: (t) => t.busy, cell: (t) => withBar(share(t.busy), t.busy) }]),
];

// ---- workers and ackers

const fillWorkers = sortable(byId("workers-table"), "workers", "workers and their executors", [
  { title: "worker", value: (w) => w.worker, cell: (w) => w.worker < 0 ? "driver" : `worker ${w.worker}` },
  { title: "host or pod", value: (w) => w.pod ?? w.host, cell: (w) => [w.pod ?? w.host ?? "–", "text"] },
  number("slot"), { title: "pid", value: (w) => w.pid, cell: (w) => w.pid == null ? "–" : String(w.pid) },
  { title: "memory", value: (w) => w.memory_bytes, cell: (w) => bytes(w.memory_bytes) },
  { title: "at work", value: (w) => w.present ? w.busy : -1,
    cell: (w) => w.present ? withBar(share(w.busy), w.busy) : ["is missing", "bad"] },
  { title: "without a processor", value: (w) => w.present ? w.run_delay : -1,
    cell: (w) => w.present ? withBar(share(w.run_delay), w.run_delay) : "–" },
  { title: "executors", value: (w) => w.executor_count, cell: (w) => [chips(w), "text"] },
], (w) => w.worker, (w) => w.present ? "" : "gone");

function chips(w) {
  const made = w.executors.map((e) => {
    const tasks = e.first === e.last ? e.first : `${e.first}–${e.last}`;
    const chip = html("li", { title: `capacity ${e.capacity.toFixed(2)}` }, `${e.component} ${tasks}`);
    chip.style.borderLeftColor = level(e.capacity);
    return chip;
  });
  const rest = w.executor_count - w.executors.length;
  return html("ul", { class: "chips" }, ...made, ...(rest ? [html("li", {}, `and ${rest} more`)] : []));
}

function scalingNote(scaling) {
  if (!scaling) return "";
  const why = scaling.last_change ? ` (${scaling.last_change})` : "", now = scaling.message ? `: ${scaling.message}` : "";
  return `; autoscale: ${count(scaling.workers)} since ${scaling.since}${why}; now ${scaling.reason}${now}`;
}

function showWorkers(data) {
  const { wanted, present } = data.worker_counts, listed = data.workers.filter((w) => w.worker >= 0).length;
  setText(byId("workers-note"), `${count(present)} of ${count(wanted)} are there` +
    (listed < wanted ? `; the ${count(listed)} that are missing or have the most to do are listed` : "") +
    "; at work: share of the last seconds" + scalingNote(data.autoscale));
  fillWorkers(data.workers);
}

const fillAckers = sortable(byId("ackers-table"), "ackers", "statistics of each acker task", [
  number("task"), number("worker"), number("pending"),
  { title: "per second", value: (a) => a.executed_per_second, cell: (a) => rate(a.executed_per_second) },
  ...["init", "ack", "fail"].map((what) => ({ title: what, value: (a) => a.executed[`__ack_${what}`] })),
  number("trees acked", "acked"), { title: "failed", value: (a) => a.failed, cell: (a) => bad(a.failed) },
], (a) => a.task);
const showAckers = (data) => fillAckers(data.ackers);

// ---- batches

const fillBatches = sortable(byId("batches-table"), "batches", "parts of a batch and their time", [
  { title: "part", value: (p) => p.name, cell: (p) => {
    const dot = html("i", { class: "legend" });
    dot.style.background = p.colour;
    return html("span", { title: p.title ?? p.name }, dot, p.name);
  } },
  { title: "time", value: (p) => p.ms, cell: (p) => millis(p.ms) },
  { title: "share", value: (p) => p.share, cell: (p) => share(p.share) },
  { title: "mean of workers", value: (p) => p.worker_ms, cell: (p) => millis(p.worker_ms) },
], (p) => p.name);

const someOf = (names) => names.length > 4
  ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");

/** What a batch's time consists of: stages one after the other, what is between them, and the rest. */
function partsOf({ phases_ms: phases, stages }) {
  const run = phases.run ?? 0, inStages = stages.reduce((sum, s) => sum + (s.ms ?? 0), 0);
  const parts = stages.map((s) => ({
    name: `stage ${s.stage}: ${someOf(s.components)}`, title: s.components.join(", "), ms: s.ms, worker_ms: s.worker_ms,
    colour: `hsl(${(250 + 47 * s.stage) % 360} 55% var(--level))`,
  }));
  parts.push({ name: "between and around stages", title: "starting stages, and moving tuples from one to the next", ms: Math.max(0, run - inStages), colour: "var(--soft)" });
  parts.push({ name: "commit", ms: phases.commit, colour: "var(--second)" });
  parts.push({ name: "wait for the next batch", ms: phases.wait, colour: "var(--edge)" });
  const all = parts.reduce((sum, p) => sum + (p.ms ?? 0), 0);
  return parts.map((p) => ({ ...p, share: all && p.ms != null ? p.ms / all : null }));
}

function showBatches({ batches }) {
  const parts = partsOf(batches);
  keyed(byId("parts"), parts, (p) => p.name, ({ colour }) => {
    const made = html("div");
    made.style.background = colour;
    return made;
  }, (part, { ms }) => { part.style.flexGrow = ms ?? 0; });
  fillBatches(parts);
  const facts = [["run", millis(batches.phases_ms.run)], ["batches per second", rate(batches.per_second)],
    ["permits per batch", Object.entries(batches.permits).map(([spout, n]) => `${spout} ${count(n)}`).join("\n")],
    ["written to the checkpoint", `${bytes(batches.checkpoint_bytes)}, ${bytes(batches.checkpoint_bytes_per_second)}/s`]];
  if (batches.failed_attempts) facts.push(["failed attempts", `${count(batches.failed_attempts)}, the last one because`]);
  keyed(byId("facts"), facts.flatMap(([name, text]) => [["dt", name], ["dd", text, name]]),
    ([tag, text, of]) => of ?? `name of ${text}`, ([tag]) => html(tag), (node, [, text]) => setText(node, text));
  setText(byId("failure"), batches.failed_attempts ? batches.last_failure : "");
}

// ---- errors

let errorsBy = "time";
choices(byId("errors-order"), [["newest", "time"], ["most frequent", "count"]], (value) => {
  errorsBy = value;
  if (latest) showErrors(latest);
});

function showErrors({ errors }) {
  const items = errors.length ? [...errors].sort((a, b) => b[errorsBy] - a[errorsBy]) : [null];
  keyed(byId("errors"), items, (e) => e && JSON.stringify([e.component, e.message]), (e) => e ? html("li", {},
    html("span", { class: "count" }), html("span", { class: "soft" }),
    html("div", { class: "message", tabindex: "0", role: "group", "aria-label": "Message" }, e.message),
    ...(e.traceback ? [html("details", {}, html("summary", {}, "Traceback"), html("pre"))] : []),
  ) : html("li", {}, "None."), (node, e) => {
    if (!e) return;
    setText(node.children[0], `${count(e.count)} ×`);
    const when = e.count > 1 ? `${clock(e.first)} to ${clock(e.time)}` : clock(e.time);
    setText(node.children[1], `${e.component}, task ${e.task}, ${when}`);
    if (e.traceback && node.children[3]) setText(node.children[3].lastChild, e.traceback);
  });
}
