"""Methods of an author's class that can't be called as they will be."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from fulmen import api
from fulmen.errors import PASSED_ON

BASES = (
    api.Spout,
    api.ArrowSpout,
    api.Bolt,
    api.BasicBolt,
    api.ManyBolt,
    api.BatchBolt,
    api.ArrowBolt,
    api.Sink,
    api.CustomStreamGrouping,
)
ALSO: dict[str, tuple[str, ...]] = {"fail": ("msg_id",)}
"""Other arguments that a method may take: Storm's `fail` has no reason."""
ASYNC_BASES = (api.Bolt, api.BasicBolt)
MAY_BE_ASYNC = ("execute", "prepare", "cleanup")
"""Methods that bolts of `ASYNC_BASES` may write as `async def`."""
_IN_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
MAY_YIELD = ("choose_tasks",)
"""Methods whose results are iterated over, so that they may yield."""


def takes_reason(fail: Callable[..., Any]) -> bool:
    """Whether a spout's `fail` is called with the reason too. Storm's takes the message id alone.

    The reason is the second argument, if it is called `reason` or has no default. An argument with
    another name and a default, such as `delay=0.5`, is something else.
    """
    return all(_is_for_reason(fail, follow) for follow in (False, True))  # of a decorator, too


def _is_for_reason(fail: Callable[..., Any], is_unwrapped: bool) -> bool:
    try:
        signature = inspect.signature(fail, follow_wrapped=is_unwrapped)
        signature.bind(object(), "")
    except (TypeError, ValueError):
        return False
    second = [p for p in signature.parameters.values() if p.kind in _IN_PLACE][1:2]
    return not second or second[0].name == "reason" or second[0].default is second[0].empty


def mistaken_callbacks(instance: Any) -> Iterator[tuple[str, str]]:
    """Mistakes in the methods of an instance: (message, cure).

    Python finds such mistakes when it calls a method, once for each tuple; some of them never: the
    body of an `async def` does not run when it is called.
    """
    cls = type(instance)
    for name, base in _callbacks(cls).items():
        given = getattr(cls, name)
        if given is base:
            continue
        who = f"{cls.__module__}.{cls.__qualname__}.{name}"
        arguments = _arguments(base)
        is_async = inspect.iscoroutinefunction(given) or inspect.isasyncgenfunction(given)
        if inspect.iscoroutinefunction(given) and name in MAY_BE_ASYNC:
            by_list = name == "execute" and issubclass(cls, api.ManyBolt)
            is_async = by_list or not issubclass(cls, ASYNC_BASES)
        runs_nothing = inspect.isgeneratorfunction(given) and name not in MAY_YIELD
        if is_async or runs_nothing:
            what = "is async" if is_async else "has a yield"
            yield (
                f"{who} {what}, so a call of it would run nothing",
                f"Write def {name}({', '.join(('self', *arguments))}) without it.",
            )
            continue
        ways = (arguments, ALSO[name]) if name in ALSO else (arguments,)
        try:
            method = getattr(instance, name)
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (a property, which may need what `open` makes)
            continue
        if not any(_may_be_called(method, way) for way in ways):
            yield (
                f"{who} can't be called with {_listed(arguments)}",
                f"Write def {name}({', '.join(('self', *arguments))}).",
            )


def unlikely_callbacks(instance: Any) -> Iterator[tuple[str, str]]:
    """Methods that may be called otherwise than their author thinks: (message, cure)."""
    cls = type(instance)
    if not isinstance(instance, api.Spout):
        return
    try:
        fail = instance.fail
        parameters = inspect.signature(fail).parameters.values()
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (a property, or what is written in C)
        return
    second = [p for p in parameters if p.kind in _IN_PLACE][1:2]
    if second and not takes_reason(fail):
        name = second[0].name
        yield (
            f"{cls.__module__}.{cls.__qualname__}.fail is called without the reason: its argument"
            f" {name!r} has a default, and another name",
            f"Call it reason, or write def fail(self, msg_id, *, {name}=...) if it is none.",
        )


def _callbacks(cls: type) -> dict[str, Any]:
    """The methods that Fulmen calls, by name, as the class's bases have them."""
    bases = [base for base in reversed(cls.__mro__) if base in BASES]
    return {name: method for base in bases for name, method in _public_methods(base).items()}


@cache  # of BASES
def _public_methods(base: type) -> Mapping[str, Any]:
    methods = inspect.getmembers(base, inspect.isfunction)
    return {name: method for name, method in methods if not name.startswith("_")}


def _arguments(method: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(method).parameters)[1:]


def _may_be_called(method: Any, arguments: tuple[str, ...]) -> bool:
    try:
        inspect.signature(method, follow_wrapped=False).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # what is written in C does not always say what it takes
        return True
    return True


def _listed(arguments: tuple[str, ...]) -> str:
    return f"({', '.join(arguments)})" if arguments else "no arguments"
