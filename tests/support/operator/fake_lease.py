"""An API server with one Lease, as several operators meet it."""

import asyncio

from fulmen_operator.cluster.api import KINDS, CallFailed, Form

NAMESPACE, NAME = "tools", "fulmen-operator"
LEASES = KINDS["Lease"].path(NAMESPACE)
EVENTS = KINDS["Event"].path(NAMESPACE)


class LeaseServer:
    """What all of them share.

    Attributes:
        lease: The Lease, which an operator has given back; None: there is none.
        events: What was told.
    """

    def __init__(self):
        self.lease = None
        self.events = []
        self._version = 0
        self._written({"metadata": {"name": NAME}, "spec": {"leaseTransitions": 3}}, {})

    def carry_out(self, method, path, body):
        match method, path:
            case "POST", _ if path == EVENTS:
                self.events.append(body)
                return body
            case "POST", _ if path == LEASES:
                if self.lease is not None:
                    raise CallFailed(409, "exists", path)
                return self._written(body, {})
        assert path == f"{LEASES}/{NAME}"
        if self.lease is None:
            raise CallFailed(404, "not found", path)
        if method == "GET":
            return self.lease
        assert method == "PATCH"
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise CallFailed(409, "changed meanwhile", path)
        return self._written(body, self.lease["spec"])

    @property
    def holder(self):
        return self.lease["spec"].get("holderIdentity")

    def _written(self, body, old):
        self._version += 1
        spec = {key: value for key, value in {**old, **body["spec"]}.items() if value is not None}
        uid = f"uid-{self._version}" if self.lease is None else self.lease["metadata"]["uid"]
        metadata = {**body["metadata"], "uid": uid, "resourceVersion": str(self._version)}
        self.lease = {**body, "metadata": metadata, "spec": spec}
        return self.lease


class Connection:
    """One operator's way to it.

    Attributes:
        is_up: Set while calls arrive; else they hang.
        refusal: The error that each call gets instead; None: none.
        calls: What was asked for.
    """

    def __init__(self, server):
        self._server = server
        self.is_up = asyncio.Event()
        self.is_up.set()
        self.refusal = None
        self.calls = []

    async def call(self, method, path, body=None, query=None, form=Form.WHOLE):
        self.calls.append((method, path))
        await self.is_up.wait()
        await asyncio.sleep(0.01)
        if self.refusal is not None:
            raise CallFailed(*self.refusal, f"{method} {path}")
        return self._server.carry_out(method, path, body)
