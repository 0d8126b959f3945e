// Dead letters: messages that were given up. They are asked for when their number has changed, or now and then.

const LETTERS_POLLS = 10;
let lettersAsked = 0, lettersShown = "", lettersPolls = 0;

const sentAgain = (l) => l.state === "kept" ? (l.replays ? `sent ${count(l.replays)} ×` : "") : l.state;
function valuesOf(l) {
  if (!l.values) return "not shown";
  return JSON.stringify(l.fields ? Object.fromEntries(l.fields.map((name, i) => [name, l.values[i]])) : l.values);
}

const fillLetters = sortable(byId("letters-table"), "letters", "dead letters", [
  { title: "id", value: (l) => l.id },
  { title: "time", value: (l) => l.time, cell: (l) => clock(l.time) },
  { title: "component", value: (l) => l.component, cell: (l) =>
    [l.stream === "default" ? l.component : `${l.component}: ${l.stream}`, "text"] },
  { title: "message", value: (l) => JSON.stringify(l.message_id), cell: (l) => [JSON.stringify(l.message_id), "text"] },
  { title: "values", value: valuesOf, cell: (l) => [valuesOf(l), "text tuple"] },
  { title: "reason", value: (l) => l.reason, cell: (l) => [l.traceback
    ? html("details", {}, html("summary", {}, l.reason), html("pre", {}, `${l.failed_in}\n${l.traceback}`.trim()))
    : l.reason, "text"] },
  { title: "failed", value: (l) => l.failures },
  { title: "again", value: sentAgain, cell: (l) => [sentAgain(l), "text"] },
], (l) => l.id);

async function askForLetters() {
  try {
    const answer = await fetch("api/dead-letters", { cache: "no-store" });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text.trim());
    if (text === lettersShown) return; // what somebody has opened stays open
    lettersShown = text;
    fillLetters(JSON.parse(text).letters);
    setText(byId("letters-note"), "the newest first; fulmen dead-letters sends them again");
  } catch (error) {
    setText(byId("letters-note"), error.message);
  }
}

function showLetters(data) {
  const kept = data.dead_letters_kept;
  byId("letters-section").hidden = !kept;
  lettersPolls += 1;
  if (kept && (kept !== lettersAsked || lettersPolls % LETTERS_POLLS === 0)) askForLetters();
  lettersAsked = kept;
}
