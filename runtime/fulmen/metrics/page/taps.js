// Tuples of the selected component: a stream of lines of JSON, for as long as somebody looks.

const TUPLES_SHOWN = 50;
let tapped = "", tapping = null, tuples = [], others = 0, tapNote = "";

function stopTap() {
  tapping?.abort();
  [tapped, tapping] = ["", null];
}

async function startTap(component) {
  stopTap();
  const own = new AbortController();
  [tapped, tapping, tuples, others, tapNote] = [component, own, [], 0, "waiting for tuples"];
  try {
    const answer = await fetch(`api/tap?${new URLSearchParams({ component })}`, { cache: "no-store", signal: own.signal });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("the driver has gone");
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      lines.filter((line) => line).forEach((line) => takeTuple(JSON.parse(line)));
    }
  } catch (error) {
    if (tapping !== own) return; // somebody looks at another component
    stopTap();
    tapNote = error.message;
    if (latest) showTuples(latest);
  }
}

function takeTuple(found) {
  if (found.ended) throw new Error(found.ended);
  others += found.others ?? 0;
  if (found.values) tuples = [{ ...found, number: tuples.length ? tuples[0].number + 1 : 0 }, ...tuples].slice(0, TUPLES_SHOWN);
  tapNote = others ? `the last ones; ${count(others)} others are not shown` : "the last ones";
}

const fillTuples = sortable(byId("tuples-table"), "tuples", "tuples of the selected component", [
  { title: "time", value: (t) => t.time, cell: (t) => clock(t.time) },
  { title: "stream", value: (t) => t.stream, cell: (t) => [t.stream, "text"] },
  { title: "task", value: (t) => t.task },
  { title: "values", value: (t) => JSON.stringify(t.values), cell: (t) => [JSON.stringify(t.values), "text tuple"] },
  { title: "trees", value: (t) => t.trees.join(" "), cell: (t) => [t.trees.join(" ") || "–", "text"] },
], (t) => t.number);

byId("tap").addEventListener("click", () => {
  if (tapping) { stopTap(); tapNote = "stopped"; } else startTap(selected);
  if (latest) showTuples(latest);
});

function showTuples(data) {
  const component = data.components.find((c) => c.name === selected && c.outputs.length);
  if (tapping && tapped !== component?.name) stopTap();
  if (byId("tuples-of").dataset.name !== (component?.name ?? "")) [tuples, others, tapNote] = [[], 0, ""];
  byId("tuples-of").dataset.name = component?.name ?? "";
  byId("tuples-section").hidden = !component || !data.tap_allowed;
  setText(byId("tuples-of"), component?.name ?? "");
  setText(byId("tuples-note"), tapNote);
  setText(byId("tap"), tapping ? "Stop" : "Look");
  fillTuples(tuples);
}
