"""HTTP: calls to endpoints, as a sink and to complete tuples; and, in `served`, the other side.

`sink` calls an endpoint with rows, `lookup` asks one for each tuple, and `lookup_memory` what it
remembers. Below them are `asking`, the client, and what makes a request of a row: `filling` and
`json_template`. Uses `base`, `formats`, `templates` and `services.http`. Used by topologies.
"""

import fulmen.services.http.endpoint  # noqa: F401 (says so if the client is missing)
from fulmen.connectors.http.lookup import HttpLookup
from fulmen.connectors.http.served.call_bolts import CallBolt, Return, call_is_over
from fulmen.connectors.http.served.calls import CallSpout
from fulmen.connectors.http.served.spout import HttpSpout
from fulmen.connectors.http.sink import HttpSink

__all__ = [
    "CallBolt",
    "CallSpout",
    "HttpLookup",
    "HttpSink",
    "HttpSpout",
    "Return",
    "call_is_over",
]
