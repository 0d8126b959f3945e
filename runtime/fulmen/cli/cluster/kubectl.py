"""The cluster, as `kubectl` reaches it, with its kubeconfigs, contexts and credentials."""

import io
import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Final
from urllib.parse import quote

import click
from click.shell_completion import CompletionItem

from fulmen.cli.bad_input import BadInput
from fulmen.errors import FulmenError
from fulmen.kube.contract import GROUP, PLURAL, TOPOLOGY_LABEL, VERSION
from fulmen.topology.problems import did_you_mean, there_are
from fulmen.topology.reading.yaml_limits import allow_deep_objects

Json = dict[str, Any]

REQUEST_SECONDS = 20
_RESOURCE = f"{PLURAL}.{GROUP}"
_NOISE = re.compile(r"[EWI]\d{4} |Warning: ")
"""How lines begin that kubectl logs besides its error."""
_NO_INPUT: Final[dict[str, Any]] = {"stdin": subprocess.DEVNULL}
_TOO_LARGE = "metadata.annotations: Too long"
_SERVER_SIDE = (
    " The code is too large for a plain `kubectl apply`, which notes all of it in an annotation:"
    " add --server-side here, and to `kubectl apply`."
)
_BAD_OBJECTS = (
    "is invalid:",
    "(BadRequest)",
    "no objects passed",
    "no matches for kind",
    "error parsing",
    "error validating",
    "unable to decode",
)
"""Texts of kubectl about objects that no cluster takes."""
_NOT_INSTALLED = (
    "the server doesn't have a resource type",
    f'no matches for kind "Topology" in version "{GROUP}/{VERSION}"',
)
_NO_ANSWER = (
    "Unable to connect to the server",
    "The connection to the server",
    "(ServerTimeout)",
    "(Timeout)",
    "Client.Timeout",
    "deadline exceeded",
)


_NOT_LOGGED_IN = "You must be logged in to the server"
_OR_TOKEN = (
    "Or the driver asks for its FULMEN_METRICS_TOKEN: set it in the environment of this command."
)


def _read(text: str) -> Any:
    """Parse kubectl's output. Objects of anybody may be among it."""
    allow_deep_objects()
    return json.loads(text)


class _NotFound(FulmenError):
    """The API server does not have what was asked for."""


class _Conflict(FulmenError):
    """An object is not what a request takes it for."""


class Replaced(BadInput):
    """A topology was deleted while a command looked after it."""


@dataclass(frozen=True)
class Kubectl:
    """Topologies of one namespace: by default that of the context, which is the current one."""

    namespace: str | None = None
    context: str | None = None

    @property
    def flags(self) -> list[str]:
        """The options that lead to this namespace, of kubectl and of `fulmen` alike."""
        options = {"--context": self.context, "--namespace": self.namespace}
        return [f"{option}={value}" for option, value in options.items() if value]

    def get(self, name: str) -> Json:
        """A topology. BadInput if there is none of that name."""
        return self._object(name, "get")

    def find(self, name: str) -> Json | None:
        """A topology; None if there is none of that name."""
        try:
            return self.get(name)
        except BadInput as error:
            if isinstance(error.__cause__, _NotFound):
                return None
            raise

    def dry_run(self, manifest: str, *how: str) -> Sequence[Json]:
        """The objects as they would be after a `kubectl apply`. BadInput if that would fail."""
        options = ["--dry-run=server", "-f", "-", "-o", "json"]
        try:
            found: Json = _read(self._run("apply", *how, *options, content=manifest))
        except FulmenError as error:
            words = str(error).removeprefix("kubectl: ")
            if not isinstance(error, BadInput) and any(bad in words for bad in _BAD_OBJECTS):
                cure = _SERVER_SIDE if _TOO_LARGE in words and not how else ""
                raise BadInput(f"the API server refuses it: {words}{cure}") from error
            raise
        return found["items"] if found["kind"] == "List" else [found]

    def again(self, topology: Json) -> Json:
        """A topology as it is now. Replaced if it is gone, or another one has its name."""
        name = topology["metadata"]["name"]
        try:
            found = self.get(name)
        except BadInput as error:
            if isinstance(error.__cause__, _NotFound):
                raise Replaced(str(error)) from error
            raise
        if found["metadata"]["uid"] != topology["metadata"]["uid"]:
            raise _another(name)
        return found

    def topologies(self, *where: str) -> Sequence[Json]:
        """List all topologies of the namespace; those of all with `--all-namespaces`."""
        return self.items_of("get", _RESOURCE, *where)

    def of(self, topology: Json) -> "Kubectl":
        """Copy for the namespace of a topology."""
        return Kubectl(topology["metadata"]["namespace"], self.context)

    def pods(self, topology: Json) -> Sequence[Json]:
        """List all pods of a topology: of its driver and workers, and of a preflight."""
        label = f"{TOPOLOGY_LABEL}={topology['metadata']['name']}"
        return self.of(topology).items_of("get", "pods", "--selector", label)

    def events(self, *selectors: str) -> Sequence[Json]:
        """The events of the namespace that all selectors hold for, such as `type=Warning`."""
        return self.items_of("get", "events", "--field-selector", ",".join(selectors))

    def patch(self, name: str, change: Mapping[str, Any] | Sequence[Json]) -> Json:
        """Change a topology, by a merge or by a JSON patch, done as a whole; gives the new one."""
        kind = "merge" if isinstance(change, Mapping) else "json"
        return self._object(name, "patch", f"--type={kind}", "-p", json.dumps(change))

    def delete(self, topology: Json) -> None:
        """Delete this very topology, without waiting for its pods. BadInput if it is gone."""
        metadata = topology["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        where = f"/apis/{GROUP}/{VERSION}/namespaces/{quote(namespace, '')}/{PLURAL}"
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": metadata["uid"]},
            "propagationPolicy": "Background",
        }
        path = f"{where}/{quote(name, '')}"
        try:
            self._run("delete", "--raw", path, "-f", "-", content=json.dumps(options))
        except _NotFound as error:
            raise BadInput(self._not_there(name)) from error
        except _Conflict as error:
            raise _another(name) from error

    def read_pod(self, namespace: str, pod: str, port: int, path: str) -> str:
        """Read from a pod over HTTP, through the API server's proxy, which shows no token."""
        where = f"/api/v1/namespaces/{quote(namespace, '')}/pods/{quote(pod, '')}:{port}/proxy"
        try:
            return self._run("get", "--raw", f"{where}/{path}")
        except FulmenError as error:
            if _NOT_LOGGED_IN in str(error):  # kubectl can't tell who has said so
                raise FulmenError(f"{error} {_OR_TOKEN}") from error
            raise

    def logs(self, pod: str, container: str, *options: str) -> str:
        """The logs of a container, with the time in front of each line."""
        where = [pod, "--container", container, "--timestamps"]
        return self._run("logs", *where, *options)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a kubectl that goes on, such as one that follows a log; the caller ends it.

        Its stdout has what it says on stderr, too, so that nobody has to read both.
        """
        command = ["kubectl", *self.flags, *arguments]
        try:
            process = subprocess.Popen(
                command,
                **_NO_INPUT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                bufsize=1,
            )
        except OSError as error:
            raise _no_kubectl(error) from error
        assert isinstance(process.stdout, io.TextIOWrapper)
        process.stdout.reconfigure(newline="\n")
        return process

    def items_of(self, *arguments: str) -> Sequence[Json]:
        """The objects of a list that a kubectl gives."""
        items: Sequence[Json] = _read(self._run(*arguments, "-o", "json"))["items"]
        return items

    def _object(self, name: str, verb: str, *arguments: str) -> Json:
        try:
            # In this form a name can't be taken for an option, nor an empty one for all of them.
            content: Json = _read(self._run(verb, f"{_RESOURCE}/{name}", *arguments, "-o", "json"))
        except _NotFound as error:
            raise BadInput(self._not_there(name)) from error
        return content

    def _not_there(self, name: str) -> str:
        try:
            others = self.topologies()
        except FulmenError:  # whoever may read one need not be allowed to list them
            return f"there is no topology {name!r}."
        where = f"namespace {self.namespace!r}" if self.namespace else "the context's namespace"
        message = f"there is no topology {name!r} in {where}."
        names = [other["metadata"]["name"] for other in others]
        if not names:
            return f"{message} There is none at all: name another namespace with --namespace."
        cure = did_you_mean(name, names) or there_are(names)
        return f"{message} {cure}"

    def _run(self, *arguments: str, content: str | None = None) -> str:
        command = ["kubectl", *self.flags, f"--request-timeout={REQUEST_SECONDS}s", *arguments]
        try:
            # What it asks for, such as a password, nobody would see: then it has to fail.
            given = {"input": content.encode()} if content is not None else _NO_INPUT
            done: subprocess.CompletedProcess[bytes]
            done = subprocess.run(command, capture_output=True, check=False, **given)
        except OSError as error:
            raise _no_kubectl(error) from error
        # Logs may have any bytes. As text of subprocess they would be cut at each `\r`.
        if done.returncode:
            raise error_of(done.stderr.decode(errors="replace"))
        return done.stdout.decode(errors="replace")


def _no_kubectl(error: OSError) -> BadInput:
    return BadInput(
        f"kubectl can't be run ({error.strerror}), but this command needs it to"
        " reach the cluster. Install it in a folder on PATH."
    )


def _another(name: str) -> Replaced:
    """The error if a topology was deleted and made again while the command watched it."""
    return Replaced(
        f"topology {name!r} was deleted meanwhile. Another one of that name was made since: it is"
        " left as it is."
    )


def error_of(stderr: str) -> FulmenError:
    """Turn the output of a kubectl that failed into an error."""
    lines = [line.strip() for line in stderr.splitlines() if not _NOISE.match(line)]
    text = " ".join(line for line in lines if line) or "it ended without a message"
    text = text if text.endswith((".", "?")) else f"{text}."
    if "(NotFound)" in text:
        return _NotFound(f"kubectl: {text}")
    if "(Conflict)" in text:
        return _Conflict(f"kubectl: {text}")
    if "(Forbidden)" in text or "(Unauthorized)" in text:
        return BadInput(f"the cluster does not allow you to do this: {text}")
    if any(words in text for words in _NOT_INSTALLED):
        return BadInput(
            "the cluster knows no topologies. Install Fulmen's chart there, or name another"
            " cluster with --context."
        )
    if any(words in text for words in _NO_ANSWER):
        return FulmenError(f"the cluster does not answer: {text}")
    return FulmenError(f"kubectl: {text}")


def cluster_command(command: Callable[..., None], short: str = "-n") -> Callable[..., None]:
    """--namespace and --context; the command gets `kubectl`. `short` as in kubectl; "": none."""
    names = [name for name in (short, "--namespace") if name]

    @click.option(*names, help="The topology's namespace. Default: that of the context.")
    @click.option("--context", help="The context of the kubeconfig. Default: the current one.")
    @wraps(command)
    def with_kubectl(namespace: str | None, context: str | None, **others: Any) -> None:
        command(kubectl=Kubectl(namespace, context), **others)

    return with_kubectl


cluster_command_without_short = partial(cluster_command, short="")
"""`cluster_command` for a command whose -n is something else."""


def _complete_name(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    kubectl = Kubectl(ctx.params.get("namespace"), ctx.params.get("context"))
    try:
        found = [topology["metadata"]["name"] for topology in kubectl.topologies()]
    except FulmenError:  # a shell that completes words has no place for it
        return []
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


topology_name = click.argument("name", shell_complete=_complete_name)
"""NAME, which a shell can complete."""
optional_topology_name = click.argument("name", required=False, shell_complete=_complete_name)
"""`topology_name`, if it may be left out."""
