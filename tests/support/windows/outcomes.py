"""All that is to be seen of a bolt whose rows come one by one, or several at once."""

from dataclasses import is_dataclass

from fulmen.testing import BoltHarness


def plain(value):
    """What equal results have in common: a set has no order, and 1, 1.0 and True differ."""
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return str(sorted(plain(k) + plain(v) for k, v in value.items()))
    if isinstance(value, set | frozenset):
        return str(sorted(map(plain, value)))
    if isinstance(value, list | tuple):
        return f"{type(value).__name__} {[*map(plain, value)]}"
    return f"{type(value).__name__} {value!r}"


def unordered(value):
    """Values of a set come in any order; those of a list by their times."""
    return sorted(value, key=plain) if isinstance(value, list) else value


def outcome(cls, fields, conf, life, take, restarts=True):
    """All that is to be seen of a bolt; and how many rows it has dealt with at once.

    Args:
        cls: Its class.
        fields: Those of its input.
        conf: Its configuration.
        life: Batches: the chunks of rows that come in each, and the watermark after it. A restart
            follows each of them.
        take: Gives a chunk to the bolt, and gives back the numbers of rows that are left; or None.
        restarts: False: one instance has all batches, with a commit after each, and restarts once.
    """
    bolt = BoltHarness(cls, fields=fields, conf=conf)
    taken, failed = 0, []
    for chunks, watermark in life:
        for rows in chunks:
            left = take(bolt.bolt, rows)
            for i in range(len(rows)) if left is None else left:
                try:
                    bolt.execute(list(rows[i]))
                except (TypeError, ArithmeticError, ValueError) as error:
                    failed.append(f"{type(error).__name__} {error}")
            taken += 0 if left is None else len(rows) - len(left)
        bolt.advance(watermark=watermark, seconds=0.4)
        bolt.end_batch()
        if restarts:
            bolt.restart()
        else:
            bolt.commit()
    bolt.restart()
    state = plain(bolt.state)
    bolt.advance(watermark=2 * 10**14)
    emitted = sorted(plain([one.stream, *map(unordered, one.values)]) for one in bolt.emitted)
    failed += sorted(reason for _, reason in bolt.failed)
    counted = {name: value for name, value in bolt.metrics.items() if name != "open_windows"}
    return (emitted, sorted(failed), state, counted, bolt.errors), taken
