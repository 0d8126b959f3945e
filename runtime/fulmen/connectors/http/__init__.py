"""HTTP: calls to endpoints, as a sink and to complete tuples.

`sink` calls an endpoint with rows, `lookup` asks one for each tuple, and `lookup_memory` what it
remembers. Below them are `asking`, the client, and what makes a request of a row: `filling` and
`json_template`. Uses `base`, `formats`, `templates` and `services.http`. Used by
topologies.
"""

import fulmen.services.http  # noqa: F401 (says so if the client is missing)
from fulmen.connectors.http.lookup import HttpLookup
from fulmen.connectors.http.sink import HttpSink

__all__ = ["HttpLookup", "HttpSink"]
