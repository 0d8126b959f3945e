"""Files and objects in buckets: spouts by position, sinks that write them whole, lookups in tables.

Uses `formats`, obstore for buckets of S3, Google Cloud
Storage and Azure, and pyarrow for Parquet. Topologies name the classes: `class:
fulmen.connectors.files.FileSpout`.
"""

from fulmen.connectors.files.lookup import FileLookup
from fulmen.connectors.files.reading.line_spout import FileSpout
from fulmen.connectors.files.reading.parquet_spout import ParquetSpout
from fulmen.connectors.files.sinks import FileSink, RollingFileSink
from fulmen.connectors.files.transactional_spouts import (
    OpaqueTransactionalFileSpout,
    TransactionalFileSpout,
)

__all__ = [
    "FileLookup",
    "FileSink",
    "FileSpout",
    "OpaqueTransactionalFileSpout",
    "ParquetSpout",
    "RollingFileSink",
    "TransactionalFileSpout",
]
