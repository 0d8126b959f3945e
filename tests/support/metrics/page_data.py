"""The JSON of a topology of any size that never ran, and a server that shows it on the page."""

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

from fulmen.metrics.page import Page

LONG = "a-component-with-a-name-that-tells-the-whole-story-of-what-it-does-for-the-"
LONG_ERROR = "execute: ValueError: " + "unbreakable" * 40 + " and words " * 60
RESULTS = dict.fromkeys(("acked", "failed", "timed_out", "pending", "resting"), 123_456)
RESULTS |= {"replayed": 14, "dead_lettered": 1}
HOST = "word-count-worker-with-a-rather-long-name-of-its-own-0"


def name_of(number, is_long):
    return f"{LONG}{number:02}" if is_long else f"part-{number}"


def graph(size):
    """(from, to) of each edge: a fan, its chains and a join, with edges over several layers."""
    width = max(1, min(6, size // 5))
    pairs = {(0, n) for n in range(1, min(size, width + 1))}
    pairs |= {(n - width, n) for n in range(width + 1, size)}
    pairs |= {(n - 2 * width - 1, n) for n in range(2 * width + 2, size, 3)}
    pairs |= {(0, size - 1)} if size > 2 else set()
    return sorted(pairs)


def time(number, is_long):
    """Of some components."""
    if number > 4:
        return None
    name = name_of(0, is_long)
    return {
        "watermark": 1_714_564_800.125,
        "behind_seconds": 1234.5,
        "held_by": {
            "component": name,
            "part": f"part /data/{name}.log",
            "newest": 1_714_564_900.0,
            "silent_seconds": 300.0,
        },
        "timers": 1_234_567,
        "due": 1_714_565_400.0,
        "late": {"unusable": 12, "ahead": 3, "ended": 123_456},
        "why": f"'{name_of(number, is_long)}' has something due at 2024-05-01 12:10:00 UTC: the"
        f" watermark is 2024-05-01 12:00:00.125 UTC, held by part /data/{name}.log of '{name}'",
        "is_stuck": number == 3,
    }


def component(number, is_long):
    name, is_spout = name_of(number, is_long), number == 0
    return {
        "name": name,
        "kind": "spout" if is_spout else "bolt",
        "tasks": 4,
        "executors": 2,
        **dict.fromkeys(("emitted", "transferred"), 123_456_789 * (number + 1)),
        **dict.fromkeys(("executed", "acked"), 0 if is_spout else 987_654_321),
        "failed": number,
        "left_out": 0,
        **{f"{what}_per_second": 12_345.67 for what in ("emitted", "transferred", "executed")},
        **{f"{what}_per_second": 12_345.67 for what in ("acked", "failed")},
        "capacity": None if is_spout else (number % 10) / 9,
        "execute_ms": None if is_spout else 0.0123,
        "process_ms": None if is_spout else 123.4,
        "complete_ms": 1234.5 if is_spout else None,
        "pending": 5000 if is_spout else None,
        "results": RESULTS if number == 2 else None,
        "lag": {"messages": 1_234_567, "seconds": 12.5} if is_spout else None,
        "time": time(number, is_long),
        "metrics": {
            "rows": 1234 * number,
            f'requests{{target="{LONG if is_long else "a"}"}}': 0.5,
            "size_bytes": {"count": 12, "sum": 345.6, "buckets": {"10.0": 3, "+Inf": 12}},
        }
        if number
        else {},
        "state_keys": 0 if is_spout else 1_234_567,
        "state_bytes": 0 if is_spout else 123_456_789,
        "errors": number,
        "unread": {},
        "busiest_task": {"task": number * 4 + 2, "share": 0.25 if number % 2 else 0.73},
        "outputs": [{"stream": "default", "emitted": 123, "transferred": 456}],
        "steps": [],
        "inputs": []
        if is_spout
        else [
            {
                "from": f"{name_of(0, is_long)}:default",
                "left_out": 4,
                "executed": 1,
                "acked": 2,
                "failed": 3,
                "execute_ms": 0.1,
                "process_ms": None,
            }
        ],
    }


def task(number):
    return {
        "task": number,
        "worker": number % 3,
        "executor": number,
        "emitted": number,
        "executed": 100 - number,
        "failed": 0,
        "emitted_per_second": 1.5,
        "executed_per_second": number / 7,
        "share": number / 10,
        "busy": 0.5,
        "pending": None,
    }


def worker(number, is_long, size):
    return {
        "worker": number,
        "present": number != 1,
        "busy": number / 3,
        "run_delay": number / 5,
        "host": HOST if is_long else "host",
        "pod": HOST if is_long else None,
        "slot": number if is_long else None,
        "pid": 4_194_304,
        "memory_bytes": 1_234_567_890,
        "executor_count": 30,
        "executors": [
            {"component": name_of(n % size, is_long), "first": n, "last": n + 1, "capacity": 0.5}
            for n in range(20)
        ],
    }


def acker(number):
    streams = ("__ack_init", "__ack_ack", "__ack_fail", "__ack_reset_timeout")
    return {
        "task": number,
        "worker": 0,
        "pending": 1000,
        "executed_per_second": 1234.5,
        "executed": dict.fromkeys(streams, 123_456_789),
        "acked": 1,
        "failed": 0,
    }


def batches(size, is_long):
    names = [name_of(n, is_long) for n in range(size)]
    return {
        "count": 12345,
        "per_second": 1.5,
        "failed_attempts": 3,
        "last_failure": LONG_ERROR if is_long else "a worker was lost",
        "phases_ms": {"run": 900.0, "commit": 80.0, "wait": 20.0},
        "stages": [
            {"stage": 0, "components": names[: size // 2 + 1], "ms": 500.0, "worker_ms": 250.0},
            {"stage": 1, "components": names[size // 2 + 1 :], "ms": 300.0, "worker_ms": 290.0},
        ],
        "permits": {f"{name}-source": 1_234_567 for name in names[:6]},
        "checkpoint_bytes": 123_456_789_012,
        "checkpoint_bytes_per_second": 1e6,
    }


def error(number, name, is_long):
    return {
        "component": name,
        "task": number,
        "message": f"{LONG_ERROR if is_long else 'KeyError: 1'} {number}",
        "traceback": f"Traceback:\n  {LONG_ERROR}\nKeyError: {number}",
        "count": 10 - number,
        "first": 1_700_000_000.5,
        "time": 1_700_000_100.5 + number,
    }


def point(number, step):
    times = {"number": number, "uptime": float(step * number)}
    rates = {
        "executed": 1e5 * (number % 7),
        "acked": 5e4,
        "committed": 2.5,
        "failed": 0.0,
        "pending": 100,
    }
    return {**times, **rates, "p50": 100.0 + number, "p99": 2000.0 + number}


def attempt(number, is_long):
    """Active ones come first."""
    phases = ("processing", "processed", "committing")
    outcomes = (None, None, None, "committed", "failed", "cascaded", "lost", "given_up")
    reason = LONG_ERROR if is_long else f"'part-1', task {number}: KeyError: 1"
    return {
        "txid": 1_234_567 - number,
        "attempt": (3 << 32) + number,
        "phase": phases[number % 3],
        "outcome": outcomes[number % 8],
        "phases_ms": dict(zip(phases, (123.4, 5678.9, None), strict=True)),
        "reason": "" if number % 8 < 4 else reason,
    }


def transactions(is_long):
    reason = LONG_ERROR if is_long else "KeyError: 1"
    times = {"processing": 120.0, "processed": 60.0, "committing": 20.0, "complete": 200.0}
    attempts = ("committed", "failed", "cascaded", "lost", "given_up")
    given_up = {"metadata": f"metadata {LONG}", "failures": 12, "reason": reason}
    return {
        "committed_txid": 123_456_789,
        "committed_per_second": 4.7,
        "active": {"processing": 10, "processed": 20, "committing": 1},
        "attempts": dict.fromkeys(attempts, 123_456_789),
        "phases_ms": times,
        "lag": 9_876_543_210,
        "head_failures": 12,
        "head": f"transaction 8 has failed 12 times, and holds up all behind it: {reason}",
        "last_failure": f"transaction 7 failed: {reason}",
        "recent": [attempt(n, is_long) for n in range(40)],
        "given_up": [{"txid": 1_234_000 + n, **given_up} for n in range(3)],
    }


def away(component, is_long):
    service = f"PostgreSQL at {HOST if is_long else 'db'}:5432"
    reason = LONG_ERROR if is_long else "connection refused"
    text = f"{component!r} waits for {service} since 2023-11-14 22:13:20 UTC: {reason}"
    return {"kind": "away", "component": component, "since": 1_700_000_000.5, "sentence": text}


def hold(component, is_long):
    reason = LONG_ERROR if is_long else "10,000 rows wait"
    text = f"spouts rest, because {component!r} holds them: {reason}"
    return {"kind": "hold", "component": component, "since": None, "sentence": text}


def topology_json(size, is_long=False, tasks_of="", step=1, is_transactional=False):
    """What a driver would say of `size` components, with long names and long errors or short."""
    edges = [
        {
            "from": name_of(a, is_long),
            "stream": "a-stream-of-its-own" if is_long else "default",
            "to": name_of(b, is_long),
            "grouping": "local-or-shuffle",
            "fields": ["some-field", "another-field"] if is_long else [],
            "executed": 1000 * b,
            "executed_per_second": 1000.5 * b,
        }
        for a, b in graph(size)
    ]
    trees = dict.fromkeys(("acked", "pending", "replayed", "failed", "timed_out"), 123_456_789)
    return {
        "name": f"{LONG}topology" if is_long else "topology",
        "state": "Active",
        "active": True,
        "uptime_seconds": 100_000.5,
        "message_timeout_seconds": 30.0,
        "trees": {**trees, "dead_lettered": 12, "dropped": 0},
        "dead_letters_kept": 0,
        "transactions": transactions(is_long) if is_transactional else None,
        "waits": [away(name_of(1, is_long), is_long), hold(name_of(2, is_long), is_long)],
        "kept_state": {},
        "acked_per_second": 1234.5,
        "complete_latency_ms": {"p50": 123.4, "p99": 4567.8},
        "components": [component(n, is_long) for n in range(size)],
        "edges": edges,
        "ackers": [acker(n) for n in range(3)],
        "tasks_of": tasks_of,
        "tasks": [task(n) for n in range(1, 5)] if tasks_of else [],
        "worker_counts": {"wanted": 3, "present": 2},
        "workers": [worker(n, is_long, size) for n in range(3)],
        "batches": batches(size, is_long),
        "errors": [error(n, name_of(0, is_long), is_long) for n in range(4)],
        "failures": [{"component": name_of(0, is_long), "count": 7, "example": "as it was told"}],
        "history_step": step,
        "history": [point(n, step) for n in range(300)],
    }


MEASURES = Path(__file__).with_name("page_measures.js").read_text(encoding="utf-8")
FRAMES = """<!DOCTYPE html><html><head><meta name="color-scheme" content="light dark"></head><body>
<script>
const widths = %s, found = {};
for (const width of widths) {
  const frame = document.createElement("iframe");
  Object.assign(frame, { width, height: 900, src: "page#%s" });
  document.body.append(frame);
}
const look = () => {
  for (const frame of document.querySelectorAll("iframe")) {
    const told = frame.contentDocument?.getElementById("told");
    if (told) found[frame.width] = JSON.parse(told.textContent);
  }
  if (Object.keys(found).length < widths.length) return setTimeout(look, 50);
  const told = document.createElement("pre");
  told.id = "told";
  told.textContent = JSON.stringify(found);
  document.body.append(told);
};
look();
</script></body></html>"""
"""The page in windows of several widths."""


def autoscale(is_long):
    """What the server adds to it."""
    return {
        "workers": 3,
        "since": "2026-11-20T10:00:00Z",
        "last_change": "spec.workers is 3",
        "reason": "TooFew",
        "message": LONG if is_long else "batches take long",
    }


@contextmanager
def served(act="measured", widths=(), **options):
    """The address of the page with such a topology; its element `told` has what `act` returned.

    Args:
        act: JavaScript: a function that is called when figures are shown.
        widths: Show the page in frames of these widths, and tell what each of them returned.
        options: Of `topology_json`.
    """
    script = f"<script>{MEASURES}\nwhenLive({act});</script></body>".encode()
    html = Page.read().html.replace(b"</body>", script)
    selected = name_of(options["size"] - 1, options.get("is_long", False))
    frames = (FRAMES % (json.dumps(list(widths)), selected)).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            url = urlsplit(self.path)
            if url.path == "/api/topology":
                asked = {name: values[-1] for name, values in parse_qs(url.query).items()}
                step, of = int(asked.get("step", 1)), asked.get("tasks", "")
                shown = topology_json(**options, tasks_of=of, step=step)
                shown["autoscale"] = autoscale(options.get("is_long", False))
                self.answer(json.dumps(shown).encode(), "application/json")
            elif url.path in ("/", "/page"):
                body = frames if widths and url.path == "/" else html
                self.answer(body, "text/html; charset=utf-8")
            else:
                self.send_error(404)

        def answer(self, body, kind):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()
