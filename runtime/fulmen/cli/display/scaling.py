"""How many workers `spec.autoscale` has chosen, and why, as a sentence. Pure."""

from fulmen.cli.cluster.kubectl import Json
from fulmen.visible import visible


def scaling_sentence(topology: Json) -> str:
    """What the operator decided last, and what it thinks of that now; "" without `autoscale`."""
    found = topology.get("status", {}).get("autoscale")
    if not found:
        return ""
    count = found["workers"]
    parts = [f"autoscale: {count} worker{'' if count == 1 else 's'}"]
    parts += [f" since {found['since']}"] if found.get("since") else []
    parts += [f" ({found['lastChange']})"] if found.get("lastChange") else []
    parts.append(f"; now {found['reason']}")
    parts += [f": {found['message']}"] if found.get("message") else []
    return visible("".join(parts))
