"""What random histories of attempts leave."""

from __future__ import annotations

from collections.abc import Sequence

from fulmen.api.transactions import TransactionAttempt
from fulmen.transactional.conformance.checks import (
    RULES,
    TASKS,
    Case,
    Make,
    Random,
    at,
    context_of,
    holds,
    refuses,
)
from fulmen.transactional.errors import StaleAttempt
from fulmen.transactional.maps import TransactionalMap
from fulmen.transactional.rules import Rule


def random_histories(make: Make, rng: Random) -> None:
    """Tasks in turn, replays, attempts that end in the middle, and stale ones.

    The value of a key must be what the attempts give that completed, in the order of their
    transactions, and nothing else.
    """
    for number in range(8):
        for rule in RULES:
            _history(make, f"history_{rule}_{number}", rule, rng)


def _history(make: Make, name: str, rule: Rule, rng: Random) -> None:
    keys = [[f"{task}-{n}" for n in range(4)] for task in range(TASKS)]
    expected: dict[str, str] = {}
    written: list[tuple[int, TransactionAttempt]] = []
    views = [make(name, context_of(task), rule) for task in range(TASKS)]
    attempt = 0

    def partials(label: str) -> list[dict[str, str]]:
        return [{key: f"{label};" for key in own if rng.random() < 0.4} for own in keys]

    for txid in range(1, 8):
        same = partials(f"{txid}")
        for is_last in [False] * rng.randint(0, 2) + [True]:
            attempt += rng.randint(1, 3)
            now = at(txid, attempt)
            sent = same if rule == "transactional" else partials(f"{txid}.{attempt}")
            for task in range(TASKS):
                if is_last or rng.random() < 0.5:
                    if rng.random() < 0.3:
                        views[task] = make(name, context_of(task), rule)
                    views[task].update(now, sent[task], append_text)
                    written.append((task, now))
            _late(views, written, keys, rng)
        for part in sent:
            for key, value in part.items():
                expected[key] = expected.get(key, "") + value
        all_keys = [key for own in keys for key in own]
        holds(views[rng.randint(0, TASKS - 1)], {key: expected.get(key, ...) for key in all_keys})


def append_text(old: str | None, partial: str) -> str:
    """Append: what comes twice, or in another order, shows."""
    return (old or "") + partial


def _late(
    views: Sequence[TransactionalMap],
    written: Sequence[tuple[int, TransactionAttempt]],
    keys: Sequence[Sequence[str]],
    rng: Random,
) -> None:
    newest = dict(written)
    late = [(task, attempt) for task, attempt in written if attempt < newest[task]]
    if late:
        task, attempt = rng.choice(late)
        partials = dict.fromkeys(keys[task], "late;")
        refuses(StaleAttempt, views[task].update, attempt, partials, append_text)


CASES: tuple[Case, ...] = (random_histories,)
