// What is selected, and asking the server again and again.

const POLL_MILLIS = 1000;
let selected = "", latest = null, next = 0, uptime = 0;

try { selected = decodeURIComponent(location.hash.slice(1)); } catch { /* not written by this page */ }
function select(name) {
  selected = selected === name ? "" : name;
  history.replaceState(null, "", `#${encodeURIComponent(selected)}`);
  if (latest) show(latest);
}

choices(byId("ranges"), RANGES.map(([label, seconds]) => [label, seconds, `The last ${label}`]), (seconds) => {
  [step, points, next] = [seconds, [], 0];
});

function stateOf(data) {
  if (data.active) return "active";
  if (data.batches.count === 0) return "starting";
  return data.state === "Active" ? "spouts are off" : data.state.toLowerCase();
}

function show(data) {
  latest = data;
  document.title = `${data.name} – Fulmen`;
  setText(byId("name"), data.name);
  setText(byId("state"), stateOf(data));
  setText(byId("uptime"), `up ${duration(data.uptime_seconds)}, message timeout ${duration(data.message_timeout_seconds)}`);
  for (const part of [showTiles, showWaits, showGraph, showCharts, showComponents, showTuples, showLetters, showTimes,
    showTransactions, showWorkers, showAckers, showBatches, showErrors]) {
    part(data);
  }
}

async function ask() {
  const query = new URLSearchParams({ since: next, step, tasks: selected });
  const answer = await fetch(`api/topology?${query}`, { cache: "no-store" });
  if (answer.status === 503) throw new Error("the topology is starting");
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  const data = await answer.json();
  if (data.uptime_seconds < uptime) { points = []; next = 0; uptime = 0; return ask(); } // another driver
  uptime = data.uptime_seconds;
  if (data.history_step === step) { // or another range was chosen meanwhile
    points = [...points, ...data.history].slice(-POINTS);
    next = points.length ? points.at(-1).number + 1 : 0;
  }
  return data;
}

async function poll() {
  const status = byId("status");
  try {
    show(await ask());
    setText(status, "live");
    status.className = "";
    byId("main").classList.remove("stale");
  } catch (error) {
    setText(status, `${error instanceof TypeError ? "no connection" : error.message}; trying again`);
    status.className = "lost";
    byId("main").classList.toggle("stale", latest != null);
  }
  setTimeout(poll, POLL_MILLIS);
}
addEventListener("resize", () => {
  if (latest) { showGraph(latest); showCharts(latest); showTimes(latest); }
});
poll();
