"""Random topologies of windows, joins and deduplication behind each other, and what SQL says.

Each part emits rows of a name, a number and a time. It says how far its times may be behind the
watermark, so that what is behind it can be chosen such that nothing is late.
"""

from dataclasses import dataclass

from hypothesis import strategies as st

from fulmen.windows import (
    Aggregate,
    Deduplicate,
    IntervalJoin,
    LookupJoin,
    TableJoin,
    TemporalJoin,
    WindowJoin,
)
from support.windows.sql_events import by_sql


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
        grid: If they are not below it by a whole window that consists of windows of this kind: its
            `size`, or the `unit` of the calendar and the `timezone`.
        is_unique: Whether it has one row at most of a name and time.
        last_of: Of a table whose last row of each name follows from the events, but not those
            before: the fields that tell the name, of which the first that is not None counts.
    """

    name: str
    names: tuple[str, str, str]
    sql: str
    outputs: tuple[str, ...]
    cls: type | None = None
    froms: tuple["Part", ...] = ()
    config: dict | None = None
    behind: int = 0
    grid: tuple = ()
    is_unique: bool = False
    last_of: tuple[str, ...] = ()

    def final(self, rows):
        """What SQL says, too, of rows that have come in this order."""
        found = {}
        for number, values in enumerate(rows):
            of = dict(zip(self.outputs, values, strict=True))
            place = next((of[n] for n in self.last_of if of[n] is not None), number)
            found[place] = tuple(None if name is None else of[name] for name in self.names)
        return [*found.values()]


HOUR = 3_600_000
ZONES = {"UTC": 0, "Europe/Paris": 0, "Asia/Kolkata": HOUR // 2}
"""By how much their hours are off."""
LONGEST = {"hour": HOUR, "day": 25 * HOUR, "week": 169 * HOUR, "month": 745 * HOUR}
LONGEST["year"] = 366 * 24 * HOUR
CONSISTS_OF = {
    "day": {"hour"},
    "week": {"hour", "day"},
    "month": {"hour", "day"},
    "year": {"hour", "day", "month"},
}
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


@dataclass(frozen=True)
class Window:
    """Windows of a kind.

    Attributes:
        kind: tumbling, sliding, session or calendar.
        config: What the option `window` has.
        sql: A query for rows of {1} with start and end of their windows; {2} is for sessions.
        longest: How many milliseconds one may have.
        grid: As of a `Part`.
    """

    kind: str
    config: dict
    sql: str
    longest: int
    grid: tuple

    def of(self, rows, is_more=""):
        """A query for rows with `s` and `e`."""
        return self.sql.format(self.longest, rows, is_more)

    def consists_of(self, grid):
        """Whether each window consists of whole ones of a grid."""
        if not grid:
            return False
        if self.kind == "calendar":
            unit, zone = self.grid
            return len(grid) == 1 or (
                grid[1] == zone and grid[0] in {unit, *CONSISTS_OF.get(unit, ())}
            )
        return self.kind == "tumbling" and len(grid) == 1 and self.longest % grid[0] == 0


def window(draw):
    kind = draw(st.sampled_from([*sorted(SPANS), "calendar"]))
    if kind == "calendar":
        return calendar(
            draw(st.sampled_from(sorted(LONGEST))), draw(st.sampled_from(sorted(ZONES)))
        )
    size = draw(st.sampled_from((10, 20, 30)))
    return Window(kind, SPANS[kind][0](size), SPANS[kind][1], size, (size,))


def calendar(unit, zone):
    config = {"type": "calendar", "unit": unit, "timezone": zone}
    if unit == "hour":
        start = f"floor((t - {ZONES[zone]}) / {HOUR}.0)::BIGINT * {HOUR} + {ZONES[zone]}"
        sql = f"(SELECT *, {start} s, s + {HOUR} e FROM {{1}})"
    else:
        local = f"date_trunc('{unit}', make_timestamptz(t * 1000) AT TIME ZONE '{zone}')"
        edge = "epoch_ms({} AT TIME ZONE '" + zone + "')"
        start, end = edge.format("d"), edge.format(f"(d + INTERVAL 1 {unit})")
        sql = f"(SELECT * EXCLUDE d, {start} s, {end} e FROM (SELECT *, {local} d FROM {{1}}))"
    return Window("calendar", config, sql, LONGEST[unit], (unit, zone))


def worlds(draw, sources):
    """Parts behind sources.

    Args:
        draw: Of hypothesis.
        sources: By name, a table as `by_sql` takes it, of the fields `user`, `amount` and `at`.
    """
    fields = ("user", "amount", "at")
    parts = [Part(name, fields, f"SELECT * FROM {name}", fields) for name in sources]

    def lookup(draw, name, parts):
        return lookup_join(draw, name, parts, sources)

    kinds = [aggregate, window_join, window_join, interval, temporal, once, lookup, table_join]
    for number in range(draw(st.integers(2, 4))):
        make = draw(st.sampled_from(kinds))
        while (part := make(draw, f"part{number}", parts)) is None:
            parts.append(aggregate(draw, f"table{len(parts)}", parts, of_sources=True))
        parts.append(part)
    return parts


def one_of(draw, parts):
    """One of the parts, a bolt rather than a source."""
    return draw(st.sampled_from([*parts, *[part for part in parts if part.cls] * 3]))


def timed(parts):
    """Those whose rows have a time."""
    return [part for part in parts if not part.last_of]


def aggregate(draw, name, parts, of_sources=False):
    """Windows. Of sources it is a table that any join can have."""
    of = one_of(draw, parts[:1] if of_sources else timed(parts))
    is_of_all = of.cls is None and draw(st.booleans())
    froms = tuple(part for part in parts if part.cls is None) if is_of_all else (of,)
    rows = " UNION ALL ".join(f"SELECT * FROM {part.name}" for part in froms)
    spans = window(draw)
    how = draw(st.sampled_from(sorted(AGGREGATES)))
    config = {
        "key": [of.names[0]],
        "time": of.names[2],
        "unit": "ms",
        "window": spans.config,
        "aggregates": {"n": how.format(of.names[1])},
    }
    waits = 0 if spans.consists_of(of.grid) else of.behind
    waits = waits or (0 if of_sources else draw(st.sampled_from((0, 0, 0, 15))))
    if waits:
        config |= {"emit": "final", "allowedLateness": f"{waits / 1000:.3f}s"}
    has_grid = spans.kind in ("tumbling", "calendar")
    is_by_start = has_grid and not waits and not of_sources and draw(st.booleans())
    inside = spans.of(f"({rows})")
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
        behind=spans.longest if is_by_start else waits,
        grid=spans.grid if is_by_start else (),
        is_unique=True,
    )


def two(draw, parts, right=lambda part: True):
    """Two parts to join, neither of which is behind the watermark; None: there is no right one."""
    level = [part for part in timed(parts) if not part.behind]
    rights = [part for part in level if right(part)]
    if not rights:
        return None
    one = one_of(draw, rights)
    return one_of(draw, [part for part in level if part is not one]), one


def name_of(by_key):
    """What SQL says of the name of a row of a join."""
    return "coalesce(l.who, r.who)" if by_key else "l.who"


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
        more: `n`, the field with the number of its rows, `by_key`, whether the name of a row
            without a left one is that of the right one, and what else is known of it.
    """
    n, by_key = more.pop("n"), more.pop("by_key")
    sides = {}
    for side, of, out in zip(("left", "right"), both, ("n", "m"), strict=True):
        times = dict.fromkeys(left if side == "left" else right, of.names[2])
        who = {"who": of.names[0]} if side == "left" else {}
        who |= {"of": of.names[0]} if side == "right" and more.get("last_of") else {}
        sides[side] = {
            "from": of.name,
            "key": [of.names[0]],
            "time": None if of.last_of else of.names[2],
            "fields": {**who, out: of.names[1], **times},
        }
    emitted = (*sides["left"]["fields"], *sides["right"]["fields"])
    window = ("window_start", "window_end") if cls is WindowJoin else ()
    key = {"key": ["who"]} if by_key else {}
    config = {"unit": "ms", **key, **sides, **config}
    return Part(name, ("who", n, at), sql, (*emitted, *window), cls, both, config, **more)


def window_join(draw, name, parts):
    both = two(draw, parts)
    spans = window(draw)
    how, n, by_key = draw(KINDS), draw(st.sampled_from("nm")), draw(st.booleans())
    config = {"window": spans.config, "type": how}
    if spans.kind == "session":
        both_sides = (
            f"(SELECT *, 'l' side FROM {both[0].name} UNION ALL SELECT *, 'r' FROM {both[1].name})"
        )
        inside = spans.of(both_sides, "who IS NOT NULL AND ")
        l_rows, r_rows = (f"(SELECT * FROM {inside} WHERE side = '{one}')" for one in "lr")
    else:
        l_rows, r_rows = (spans.of(part.name) for part in both)
    side = {"n": "l", "m": "r"}[n]
    sql = (
        f"SELECT {name_of(by_key)}, {side}.n, coalesce(l.e, r.e)"
        f" FROM {l_rows} l {how} JOIN {r_rows} r"
        " ON l.who = r.who AND l.s = r.s"
    )
    return join_of(name, WindowJoin, both, config, sql, n=n, by_key=by_key)


def interval(draw, name, parts):
    both = two(draw, parts)
    how, n = draw(st.sampled_from(["inner", "left"])), draw(st.sampled_from("nm"))
    lower, upper = draw(st.sampled_from([(0, 10), (0, 10), (-5, 10), (-10, -5)]))
    config = {"type": how, "lower": f"{lower}ms", "upper": f"{upper}ms"}
    is_by_left = how == "left" or lower < 0 or draw(st.booleans())
    side, at = {"n": "l", "m": "r"}[n], "l" if is_by_left else "r"
    sql = (
        f"SELECT l.who, {side}.n, {at}.t FROM {both[0].name} l {how} JOIN {both[1].name} r"
        f" ON l.who = r.who AND r.t BETWEEN l.t + {lower} AND l.t + {upper}"
    )
    more = {"left" if is_by_left else "right": ("at",), "at": "at", "n": n, "by_key": False}
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
    more = {"left": ("at",), "at": "at", "n": n, "by_key": False}
    return join_of(name, TemporalJoin, both, {"type": how}, sql, **more)


NEWEST = (
    "(SELECT * FROM {} QUALIFY who IS NULL OR row_number() OVER (PARTITION BY who ORDER BY t DESC)"
    " = 1)"
)
"""Of each name the latest row."""


def lookup_join(draw, name, parts, sources):
    """A join whose left rows wait until all of its table is there."""
    both = two(draw, parts, right=lambda part: part.is_unique)
    if both is None:
        return None
    times = (query_of(parts, part, "coalesce(min(t), 0), coalesce(max(t), 0)") for part in both)
    [(first, _)], [(_, last)] = (by_sql(query, **sources) for query in times)
    until = last + draw(st.sampled_from((1, 50)))
    how, n = draw(st.sampled_from(["inner", "left"])), draw(st.sampled_from("nm"))
    sql = (
        f"SELECT l.who, {'l' if n == 'n' else 'r'}.n, l.t FROM {both[0].name} l"
        f" {how} JOIN {NEWEST.format(both[1].name)} r ON l.who = r.who"
    )
    config = {"type": how, "waitFor": until}
    more = {"left": ("at",), "at": "at", "n": n, "behind": max(until - first, 0), "by_key": False}
    return join_of(name, LookupJoin, both, config, sql, **more)


def table_join(draw, name, parts):
    """A join of tables, each of which may be one itself."""
    tables = [part for part in parts if part.is_unique or part.last_of == ("who",)]
    if len(tables) < 2:
        return None
    right = one_of(draw, tables)
    both = one_of(draw, [part for part in tables if part is not right]), right
    how, n, by_key = draw(KINDS), draw(st.sampled_from("nm")), draw(st.booleans())
    sql = (
        f"SELECT {name_of(by_key)}, {'l' if n == 'n' else 'r'}.n, NULL"
        f" FROM {NEWEST.format(both[0].name)} l"
        f" {how} JOIN {NEWEST.format(both[1].name)} r ON l.who = r.who"
    )
    # What has no left row may have no name, and is no table of names then.
    last_of = ("who",) if by_key or how in ("inner", "left") else ("who", "of")
    more = {"n": n, "at": None, "by_key": by_key, "last_of": last_of}
    return join_of(name, TableJoin, both, {"type": how}, sql, **more)


def once(draw, name, parts):
    of = one_of(draw, [part for part in timed(parts) if not part.behind])
    fields = [*of.names]
    config = {"id": fields, "fields": fields, "time": of.names[2], "unit": "ms", "horizon": "9ms"}
    sql = f"SELECT DISTINCT who, n, t FROM {of.name}"
    return Part(name, of.names, sql, of.names, Deduplicate, (of,), config)


def query_of(parts, part, columns="who, n::BIGINT, t::BIGINT"):
    """What SQL says of a part: a query of tables that are called as sources."""
    before = [one for one in parts if one.cls is not None]
    names = "(who, n, t) AS MATERIALIZED"
    queries = ", ".join(f"{one.name}{names} ({one.sql})" for one in before)
    return f"{f'WITH {queries} ' if before else ''}SELECT {columns} FROM {part.name}"


def kind_of(part):
    return "a source" if part.cls is None else part.cls.__name__
