"""Values of environment variables that a `config` names, and how they are kept secret.

What `config` has as `${NAME}` is replaced where the component runs, and noted here. From then on
this process shows the variable's name in place of its value: in every text that `errors` makes of
an author's exception or object, in every report of an error, in every entry of `logging`, and in
tracebacks of threads. A checkpoint has the text of the file, `${NAME}`, in place of what it stood
for.

Too short values are no secrets, but ports and switches, and would be found everywhere: those of
fewer than four characters, whole numbers of up to five digits, and words such as `true`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, SupportsIndex
from urllib.parse import quote, quote_plus, unquote

SHORTEST = 4
"""Characters of the shortest value that is kept secret."""
_WORD = 8
"""Characters below which a value is masked only as a whole word."""
_PLAIN = re.compile(r"[+-]?\d{1,5}|true|false|null|none|localhost", re.IGNORECASE)
_PASSWORDS = (
    re.compile(r"://[^/?#\s:]*:(\S+)@"),  # where it ends, clients do not agree: at most there
    re.compile(r"\bpassword\s*=\s*'((?:[^'\\]|\\.)+)'", re.IGNORECASE),
    re.compile(r"\bpassword\s*=\s*([^\s'&;,]+)", re.IGNORECASE),
)
"""Of a URL, and of a connection string in key and value."""
_URL_PASSWORD = re.compile(r"[\w+.-]+://[^/?#:]*:(.*)@", re.DOTALL)
_AUTHORITY = re.compile(r"[\w+.-]+://[^/?#]*")


@dataclass(frozen=True)
class _Known:
    """What is to be kept secret. Replaced as a whole, since threads read it.

    Attributes:
        shown: What is shown in place of each text.
        pattern: Finds such a text.
        needles: The same texts as bytes.
        texts: What each text of a file stands for, if there is a value in it.
    """

    shown: Mapping[str, str] = field(default_factory=dict)
    pattern: re.Pattern[str] | None = None
    needles: tuple[bytes, ...] = ()
    texts: Mapping[str, FromEnvironment] = field(default_factory=dict)


class FromEnvironment(str):
    """A text of `config` with the value of an environment variable in it.

    It is a `str`. Only a checkpoint treats it otherwise: it is written as what the file has.

    Attributes:
        template: The text in the file, such as `postgresql://app:${PASSWORD}@db/shop`.
    """

    template: str

    def __copy__(self) -> FromEnvironment:
        return self

    def __deepcopy__(self, memo: object) -> FromEnvironment:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[type[str], tuple[str]]:
        """Between processes it is like any text: where it arrives, the variable may be unset."""
        return str, (str(self),)


_known = _Known()
_lock = threading.Lock()


def note(template: str, text: str, values: Mapping[str, str]) -> FromEnvironment:
    """A text with values of the environment in it; from now on they are not shown.

    Args:
        template: What the file has.
        text: The same with the values.
        values: The values by the names of their variables.
    """
    made = FromEnvironment(text)
    made.template = template
    _keep(values.items(), {template: made})
    return made


def hide(name: str, texts: Iterable[str]) -> None:
    """From now on, texts that an environment variable has are not shown, but its name."""
    _keep([(name, text) for text in texts], {})


def _keep(values: Iterable[tuple[str, str]], texts: Mapping[str, FromEnvironment]) -> None:
    global _known  # one process has one environment
    with _lock:
        shown = dict(_known.shown)
        for name, value in values:
            shown |= dict.fromkeys(_variants(value), f"${{{name}}}")
        texts = {**_known.texts, **texts}
        if shown.keys() == _known.shown.keys():
            _known = _Known(shown, _known.pattern, _known.needles, texts)
        else:
            needles = tuple(one.encode(errors="surrogatepass") for one in shown)
            _known = _Known(shown, _pattern(shown), needles, texts)
            _mask_entries()
            _mask_uncaught()


def restored(template: str) -> str:
    """What a text of the file stands for in this process; the text itself if that is not known.

    It is what a checkpoint calls.
    """
    return _known.texts.get(template, template)


def masked(text: str) -> str:
    """The text with names of environment variables in place of their values."""
    known = _known
    if known.pattern is None:
        return text
    return known.pattern.sub(lambda match: known.shown[match[0]], text)


def are_in(data: bytes) -> bool:
    """Whether some bytes have a value in them that is to be kept secret."""
    return any(needle in data for needle in _known.needles)


def is_anything_secret() -> bool:
    """Whether there is a value in this process that is to be kept secret."""
    return bool(_known.needles)


def without_passwords(text: str) -> str:
    """The text with `***` in place of passwords that are in URLs and connection strings."""
    for pattern in _PASSWORDS:
        text = pattern.sub(_without_group, text)
    return text


def without(text: str, password: str) -> str:
    """The text with `***` in place of a password, or of what a client makes of it.

    One that is too short to be told from the words of the text is left: see `SHORTEST`.
    """
    pattern = _pattern(dict.fromkeys(_variants(password)))
    return pattern.sub("***", text) if pattern else text


def is_clear(url: str) -> bool:
    """Whether it is clear where the user and the password of a URL end.

    An @ behind the host may be one of the password's: behind a slash that is one of it, too.
    """
    authority = _AUTHORITY.match(url)
    return authority is None or "@" not in url[authority.end() :]


def _without_group(match: re.Match[str]) -> str:
    start, end = (at - match.start() for at in match.span(1))
    return f"{match[0][:start]}***{match[0][end:]}"


def _variants(value: str) -> Iterator[str]:
    """Texts that tell a value: in it, and as programs write it down."""
    in_one_line = ((part, " ".join(part.split())) for part in _parts(value))  # as a client may say
    for part in chain.from_iterable(in_one_line):
        if len(part) >= SHORTEST and not _PLAIN.fullmatch(part):
            yield part
            yield repr(part)[1:-1]
            yield json.dumps(part)[1:-1]
            yield json.dumps(part, ensure_ascii=False)[1:-1]
            whole = part.encode(
                errors="surrogatepass"
            )  # a file's text may have halves of characters
            yield from (quote(whole, safe=""), quote(whole), quote_plus(whole))


def _parts(value: str) -> Iterator[str]:
    yield value
    yield from (line for line in value.split("\n") if len(line) >= _WORD)  # such as of a key
    for pattern in (*_PASSWORDS, _URL_PASSWORD):
        for password in pattern.findall(value):
            # Clients do not agree which @ ends it.
            ends = [at for at, character in enumerate(password) if character == "@"]
            parts = (password, *(password[:end] for end in ends))
            for part in (*parts, re.sub(r"\\(.)", r"\1", password)):
                yield from (part, unquote(part))


def _pattern(texts: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted(texts, key=len, reverse=True)
    choices = [
        re.escape(text) if len(text) >= _WORD else rf"(?<!\w){re.escape(text)}(?!\w)"
        for text in longest_first
    ]
    return re.compile("|".join(choices)) if choices else None


def _mask_entries() -> None:
    """Have entries of `logging` masked, whoever makes and whoever writes them."""
    before = logging.getLogRecordFactory()
    if getattr(before, "masks", False):
        return

    def masked_entry(*args: Any, **kwargs: Any) -> logging.LogRecord:
        entry = before(*args, **kwargs)
        try:
            text = entry.getMessage()
        except Exception:  # noqa: BLE001 (arguments that do not fit, which `logging` would show)
            text, entry.msg, entry.args = "", f"{entry.msg!r} {entry.args!r}", ()
            text = entry.msg
        if (safe := masked(text)) != text:
            entry.msg, entry.args = safe, ()
        if entry.exc_info and entry.exc_info[0] is not None:
            stack = logging.Formatter().formatException(entry.exc_info)
            if (safe := masked(stack)) != stack:
                entry.exc_text = safe  # which formatters take in place of their own
        return entry

    masked_entry.masks = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(masked_entry)


def _mask_uncaught() -> None:
    """Have exceptions masked that end a thread, where Python itself would print them."""

    def end(kind: Any, error: Any, stack: Any, who: str = "") -> None:
        said = "".join(traceback.format_exception(kind, error, stack))
        sys.stderr.write(masked(f"{who}{said}"))

    def end_thread(ended: threading.ExceptHookArgs) -> None:
        if ended.exc_type is not SystemExit:
            name = "?" if ended.thread is None else ended.thread.name
            who = f"Exception in thread {name}:\n"
            end(ended.exc_type, ended.exc_value, ended.exc_traceback, who)

    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = end
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = end_thread
