"""Makes URLs and headers of rows: whatever a value is, it changes no other part of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fulmen.connectors.formats import Malformed, checked_text
from fulmen.connectors.http.request_options import checked_header
from fulmen.connectors.templates import filler, has_fields

MOST_URL_BYTES = 8192


def url_filler(template: str, fields: Sequence[str]) -> Callable[[Sequence[Any]], str]:
    """A function that makes the URL for a row. It raises Malformed for rows that have none.

    Values are escaped. One that is empty, `.` or `..` is refused in the path: it would lead to
    another address.

    Raises:
        Malformed: There is no field of a name in braces.
    """
    path, mark, query = template.partition("?")
    in_path, in_query = filler(path, fields, _in_path), filler(query, fields, _quoted)

    def fill(values: Sequence[Any]) -> str:
        url = f"{in_path(values)}{mark}{in_query(values)}"
        if len(url) > MOST_URL_BYTES:
            raise Malformed(f"the URL has more than {MOST_URL_BYTES} bytes")
        return url

    return fill


def _quoted(text: str) -> str:
    return quote(checked_text(text), safe="")


def _in_path(text: str) -> str:
    if text in ("", ".", ".."):
        raise Malformed(f"{text!r} can't be a part of a URL's path")
    return _quoted(text)


def headers_filler(
    templates: Mapping[str, str], fields: Sequence[str]
) -> Callable[[Sequence[Any]], Mapping[str, str]]:
    """A function that makes the headers for a row. It raises Malformed for values that are none.

    Raises:
        Malformed: There is no field of a name in braces.
    """
    fillers = {name: filler(template, fields) for name, template in templates.items()}
    if not any(map(has_fields, templates.values())):
        same = {name: fill(()) for name, fill in fillers.items()}
        return lambda _values: same

    def fill_all(values: Sequence[Any]) -> Mapping[str, str]:
        made = {}
        for name, fill in fillers.items():
            text = checked_text(fill(values))
            try:
                made[name] = checked_header(name, text)
            except ValueError as error:
                raise Malformed(str(error)) from None
        return made

    return fill_all
