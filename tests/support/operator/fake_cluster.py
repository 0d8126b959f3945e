"""An API server, kubelet and drivers as far as the operator meets them, without any waiting.

`FakeApi` keeps objects by their path and can be told to stop the caller after so many calls.
`FakeCluster` lets pods run: each `tick` they become what they would be some seconds later.
"""

import asyncio
import itertools
import json
import pickle
from datetime import UTC, datetime, timedelta

from fulmen.kube import contract
from fulmen.kube.contract.endings import Ended, ExitCode
from fulmen.kube.contract.reports import DriverPhase, Hosted, Report
from fulmen.kube.contract.revisions import Directive, Revision
from fulmen.kube.placing import planned
from fulmen_operator.cluster.access import Access
from fulmen_operator.cluster.api import KINDS, CallFailed, Form
from fulmen_operator.cluster.store import WatchCache
from fulmen_operator.controller.loop import (
    AGAIN_SECONDS,
    Again,
    DecisionDone,
    Memory,
    TopologyGone,
    reconcile,
)
from fulmen_operator.controller.watching import WATCHED
from fulmen_operator.model import Key, text_of
from fulmen_operator.settings import Settings
from support.cli.documents import word_count

NAMESPACE = "blue"
KEY = Key(NAMESPACE, "word-count")
PLURALS = {kind.plural for kind in KINDS.values()}


def copied(value):
    """A deep copy, in a fraction of the time."""
    return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


class Killed(Exception):
    """The operator was killed before this call."""


class FakeApi:
    """Objects by path.

    Attributes:
        objects: All there is.
        calls: How many calls were made: (method, path).
        contents: The names of objects that were listed one by one, not only their metadata.
        stop_after: After so many calls each further one kills the caller.
        refusals: Errors to raise, by the end of a path that is written to.
        on_write: Called after each call that may have changed something.
    """

    def __init__(self, clock):
        self.objects = {}
        self.calls = []
        self.contents = []
        self.stop_after = None
        self.refusals = {}
        self.on_write = lambda method, path: None
        self._clock = clock
        self._versions = itertools.count(1)

    def now(self):
        return self._clock()

    async def call(self, method, path, body=None, query=None, form=Form.WHOLE):
        if self.stop_after is not None and len(self.calls) >= self.stop_after:
            raise Killed(f"{method} {path}")
        self.calls.append((method, path))
        await asyncio.sleep(0)
        what = f"{method} {path}"
        for end, error in self.refusals.items():
            if method != "GET" and path.endswith(end):
                raise CallFailed(*error, what)
        body = json.loads(json.dumps(body))
        act = self._merge if form is Form.MERGE else getattr(self, f"_{method.lower()}")
        answer = act(path, body, query or {}, what)
        if form is Form.METADATA:
            items = answer["items"] or ()
            answer = {**answer, "items": [{"metadata": thing["metadata"]} for thing in items]}
        elif "fieldSelector" in (query or {}):
            self.contents.append(query["fieldSelector"].removeprefix("metadata.name="))
        if method != "GET":
            self.on_write(method, path)
        return copied(answer)

    def _get(self, path, body, query, what):
        if path.rsplit("/", 1)[1] not in PLURALS:
            return self._existing(path, what)
        name = query.get("fieldSelector", "").removeprefix("metadata.name=")
        found = [
            {key: value for key, value in thing.items() if key not in ("apiVersion", "kind")}
            for place, thing in self.objects.items()
            if _is_in(place, path)
            and name in ("", thing["metadata"]["name"])
            and query.get("labelSelector", "app") in {*thing["metadata"].get("labels", {}), "app"}
        ]
        metadata = {"resourceVersion": str(next(self._versions))}
        return {"items": found or None, "metadata": metadata}

    def _post(self, path, body, query, what):
        meta = body["metadata"]
        name = meta.get("name") or f"{meta['generateName']}{next(self._versions)}"
        place = f"{path}/{name}"
        if place in self.objects:
            raise CallFailed(409, "exists", what)
        return body if "dryRun" in query else self._store(place, body)

    def _merge(self, path, body, query, what):
        """Takes the gates of a pod away, or gives an object an owner or labels."""
        old = self._existing(path, what)
        if body["metadata"]["uid"] != old["metadata"]["uid"]:
            raise CallFailed(409, "another uid", what)
        if "labels" in body["metadata"]:
            labels = {**(old["metadata"].get("labels") or {}), **body["metadata"].pop("labels")}
            return self._store(path, {**old, "metadata": {**old["metadata"], "labels": labels}})
        if "ownerReferences" in body["metadata"]:
            return self._store(path, {**old, "metadata": {**old["metadata"], **body["metadata"]}})
        assert body["spec"] == {"schedulingGates": None}
        spec = {key: value for key, value in old["spec"].items() if key != "schedulingGates"}
        return self._store(path, {**old, "spec": spec})

    def _patch(self, path, body, query, what):
        if path.endswith("/status"):
            path = path.removesuffix("/status")
            old = self._existing(path, what)
            if body["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
                raise CallFailed(409, "changed meanwhile", what)
            return self._store(path, {**old, "status": body["status"]})
        old = self.objects.get(path)
        known = ("uid", "resourceVersion")
        if old is None or any(body["metadata"][k] != old["metadata"][k] for k in known):
            raise CallFailed(409, "changed meanwhile", what)
        return self._store(path, {**old, **body})

    def _delete(self, path, body, query, what):
        old = self._existing(path, what)
        if body["preconditions"]["uid"] != old["metadata"]["uid"]:
            raise CallFailed(409, "another uid", what)
        del self.objects[path]
        self.collect_garbage()
        return old

    def collect_garbage(self):
        """What is owned by what is gone goes; owners that a test has not made are left out."""
        there = {thing["metadata"]["uid"] for thing in self.objects.values()}
        for path, thing in list(self.objects.items()):
            owners = thing["metadata"].get("ownerReferences") or ()
            if path in self.objects and owners and not any(o["uid"] in there for o in owners):
                del self.objects[path]
                self.collect_garbage()

    def _existing(self, path, what):
        if path not in self.objects:
            raise CallFailed(404, "not found", what)
        return self.objects[path]

    def _store(self, path, thing):
        old = self.objects.get(path)
        meta = {**thing["metadata"]}
        meta["uid"] = old["metadata"]["uid"] if old else f"uid-{next(self._versions)}"
        made = old["metadata"]["creationTimestamp"] if old else text_of(self._clock())
        meta["creationTimestamp"] = made
        meta["resourceVersion"] = old["metadata"]["resourceVersion"] if old else "0"
        thing = {**thing, "metadata": meta}
        if thing != old:
            meta["resourceVersion"] = str(next(self._versions))
            self.objects[path] = thing
        return thing


class FakeCluster:
    """A cluster with one topology.

    Attributes:
        api: Its API server.
        now: Its time, which only `tick` and tests move.
        settings: The operator's.
        verdict: How preflights end: an exit code and a termination message.
        load: Called with the number of workers for the load that a driver reports.
    """

    def __init__(self, changes=None):
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.api = FakeApi(lambda: self.now)
        self.settings = Settings()
        self.verdict = self.worker_verdict = (0, Ended(reason="Valid", message="fine"))
        self.load = lambda workers: None
        self._memory = Memory()
        document = word_count({"metadata.namespace": NAMESPACE, **(changes or {})})
        document["metadata"]["generation"] = 1
        self.api._store(self._place("Topology", KEY.name), document)

    def copy(self):
        """Another cluster in the same state, with an operator that remembers nothing."""
        other = FakeCluster()
        other.api.objects = copied(self.api.objects)
        other.api._versions = itertools.count(next(self.api._versions) + 1000)
        other.now, other.verdict, other.settings = self.now, self.verdict, self.settings
        other.worker_verdict, other.load = self.worker_verdict, self.load
        return other

    def state(self):
        """All there is, as text."""
        return json.dumps(self.api.objects, sort_keys=True)

    def forget(self):
        """Another operator goes on, which remembers nothing."""
        self._memory = Memory()

    # ---- what a user does

    def change(self, changes):
        """Apply the topology anew, with other values."""
        document = word_count({"metadata.namespace": NAMESPACE, **changes})
        old = self.topology
        meta = {**old["metadata"], **document["metadata"]}
        meta["generation"] = old["metadata"]["generation"] + (document["spec"] != old["spec"])
        place = self._place("Topology", KEY.name)
        self.api._store(place, {**old, "metadata": meta, "spec": document["spec"]})

    # ---- what there is

    @property
    def topology(self):
        return self.api.objects[self._place("Topology", KEY.name)]

    @property
    def status(self):
        return self.topology.get("status", {})

    @property
    def revision(self):
        found = self.api.objects[self._place("ConfigMap", f"{KEY.name}-revision")]
        return Revision.from_json(found["data"]["revision.json"])

    @property
    def running(self):
        """The topology as its driver runs it."""
        return self.revision.running

    def condition(self, kind):
        return next(c for c in self.status["conditions"] if c["type"] == kind)

    def names(self, kind):
        place = self._place(kind, "")
        return sorted(
            path.removeprefix(place) for path in self.api.objects if path.startswith(place)
        )

    def events(self):
        place = self._place("Event", "")
        return [o["reason"] for path, o in self.api.objects.items() if path.startswith(place)]

    def pod(self, name):
        return self.api.objects[self._place("Pod", name)]

    def pods(self, component):
        place = self._place("Pod", "")
        return [
            pod
            for path, pod in self.api.objects.items()
            if path.startswith(place)
            and pod["metadata"]["labels"][contract.COMPONENT_LABEL] == component
        ]

    # ---- what happens by itself

    def reconcile(self, memory=None, api=None):
        """Let the operator look once; returns after how many seconds it wants to look again.

        Args:
            memory: What an earlier look has left to it.
            api: Its way to the API server.
        """
        access = self.access(api)
        step = reconcile(KEY, access, self.settings, memory or self._memory)
        match asyncio.run(step):
            case DecisionDone(again_in):
                return again_in
            case Again():
                return AGAIN_SECONDS
            case TopologyGone():
                return None

    def access(self, api=None):
        """An operator's, which has been told of all there is."""
        return Access(api or self.api, lambda: "secret", self.store())

    def reconcile_once_more(self):
        """Let the operator look; after a conflict it looks again, as its queue would have it."""
        if self.reconcile() == AGAIN_SECONDS:
            self.reconcile()

    def store(self):
        """What watches have told of all there is."""
        store = WatchCache()
        for kind in WATCHED:
            place = self._place(kind, "")
            for path, thing in self.api.objects.items():
                labels = thing["metadata"].get("labels") or {}
                if _is_in(path, place) and (
                    kind == "Topology" or contract.TOPOLOGY_LABEL in labels
                ):
                    store.put(kind, copied(thing))
        return store

    def settle(self, rounds=12):
        """Let the operator and the pods go on until nothing changes any more."""
        for _ in range(rounds):
            before = self.state()
            self.reconcile_once_more()
            self.tick()
            if self.state() == before:
                return
        raise AssertionError("it does not come to rest")

    def later(self, seconds):
        """Time passes."""
        self.now += timedelta(seconds=seconds)

    def tick(self):
        """Every pod becomes what it would be a while later."""
        for pod in self.pods(contract.DRIVER):
            if "schedulingGates" in pod["spec"]:
                continue
            if "status" not in pod:
                self.run(pod)
            elif pod["status"]["phase"] == "Running":
                self.drive(pod)
        for pod in self.pods(contract.PREFLIGHT):
            if "status" not in pod:
                self.validate(pod)

    def run(self, pod):
        """Its container runs, and it makes its workers."""
        ready = {"type": "Ready", "status": "True"}
        self.set_status(pod, {"phase": "Running", "conditions": [ready]})
        attempt = pod["metadata"]["labels"][contract.ATTEMPT_LABEL]
        spec = self.running.spec
        for number in range(0 if spec.is_single_pod else spec.workers):
            name = f"{KEY.name}-{attempt}-exec-{number}"
            worker = copied(self.revision.worker_pod)
            owner = {"kind": "Pod", **{k: pod["metadata"][k] for k in ("name", "uid")}}
            worker["metadata"] |= {"name": name, "ownerReferences": [owner]}
            status = {"phase": "Running", "conditions": [ready]}
            self.api._store(self._place("Pod", name), {**worker, "status": status})

    def drive(self, pod):
        """It does what its revision says, and reports that."""
        revision = self.revision
        if revision.directive is Directive.DRAIN:
            self.end(pod["metadata"]["name"], 0, Ended(reason="Drained", message="drained"))
            return
        if pod["metadata"]["annotations"]["fulmen.dev/input"] != revision.input_hash:
            return
        inactive = revision.directive is Directive.INACTIVE
        topology = self.running
        hosted = [
            Hosted(worker=h.worker, pod=f"{KEY.name}-exec-{h.worker}", executors=h.executors)
            for h in planned(topology, ())
        ]
        phase = DriverPhase.INACTIVE if inactive else DriverPhase.ACTIVE
        report = Report(
            phase=phase,
            generation=revision.generation,
            epoch=1,
            batch=7,
            committed=True,
            workers=tuple(hosted),
            tasks={component.name: component.tasks for component in topology.spec.components},
            load=self.load(topology.spec.workers),
        )
        self.say(pod, report)

    def say(self, pod, report):
        """A driver reports."""
        annotations = {**pod["metadata"]["annotations"], "fulmen.dev/report": report.to_json()}
        meta = {**pod["metadata"], "annotations": annotations}
        self.api._store(self._place("Pod", meta["name"]), {**pod, "metadata": meta})

    def validate(self, pod):
        """A preflight's containers run: the init container, and the other one if that was right."""
        firsts = []
        for container in pod["spec"].get("initContainers", ()):
            code, ended = self.worker_verdict
            firsts.append(self._ended(container, code, ended, "Error"))
            if code:
                self.set_status(pod, {"phase": "Failed", "initContainerStatuses": firsts})
                return
        code, ended = self.verdict
        self.end(pod["metadata"]["name"], code, ended, initContainerStatuses=firsts)

    def end(self, name, code, ended=None, why="Error", **status):
        """The container of a pod ends."""
        pod = self.pod(name)
        if code == ExitCode.TERMINATED:  # as a deletion ends it
            pod["metadata"]["deletionTimestamp"] = text_of(self.now)
        states = [self._ended(pod["spec"]["containers"][0], code, ended, why)]
        phase = "Failed" if code else "Succeeded"
        self.set_status(pod, {"phase": phase, "containerStatuses": states, **status})

    def _ended(self, container, code, ended, why):
        terminated = {"exitCode": code, "reason": why, "finishedAt": text_of(self.now)}
        terminated["message"] = ended.to_json() if ended else ""
        return {"name": container["name"], "state": {"terminated": terminated}}

    def set_status(self, pod, status):
        """The kubelet says how a pod is."""
        place = self._place("Pod", pod["metadata"]["name"])
        self.api._store(place, {**self.api.objects[place], "status": status})

    def remove(self, kind, name):
        """Somebody deletes an object."""
        del self.api.objects[self._place(kind, name)]
        self.api.collect_garbage()

    def _place(self, kind, name):
        return KINDS[kind].path(NAMESPACE) + f"/{name}"


def _is_in(path, place):
    """Whether an object is among those of a kind in a namespace, or in all."""
    folder = path.rsplit("/", 1)[0]
    everywhere, _, plural = place.rstrip("/").rpartition("/")
    return folder in (place.rstrip("/"), f"{everywhere}/namespaces/{NAMESPACE}/{plural}")
