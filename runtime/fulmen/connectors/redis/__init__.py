"""Redis: streams and lists as sources; sets, hashes, streams, lists and strings as a sink.

`options` has what a topology's file may say; `source` what both sources have in common,
`stream_spout` and `list_spout` the two; `commands` what is written for a row, `sink` writes it, by
what is in `scripts`. Uses `api`, `formats`, `templates` and `services.redis`. Used by topologies.
"""

import fulmen.services.redis  # noqa: F401 (says so if the client is missing)
from fulmen.connectors.redis.list_spout import RedisListSpout
from fulmen.connectors.redis.sink import RedisSink
from fulmen.connectors.redis.stream_spout import RedisStreamSpout

__all__ = ["RedisListSpout", "RedisSink", "RedisStreamSpout"]
