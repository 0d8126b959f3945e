"""Stores that fail when told to, and a model of what a checkpoint should hold."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from obstore.store import MemoryStore

from fulmen.checkpoint import Store, Update, load_many, read_manifest
from fulmen.checkpoint.payloads import save
from fulmen.checkpoint.remote import RemoteBackend
from fulmen.errors import AlreadyExists


def memory_store(name="test"):
    """A store of its own, whatever others are called."""
    return Store(f"memory://{name}", RemoteBackend(f"memory://{name}", MemoryStore()))


class FakeClock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


# ---- a process that dies between two operations ------------------------------------------------


class Died(Exception):
    """Nothing in the code catches this, as nothing runs in a process that died."""


class MortalBackend:
    """Passes everything on until the operation number `dies_at`, and fails from then on.

    Args:
        backend: What is passed on to.
        dies_at: The first operation is 0; each key of a delete is one.
        done: Whether that operation itself still takes effect.
    """

    def __init__(self, backend, dies_at, done):
        self.backend = backend
        self.left = dies_at
        self.done = done

    def _step(self, operation):
        if self.left < 0:
            raise Died
        self.left -= 1
        if self.left < 0 and not self.done:
            raise Died
        result = operation()
        if self.left < 0:
            raise Died
        return result

    def put(self, key, data):
        self._step(lambda: self.backend.put(key, data))

    def get(self, key):
        return self._step(lambda: self.backend.get(key))

    def get_many(self, keys):
        return self._step(lambda: self.backend.get_many(keys))

    def list(self, prefix):
        return self._step(lambda: self.backend.list(prefix))

    def delete(self, keys):
        for key in keys:
            self._step(lambda key=key: self.backend.delete([key]))


def mortal(store, dies_at, done):
    return Store(store.uri, MortalBackend(store._backend, dies_at, done))


# ---- what a checkpoint should hold -------------------------------------------------------------


class Model:
    """The state after each commit, kept the plain way: everything in memory, copied each time."""

    def __init__(self):
        self.states = [{}]  # by commit number: task -> journal -> [(commit, payload)]
        self.acknowledged = 0  # the newest commit that a driver knows was made

    def apply(self, changes=(), removed=(), moves=()):
        """Add the state after one more commit.

        Args:
            changes: (task, journal, payload or None, keep_from) each.
            removed: Tasks that go first.
            moves: As for `links_of`.
        """
        number = len(self.states)
        state = {
            task: {journal: list(items) for journal, items in journals.items()}
            for task, journals in self.states[-1].items()
            if task not in removed
        }
        for task, journal, to_task, to_journal in moves:
            moved = self.states[-1].get(task, {}).get(journal, [])
            state.setdefault(to_task, {}).setdefault(to_journal, []).extend(moved)
        for task, journal, payload, keep_from in changes:
            items = state.get(task, {}).get(journal, [])
            items = [item for item in items if item[0] >= keep_from]
            if payload is not None:
                items.append((number, payload))
            state.setdefault(task, {})[journal] = items
        self.states.append(state)

    def payloads(self, number):
        """As `stored` gives them."""
        state = {
            task: {
                journal: [payload for _, payload in items]
                for journal, items in journals.items()
                if items
            }
            for task, journals in self.states[number].items()
        }
        return {task: journals for task, journals in state.items() if journals}


def saved(store, number, tag, changes):
    """What workers do with changes (as for `Model.apply`): the updates of the coming commit."""
    updates = {}
    for task, journal, payload, keep_from in changes:
        updates.setdefault(task, {})[journal] = (
            Update(None, None, keep_from)
            if payload is None
            else save(store, number, tag, task, journal, payload, keep_from)
        )
    return updates


def links_of(manifest, moves):
    """The links that append what a task's journal has to another one.

    Args:
        manifest: The state before.
        moves: (task, journal, its new task, its new journal) each.
    """
    links = {}
    for task, journal, to_task, to_journal in moves:
        if refs := manifest.tasks.get(task, {}).get(journal):
            links.setdefault(to_task, {}).setdefault(to_journal, []).extend(refs)
    return links


def stored(store, number):
    """All payloads of the state after a commit, read as a worker that restores reads them."""
    manifest = read_manifest(store, number)
    return load_many(store, manifest, manifest.tasks)


# ---- processes that race -----------------------------------------------------------------------


def race(uri, keys, me):
    """Run in a process of its own: put bytes of its own under each key; returns the keys won."""
    store = Store.open(uri)
    won = []
    for key in keys:
        try:
            store.put(key, f"{me} {key} ".encode() * 100)
        except AlreadyExists:
            continue
        won.append(key)
    return won


# ---- an S3 server that misbehaves when told to -------------------------------------------------


class FakeS3(ThreadingHTTPServer):
    """Knows conditional puts and gets. `faults` are used up by the coming puts, one each.

    A fault is a pair: whether the put takes effect, and the status to answer with; None closes the
    connection instead.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _FakeS3Handler)
        self.objects = {}
        self.faults = []
        self.get_faults = []
        self.requests = []
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class _FakeS3Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        server.requests.append("PUT")
        effect, status = server.faults.pop(0) if server.faults else (True, 200)
        with server.lock:
            if effect and self.headers["If-None-Match"] == "*" and self.path in server.objects:
                status = 412
            elif effect:
                server.objects[self.path] = data
        self._answer(status)

    def do_GET(self):
        self.server.requests.append("GET")
        data = self.server.objects.get(self.path)
        status = 404 if data is None else 200
        if self.server.get_faults:
            status = self.server.get_faults.pop(0)
        self._answer(status, b"<Code>NoSuchKey</Code>" if data is None else data)

    def _answer(self, status, body=b""):
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
