"""Random topologies of windows, joins and deduplication behind each other, and what SQL says.

Each part emits rows of a name, a number and a time. It says how far its times may be behind the
watermark, so that what is behind it can be chosen such that nothing is late.
"""

from dataclasses import dataclass

from hypothesis import strategies as st

from fulmen.windows import Aggregate, Deduplicate, IntervalJoin, TemporalJoin, WindowJoin


@dataclass(frozen=True)
class Part:
    """A component.

    Attributes:
        name: Its name.
        names: The fields of its rows with the name, the number and the time.
        sql: A query for these three.
        outputs: All fields of its rows.
        cls: Of a bolt: its class.
        froms: Of a bolt: the parts that it receives from.
        config: Of a bolt.
        behind: By how many milliseconds the times of its rows may be below the watermark.
        grid: If they are not below it by a whole tumbling window of this size, or of a multiple.
        is_unique: Whether it has one row at most of a name and time.
    """

    name: str
    names: tuple[str, str, str]
    sql: str
    outputs: tuple[str, ...]
    cls: type | None = None
    froms: tuple["Part", ...] = ()
    config: dict | None = None
    behind: int = 0
    grid: int = 0
    is_unique: bool = False

    def row(self, values):
        """What of a row SQL says, too."""
        of = dict(zip(self.outputs, values, strict=True))
        return tuple(of[name] for name in self.names)


SPANS = {
    "tumbling": (
        lambda size: {"type": "tumbling", "size": f"{size}ms"},
        "(SELECT *, floor(t / {0}.0)::BIGINT * {0} s, s + {0} e FROM {1})",
    ),
    "sliding": (
        lambda size: {"type": "sliding", "size": f"{size}ms", "every": "7ms"},
        "(SELECT *, s + {0} e FROM (SELECT *, unnest(generate_series("
        "floor(t / 7.0)::BIGINT * 7 - {0} // 7 * 7, t, 7)) s FROM {1}) WHERE t < s + {0})",
    ),
    "session": (  # a name of NULL equals no other one in a join, but is one of an aggregate
        lambda size: {"type": "session", "gap": f"{size}ms"},
        "(SELECT *, max(t) OVER (PARTITION BY who, s) + {0} e FROM (SELECT *, sum(begins) OVER "
        "(PARTITION BY who ORDER BY t, begins DESC ROWS UNBOUNDED PRECEDING) s FROM (SELECT *, "
        "CASE WHEN {2} t - lag(t) OVER (PARTITION BY who ORDER BY t) <= {0} THEN 0 ELSE 1 END "
        "begins FROM {1})))",
    ),
}
KINDS = st.sampled_from(["inner", "left", "right", "full"])
AGGREGATES = {"count": "count(*)", "sum({})": "sum(n)", "max({})": "max(n)"}


def worlds(draw, sources):
    """Parts behind sources, which have the fields `user`, `amount` and `at`."""
    fields = ("user", "amount", "at")
    parts = [Part(name, fields, f"SELECT * FROM {name}", fields) for name in sources]
    for number in range(draw(st.integers(2, 4))):
        make = draw(
            st.sampled_from([aggregate, window_join, window_join, interval, temporal, once])
        )
        part = make(draw, f"part{number}", parts) or aggregate(draw, f"part{number}", parts)
        parts.append(part)
    return parts


def one_of(draw, parts):
    """One of the parts, a bolt rather than a source."""
    return draw(st.sampled_from([*parts, *[part for part in parts if part.cls] * 3]))


def aggregate(draw, name, parts):
    of = one_of(draw, parts)
    is_of_all = of.cls is None and draw(st.booleans())
    froms = tuple(part for part in parts if part.cls is None) if is_of_all else (of,)
    rows = " UNION ALL ".join(f"SELECT * FROM {part.name}" for part in froms)
    kind, size = draw(st.sampled_from(sorted(SPANS))), draw(st.sampled_from((10, 20, 30)))
    how = draw(st.sampled_from(sorted(AGGREGATES)))
    config = {
        "key": [of.names[0]],
        "time": of.names[2],
        "unit": "ms",
        "window": SPANS[kind][0](size),
        "aggregates": {"n": how.format(of.names[1])},
    }
    waits = 0 if kind == "tumbling" and of.grid and size % of.grid == 0 else of.behind
    waits = waits or draw(st.sampled_from((0, 0, 0, 15)))
    if waits:
        config |= {"emit": "final", "allowedLateness": f"{waits}ms"}
    is_by_start = kind == "tumbling" and not waits and draw(st.booleans())
    inside = SPANS[kind][1].format(size, f"({rows})", "")
    edge = "window_start" if is_by_start else "window_end"
    return Part(
        name,
        (of.names[0], "n", edge),
        f"SELECT who, {AGGREGATES[how]}, {'s' if is_by_start else 'e'} FROM {inside}"
        " GROUP BY who, s, e",
        (of.names[0], "window_start", "window_end", "n"),
        Aggregate,
        froms,
        config,
        behind=size if is_by_start else waits,
        grid=size if is_by_start else 0,
        is_unique=True,
    )


def two(draw, parts, right=lambda part: True):
    """Two parts to join, neither of which is behind the watermark; None: there are none."""
    level = [part for part in parts if not part.behind]
    rights = [part for part in level if right(part)]
    if not rights:
        return None
    one = one_of(draw, rights)
    lefts = [part for part in level if part is not one]
    return (one_of(draw, lefts), one) if lefts else None


def join_of(name, cls, both, config, sql, left=(), right=(), at="window_end", **more):
    """A join that emits the name of the left side, and the number of one of both.

    Args:
        name: Its name.
        cls: Its class.
        both: What it joins.
        config: More of its config.
        sql: Its query.
        left: The field with the time of the left side, if it is emitted.
        right: The same of the right side.
        at: The field with the time of its rows.
        more: `n`, the field with the number of its rows, and what else is known of it.
    """
    n = more.pop("n")
    sides = {}
    for side, of, out in zip(("left", "right"), both, ("n", "m"), strict=True):
        times = dict.fromkeys(left if side == "left" else right, of.names[2])
        who = {"who": of.names[0]} if side == "left" else {}
        sides[side] = {
            "from": of.name,
            "key": [of.names[0]],
            "time": of.names[2],
            "fields": {**who, out: of.names[1], **times},
        }
    emitted = (*sides["left"]["fields"], *sides["right"]["fields"])
    window = ("window_start", "window_end") if cls is WindowJoin else ()
    config = {"unit": "ms", **sides, **config}
    return Part(name, ("who", n, at), sql, (*emitted, *window), cls, both, config, **more)


def window_join(draw, name, parts):
    both = two(draw, parts)
    if both is None:
        return None
    kind, size = draw(st.sampled_from(sorted(SPANS))), draw(st.sampled_from((10, 20, 30)))
    how, n = draw(KINDS), draw(st.sampled_from("nm"))
    config = {"window": SPANS[kind][0](size), "type": how}
    if kind == "session":
        both_sides = (
            f"(SELECT *, 'l' side FROM {both[0].name} UNION ALL SELECT *, 'r' FROM {both[1].name})"
        )
        inside = SPANS[kind][1].format(size, both_sides, "who IS NOT NULL AND ")
        l_rows, r_rows = (f"(SELECT * FROM {inside} WHERE side = '{one}')" for one in "lr")
    else:
        l_rows, r_rows = (SPANS[kind][1].format(size, part.name, "") for part in both)
    side = {"n": "l", "m": "r"}[n]
    sql = (
        f"SELECT l.who, {side}.n, coalesce(l.e, r.e) FROM {l_rows} l {how} JOIN {r_rows} r"
        " ON l.who = r.who AND l.s = r.s"
    )
    return join_of(name, WindowJoin, both, config, sql, n=n)


def interval(draw, name, parts):
    both = two(draw, parts)
    if both is None:
        return None
    how, n = draw(st.sampled_from(["inner", "left"])), draw(st.sampled_from("nm"))
    lower, upper = draw(st.sampled_from([(0, 10), (0, 10), (-5, 10), (-10, -5)]))
    config = {"type": how, "lower": f"{lower}ms", "upper": f"{upper}ms"}
    is_by_left = how == "left" or lower < 0 or draw(st.booleans())
    side, at = {"n": "l", "m": "r"}[n], "l" if is_by_left else "r"
    sql = (
        f"SELECT l.who, {side}.n, {at}.t FROM {both[0].name} l {how} JOIN {both[1].name} r"
        f" ON l.who = r.who AND r.t BETWEEN l.t + {lower} AND l.t + {upper}"
    )
    more = {"left" if is_by_left else "right": ("at",), "at": "at", "n": n}
    behind = max(upper, 0) if is_by_left else 0
    return join_of(name, IntervalJoin, both, config, sql, **more, behind=behind)


def temporal(draw, name, parts):
    both = two(draw, parts, right=lambda part: part.is_unique)
    if both is None:
        return None
    how, n = draw(st.sampled_from(["inner", "left"])), draw(st.sampled_from("nm"))
    sql = (
        f"SELECT l.who, {'l' if n == 'n' else 'r'}.n, l.t FROM {both[0].name} l"
        f" ASOF {how} JOIN {both[1].name} r ON l.who = r.who AND l.t >= r.t"
    )
    return join_of(name, TemporalJoin, both, {"type": how}, sql, left=("at",), at="at", n=n)


def once(draw, name, parts):
    of = one_of(draw, [part for part in parts if not part.behind])
    fields = [*of.names]
    config = {"id": fields, "fields": fields, "time": of.names[2], "unit": "ms", "horizon": "9ms"}
    sql = f"SELECT DISTINCT who, n, t FROM {of.name}"
    return Part(name, of.names, sql, of.names, Deduplicate, (of,), config)


def query_of(parts, part):
    """What SQL says of a part: a query of tables that are called as sources."""
    before = [one for one in parts if one.cls is not None]
    names = "(who, n, t) AS MATERIALIZED"
    queries = ", ".join(f"{one.name}{names} ({one.sql})" for one in before)
    return f"WITH {queries} SELECT who, n::BIGINT, t::BIGINT FROM {part.name}"
