"""The ids by which stores know the tasks of exactly-once sinks, after a checkpoint has gone back.

A store is asked for the mark of an id. If a sink has got its id, or another one, only after the
state that is gone back to, the store would have no mark of the older one, and rows that it has by
now would be let in twice. So a sink keeps the id under which it has written last: then the store's
mark is another one than the state's, and the sink stops until a person has decided.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fulmen.checkpoint import Manifest, Store, Update, Updates, load_many
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.driver.checkpoints.kept_components import BOLT
from fulmen.engine.driver.checkpoints.layout import KeptComponent, Layout, layout_of
from fulmen.engine.state.journals import ENGINE, MARK, ROWS
from fulmen.engine.state.messages.unwritten_rows import packed_point
from fulmen.plan import task_key, task_of_key


def kept_ids(store: Store, older: Manifest, newer: Manifest, number: int) -> Updates:
    """The changes of an older state by which sinks keep their newer ids.

    Args:
        store: The checkpoint's.
        older: The state that is gone back to.
        newer: The one that is left.
        number: The commit to be made.
    """
    of_sinks = [key for key, journals in newer.tasks.items() if {MARK, ROWS} & journals.keys()]
    names = older_names(layout_of(older), layout_of(newer))
    older_keys = {key: older_key(key, names) for key in of_sinks}
    left = load_many(store, newer, of_sinks, _is_about_stores)
    before = load_many(store, older, older_keys.values(), _is_about_stores)
    updates: Updates = {}
    for newer_key, journals in left.items():
        key = older_keys[newer_key]
        sink = _engine(journals).get("sink", "")
        engine = _engine(before[key])
        if not sink or sink == engine.get("sink"):
            continue
        data = pickle.dumps({**engine, "sink": sink}, 5)
        updates[key] = {ENGINE: Update(data, None, number)}
        if not {MARK, ROWS} & before[key].keys():
            updates[key][MARK] = _no_mark(number)
        if key not in older.tasks:
            for sister in _sisters(key, older):
                updates.setdefault(sister, {})[MARK] = _no_mark(number)
    return updates


def with_sinks(then: Layout, now: Layout, sinks: Iterable[str], seconds: float) -> Layout:
    """An older layout in which the components of these tasks are, or are kept.

    Under whichever of its names a sink comes back, it then has its id. `seconds`: since 1970, now.
    """
    names = {task_of_key(key)[0] for key in sinks} - {*then.tasks, *then.kept}
    kept = {n: now.kept.get(n) or KeptComponent(now.tasks[n], BOLT, since=seconds) for n in names}
    known_as = {n: now.known_as[n] for n in names if n in now.known_as}
    renamed = {old: new for old, new in now.renamed.items() if new in names}
    return replace(
        then,
        kept={**then.kept, **kept},
        known_as={**then.known_as, **known_as},
        renamed={**then.renamed, **renamed},
    )


def older_names(then: Layout | None, now: Layout | None) -> dict[str, str]:
    """The names that components had in an older layout, by those that they have now."""
    if then is None or now is None:
        return {}
    older = {then.known_as.get(name, name): name for name in [*then.kept, *then.tasks]}
    known_as = {name: now.known_as.get(name, name) for name in [*now.kept, *now.tasks]}
    return {name: older[first] for name, first in known_as.items() if first in older}


def older_key(key: str, names: Mapping[str, str]) -> str:
    """The key of a task in an older state. `names`: as `older_names` gives them."""
    name, task = task_of_key(key)
    return task_key(names.get(name, name), task)


def _sisters(key: str, older: Manifest) -> list[str]:
    """The tasks that a sink had in the older state, when it had fewer.

    They get the rows that the others have written since. With no mark, which is another one than
    the store's, they stop as well.
    """
    name, _ = task_of_key(key)
    return [one for one, has in older.tasks.items() if task_of_key(one)[0] == name and MARK in has]


def _no_mark(number: int) -> Update:
    return Update(packed_point(None), None, number)


def _is_about_stores(journal: str) -> bool:
    return journal in (ENGINE, MARK, ROWS)


def _engine(journals: Journals) -> Mapping[str, Any]:
    engine: Mapping[str, Any] = pickle.loads(journals[ENGINE][-1]) if journals.get(ENGINE) else {}
    return engine
