"""The windows of a join: those that are where they are, and sessions.

`joined` is what both are. Uses `joins.side_rows`, `joins.row_log`, `windows.inputs` and
`windows.spans`.
"""

from fulmen.windows.joins.windows.fixed import JoinedFixedWindows
from fulmen.windows.joins.windows.joined import JoinedWindows
from fulmen.windows.joins.windows.on_disk import JoinedWindowsOnDisk
from fulmen.windows.joins.windows.sessions import JoinedSessions

__all__ = ["JoinedFixedWindows", "JoinedSessions", "JoinedWindows", "JoinedWindowsOnDisk"]
