// What a transactional topology has in place of trees.

const PHASES = [["processing", "var(--accent)"], ["processed", "var(--edge)"], ["committing", "var(--second)"]];
const ENDED_BADLY = ["failed", "lost", "given_up"];
const words = (name) => name.replace("_", " ");
const activeOf = ({ active }) => Object.values(active).reduce((sum, n) => sum + n, 0);

function transactionTiles({ transactions: all, complete_latency_ms: latency, batches }, executed) {
  const { attempts } = all;
  return [
    ["committed/s", rate(all.committed_per_second)],
    ["executed/s", rate(executed)],
    ["latency p50", millis(latency.p50)],
    ["latency p99", millis(latency.p99)],
    ["committed txid", large(all.committed_txid)],
    ["active", large(activeOf(all))],
    ["lag", all.lag == null ? "–" : large(all.lag)],
    ["failed", large(attempts.failed), attempts.failed],
    ["cascaded", large(attempts.cascaded)],
    ["lost", large(attempts.lost), attempts.lost],
    ["given up", large(attempts.given_up), attempts.given_up],
    ["batches", large(batches.count)],
    ["failed attempts", large(batches.failed_attempts), batches.failed_attempts],
  ];
}

const fillTransactions = sortable(byId("transactions-table"), "transactions", "attempts of transactions, active ones first", [
  { title: "txid", value: (t) => t.txid, cell: (t) => String(t.txid) },
  { title: "attempt", value: (t) => t.attempt, cell: (t) => String(t.attempt) },
  { title: "phase", value: (t) => t.phase, cell: (t) => t.phase },
  { title: "outcome", value: (t) => t.outcome ?? "",
    cell: (t) => [t.outcome ? words(t.outcome) : "active", ENDED_BADLY.includes(t.outcome) ? "bad" : ""] },
  ...PHASES.map(([phase]) => ({ title: `in ${phase}`, value: (t) => t.phases_ms[phase],
    cell: (t) => millis(t.phases_ms[phase]) })),
  { title: "reason", value: (t) => t.reason, cell: (t) => [t.reason, "text"] },
], (t) => `${t.txid}:${t.attempt}`);

const fillGivenUp = sortable(byId("given-up-table"), "given-up", "transactions that were given up", [
  { title: "txid", value: (t) => t.txid, cell: (t) => String(t.txid) },
  { title: "failures", value: (t) => t.failures },
  { title: "metadata", value: (t) => t.metadata, cell: (t) => [t.metadata, "text"] },
  { title: "reason", value: (t) => t.reason, cell: (t) => [t.reason, "text"] },
], (t) => t.txid);

function showTransactions({ transactions: all }) {
  byId("transactions-section").hidden = all == null;
  byId("ackers-section").hidden = all != null;
  if (all == null) return;
  const times = PHASES.map(([phase, colour]) => ({ phase, colour, ms: all.phases_ms[phase] }));
  setText(byId("transactions-note"), "in the mean: " + times.map(({ phase, ms }) => `${phase} ${millis(ms)}`).join(", ") +
    `, complete ${millis(all.phases_ms.complete)}`);
  keyed(byId("transaction-parts"), times, (t) => t.phase, ({ colour }) => {
    const made = html("div");
    made.style.background = colour;
    return made;
  }, (part, { ms }) => { part.style.flexGrow = ms ?? 0; });
  setText(byId("head-failure"), all.head || all.last_failure);
  fillTransactions(all.recent);
  byId("given-up-part").hidden = !all.given_up.length;
  fillGivenUp(all.given_up);
}
