"""What is told of an exception that an author's code has raised."""

import pickle

import pytest

from fulmen import ServiceUnavailable
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.engine.tasks.author.errors import (
    ComponentFailed,
    Unavailable,
    author_traceback,
    may_pass,
    service_of,
    shortened,
)
from fulmen.errors import FulmenError
from fulmen.secrets import note

SECRET = "hunter2-of-mine"


@pytest.fixture
def secret():
    note("${PASSWORD_OF_MINE}", SECRET, {"PASSWORD_OF_MINE": SECRET})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("short", "short"),
        ("12345678", "12345678"),
        ("123456789", "1234 … 6789"),
        ("café", "café"),
        ("a\udc80", "a\\udc80"),
    ],
)
def test_of_a_long_text_the_ends_are_told_and_all_of_it_can_be_written(text, told):
    assert shortened(text, 8) == told
    told.encode()


class ServersError(Exception):
    """Of a client of some server."""


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionRefusedError("refused"), True),
        (TimeoutError("too late"), True),
        (ServersError("no leader"), True),
        (ServiceUnavailable("mq:5672", "refused"), True),
        (FileNotFoundError("model.bin"), False),
        (ValueError("no number"), False),
        (KeyError("host"), False),
        (RuntimeError("of Python itself"), False),
        (FulmenError("a wrong option"), False),
        (SystemExit(1), False),
    ],
)
def test_only_what_may_be_about_a_service_may_pass(error, passes):
    assert may_pass(error) is passes


def raised(function):
    with pytest.raises(BaseException) as info:  # noqa: PT011 (any)
        function()
    return info.value


def test_a_traceback_shows_the_authors_lines_and_masks_secrets(secret):
    def connect():
        raise ValueError(f"can't log in with {SECRET}")

    told = author_traceback(raised(connect))
    assert told.startswith("Traceback (most recent call last):\n")
    assert 'raise ValueError(f"can\'t log in with {SECRET}")' in told
    assert told.endswith("ValueError: can't log in with ${PASSWORD_OF_MINE}\n")


def test_frames_of_the_engine_are_no_part_of_it():
    code = compile("def call(f):\n    f()\n", "/site-packages/fulmen/engine/some.py", "exec")
    exec(code, engine := {})

    def author():
        raise ValueError("no")

    told = author_traceback(raised(lambda: engine["call"](author)))
    assert "in author" in told
    assert "some.py" not in told


def test_a_traceback_begins_with_the_innermost_cause():
    def save():
        try:
            raise ConnectionError("no route")
        except ConnectionError as error:
            raise RuntimeError("order 7 is not saved") from error

    told = author_traceback(raised(save))
    first, second = told.split("\nThe exception above led to the following one:\n\n")
    assert all(one.startswith("Traceback") for one in (first, second))
    assert first.endswith("\nConnectionError: no route\n")
    assert second.endswith("\nRuntimeError: order 7 is not saved\n")


def test_fulmens_own_refusal_needs_no_traceback_unless_an_authors_code_led_to_it():
    code = "from fulmen.errors import FulmenError\ndef refuse():\n    raise FulmenError('no')\n"
    exec(code, own := {"__name__": "fulmen.connectors.some"})
    error = raised(own["refuse"])
    assert "in refuse" in author_traceback(error)  # this file called it
    error.__traceback__ = error.__traceback__.tb_next.tb_next
    assert author_traceback(error) == ""


def test_the_service_that_is_away_is_named_without_secrets(secret):
    assert service_of(ServiceUnavailable(f"amqp://me:{SECRET}@mq", "refused")) == (
        "amqp://me:${PASSWORD_OF_MINE}@mq"
    )
    assert service_of(ConnectionError("refused")) == service_of("refused") == ""


@pytest.mark.parametrize("kind", [ComponentFailed, Unavailable])
def test_a_failure_names_component_and_task_in_another_process_too(kind):
    error = kind(ErrorReport("count", 7, "ValueError: no"))
    assert str(pickle.loads(pickle.dumps(error))) == "count, task 7: ValueError: no"
