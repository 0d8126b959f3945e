"""What is told of exceptions that came of others."""

import asyncio

import pytest

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.causes import MOST
from fulmen.errors import FulmenError, error_text


def raised(code):
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        code()
    return caught.value


def explicit():
    raise RuntimeError("order 7 is not saved") from ConnectionError("no route")


def implicit():
    try:
        {}["price"]
    except KeyError:
        raise ValueError("no such product")  # noqa: B904


def suppressed():
    try:
        {}["price"]
    except KeyError:
        raise ValueError("no such product") from None


def noted():
    error = ValueError("no such product")
    error.add_note("of order 7")
    error.add_note("seen twice")
    raise error


def chained():
    try:
        explicit()
    except RuntimeError as error:
        raise ServiceUnavailable("the shop", "it is closed") from error


def told_before():
    try:
        {}["price"]
    except KeyError as error:
        raise ValueError(f"a row without {error_text(error)}") from error


def grouped():
    async def fail(error):
        raise error

    async def all_of_them():
        async with asyncio.TaskGroup() as group:
            group.create_task(fail(KeyError("price")))
            group.create_task(fail(OSError("no route")))

    asyncio.run(all_of_them())


def deep():
    error = None
    for n in range(100):
        made = ValueError(f"no {n}")
        made.__cause__, error = error, made
    raise error


def circle():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


GROUP = "unhandled errors in a TaskGroup (2 sub-exceptions)"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (explicit, "ConnectionError: no route, hence RuntimeError: order 7 is not saved"),
        (implicit, "KeyError: 'price', hence ValueError: no such product"),
        (suppressed, "ValueError: no such product"),
        (noted, "ValueError: no such product (of order 7; seen twice)"),
        (
            chained,
            "ConnectionError: no route, hence RuntimeError: order 7 is not saved, hence"
            " ServiceUnavailable: the shop is away: it is closed",
        ),
        (told_before, "ValueError: a row without KeyError: 'price'"),
        (grouped, f"KeyError: 'price', hence OSError: no route, hence ExceptionGroup: {GROUP}"),
        (circle, "ValueError: second, hence ValueError: first"),
    ],
)
def test_the_innermost_cause_is_told_first(code, text):
    assert error_text(raised(code)) == text


def test_of_many_causes_the_innermost_and_the_outermost_are_told():
    told = error_text(raised(deep)).split(", hence ")
    assert len(told) == MOST + 1
    assert [told[0], told[-1]] == ["ValueError: no 0", "ValueError: no 99"]


def test_the_text_of_an_error_of_fulmens_own_is_complete():
    own = {"FulmenError": FulmenError, "explicit": explicit, "__name__": "fulmen.connectors.shop"}
    code = (
        "def refuse():\n try: explicit()\n"
        " except RuntimeError as e: raise FulmenError('it is closed') from e\n"
    )
    exec(code, own)
    assert error_text(raised(own["refuse"])) == "FulmenError: it is closed"


def test_what_fulmen_was_handling_is_no_cause():
    own = {"execute": lambda: int("x"), "__name__": "fulmen.engine.tasks.call"}
    exec("def call():\n try: {}['ours']\n except KeyError: execute()\n", own)
    assert error_text(raised(own["call"])).startswith("ValueError: invalid literal")
