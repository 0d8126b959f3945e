"""Random expressions over random typed rows, and what DuckDB says of them."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Decimal
from functools import cache

import duckdb
from hypothesis import strategies as st

COLUMNS = {"i": "BIGINT", "j": "BIGINT", "d": "DOUBLE", "e": "DOUBLE", "s": "VARCHAR",
           "t": "VARCHAR", "b": "BOOLEAN", "n": "DECIMAL(12, 3)",
           "p": "DATE", "q": "TIMESTAMP"}  # fmt: skip
EDGE = [0, 1, -1, 2, 3, -7, 10, 123, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.5, 2.5, 0.1, 1e-7, 1e20, 1e308, math.inf, -math.inf, math.nan]
TEXTS = ["", "a", "A", "ab", "a%b", "a_b", "ß", "ÄÖü", "日本", "x,y,z", " a ", "12", "-3.5", "1e3",
         "nan", "true", "İ", "🙂a", "aXbXc"]  # fmt: skip
DATES = [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29),
         date(2024, 12, 30), date(2026, 1, 4), date(9999, 12, 31)]  # fmt: skip
MOMENTS = [*map(datetime.fromisoformat, (
    "1969-12-31 23:59:59.999999", "2024-02-29 12:30:01.000500", "2024-03-31",
    "2024-12-30 00:00:00.000001", "2026-01-04 11:59", "0001-01-01", "9999-12-31 23:59:59",
))]  # fmt: skip
UNITS = ["'year'", "'quarter'", "'month'", "'week'", "'day'", "'hours'", "'minute'", "'second'"]
PATTERNS = [r"'[a-z]+'", "'(a|b)X'", "'.'", "'^$'", r"'\d+'", r"'\w'", "'x*'", "'ß|日'"]
DECIMALS = [*map(Decimal, ("0.000", "1.000", "-1.500", "2.345", "99999.999", "-0.001"))]
MIDDLE = date(1999, 1, 1), date(2050, 1, 1)
MIDDLE_MOMENTS = [datetime.fromisoformat(str(one)) for one in MIDDLE]

VALUES = {
    "BIGINT": st.one_of(st.none(), st.sampled_from(EDGE), st.integers(-20, 20)),
    "DOUBLE": st.one_of(st.none(), st.sampled_from(FLOATS), st.floats(-100, 100)),
    "VARCHAR": st.one_of(
        st.none(),
        st.sampled_from(TEXTS),
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
    ),
    "BOOLEAN": st.one_of(st.none(), st.booleans()),
    "DECIMAL(12, 3)": st.one_of(st.none(), st.sampled_from(DECIMALS)),
    "DATE": st.one_of(st.none(), st.sampled_from(DATES[1:-1]), st.dates(*MIDDLE)),
    "TIMESTAMP": st.one_of(st.none(), st.sampled_from(MOMENTS[:-2]), st.datetimes(*MIDDLE_MOMENTS)),
}
ROWS = st.lists(st.tuples(*(VALUES[of] for of in COLUMNS.values())), min_size=1, max_size=5)


def literal(of: str) -> st.SearchStrategy[str]:
    """A literal of a type, as both sides read it alike."""
    if of == "BIGINT":
        some = [one for one in EDGE if abs(one) < 2**62]
        return st.sampled_from(some).map(lambda one: f"({one}::BIGINT)")
    if of == "DOUBLE":
        some = [one for one in FLOATS if math.isfinite(one)]
        return st.sampled_from(some).map(lambda one: f"({one:e})")
    if of == "VARCHAR":
        return st.sampled_from(TEXTS).map(lambda one: f"'{one}'")
    if of == "BOOLEAN":
        return st.sampled_from(["true", "false"])
    if of == "DATE":
        return st.sampled_from(DATES[1:-1]).map(lambda one: f"(DATE '{one}')")
    if of == "TIMESTAMP":
        return st.sampled_from(MOMENTS[:-2]).map(lambda one: f"(TIMESTAMP '{one}')")
    return st.just("(1.5::DECIMAL(12, 3))")


TEMPLATES = {
    "BIGINT": (
        "(<i> <+> <i>); (-<c>); abs(<i>); length(<s>); sign(<d>); round(<i>, <?>);"
        " strpos(<s>, <s>); try_cast(<s> as bigint); try_cast(<d> as bigint); (<b>::bigint);"
        " (<c>::varchar::bigint * <c>); (s::bigint); (<i> // j);"
        " (<i> // -2); (<i> % -3);"
        " try_cast(<i> as int); (<n>::bigint); sign(<n>); round(<i>); if(<b>, 1, length(<s>));"
        " year(<q>); quarter(<p>); month(<q>); week(<p>); day(<q>); dayofweek(<q>); isodow(<p>);"
        " dayofyear(<q>); hour(<q>); minute(<q>); second(<q>); millisecond(<q>); microsecond(<q>);"
        " date_part('month', <p>); extract(doy from <q>); date_diff(<u>, <q>, <q>);"
        " date_sub(<u>, <q>, <q>); (<p> - <p>); epoch_ms(<q>); epoch_us(<p>);"
        " epoch_ms(to_timestamp(<?>)); length(string_split(<s>, concat(<s>)));"
        " length(regexp_extract_all(<s>, <r>))"
    ),
    "DOUBLE": (
        "(<d> <+> <d>); (<d> / <d>); (<i> <*> <d>); (<i> / <i>); (<n> <*> <d>); (-<c>); abs(<d>);"
        " (s::double);"
        " floor(<d>); ceil(<d>); trunc(<d>); (<i>::double); try_cast(<s> as double);"
        " try(sqrt(<d>)); floor(<i>); try(ln(<d>)); try(log10(<i>)); try(log2(<d>)); try(exp(<d>));"
        " try(pow(<i>, <?>)); (<d> * 0.5e0); (<n> / <i>); epoch(<q>); epoch(<p>)"
    ),
    "VARCHAR": (
        "(<s> || <s>); upper(<s>); lower(<s>); substr(<s>, <?>, <?>); substr(<s>, <?>);"
        " left(<s>, <?>); right(<s>, <?>); trim(<s>); ltrim(<s>, <s>); rtrim(<s>);"
        " replace(<s>, <s>, <s>); split_part(<s>, <s>, <?>); concat(<s>, <i>, <b>);"
        " replace(<s>, <S>, <s>); split_part(<s>, <S>, <?>); trim(<s>, <S>);"
        " concat_ws(<s>, <s>, <s>); (<i>::varchar); (<d>::varchar); (<b>::varchar);"
        " (n::varchar); reverse(<s>); (<i> || <s>);"
        " regexp_extract(<s>, <r>); regexp_extract(<s>, '(.)(.*)', 2);"
        " regexp_replace(<s>, <r>, 'x'); regexp_replace(<s>, '(.)b', '\\1\\1', 'g');"
        " dayname(<q>); monthname(<p>); strftime(<q>, '%d.%m.%y %I:%M:%S.%f %p %j %a %B');"
        " (q::time::varchar); json_extract_string('[\"' || <s> || '\", 1.5]', 0);"
        " json_extract('[\"' || <s> || '\"]', '$[0]')"
    ),
    "BOOLEAN": (
        "(<i> <=> <i>); (<d> <=> <d>); (<i> <=> <d>); (<s> <=> <s>); (<n> <=> <n>); (<n> <=> <i>);"
        " (<d> <=> 1.5e0); (2.5e0 <=> <d>); (<b> = <b>); (<i> % 3 = 0); (<n> <=> <d>);"
        " (<b> and <b>); (<b> or <b>); (not <b>); (<d> is null); (<s> is not null); (<b> is true);"
        " (<b> is not false); (<d> is distinct from <d>); (<i> is not distinct from <i>);"
        " (<i> between <i> and <i>); (<d> not between <d> and <d>); (<i> in (<I>, <I>));"
        " (<s> not in (<S>, null)); (<d> in (<d>, <d>)); (<s> like <s>); (<s> not like '%a_b%');"
        " (<s> ilike <S>); (<s> like 'a%'); (<s> like '%b'); (<s> like '%a%'); (<s> like 'a%b');"
        " (<s> like 'a_%b');"
        " (<s> like 'a!%%' escape '!'); (<s> not ilike 'A_'); starts_with(<s>, <s>);"
        " ends_with(<s>, <s>); contains(<s>, <s>); isnan(<d>); isinf(<d>); isfinite(<d>);"
        " try_cast(<s> as boolean); (<i>::boolean);"
        " regexp_matches(<s>, <r>); regexp_full_match(<s>, <r>, 'i'); (<q> <=> <q>);"
        " (<p> <=> <q>); (<q> between <p> and <q>); (<p> in (<p>, <p>))"
    ),
    "DECIMAL(12, 3)": "abs(<c>); (<c> + <c>); (<c> - <i>); (<c> * <c>); round(<c>, 1); (<c> % 7)",
    "DATE": "last_day(<q>); (<p> + <?>); (<p> - <?>); (<q>::date); make_date(2024, 2, <?>)",
    "TIMESTAMP": (
        "date_trunc(<u>, <q>); date_trunc(<u>, <p>); (<q> + interval 36 hour); (<p>::timestamp);"
        " (<q> - interval '1 month 3 days'); (<p> + interval (<?>) year); make_timestamp(<i>);"
        " epoch_ms(<?>); strptime(strftime(<q>, '%Y-%m-%d %H:%M'), '%Y-%m-%d %H:%M');"
        " timezone('UTC', timezone('UTC', <q>))"
    ),
}


@cache
def expressions(of: str, depth: int) -> st.SearchStrategy[str]:
    """Expressions of a type."""
    columns = st.sampled_from([name for name, kind in COLUMNS.items() if kind == of])
    leaf = st.one_of(columns, columns, literal(of))
    if not depth:
        return leaf
    inner = {kind: expressions(kind, depth - 1) for kind in VALUES}
    i, d, s, b, n, p, q = (inner[kind] for kind in VALUES)

    def made(text: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.tuples(*parts).map(lambda found: text.format(*found))

    any_of = [leaf, made("coalesce({}, {})", inner[of], inner[of]),
              made("case when {} then {} else {} end", b, inner[of], inner[of]),
              made("case {} when {} then {} end", i, i, inner[of]),
              made("nullif({}, {})", inner[of], inner[of]),
              made("coalesce(nullif({0}, {1}), if({2}, {0}, {1}))", inner[of], inner[of], b),
              made("case {} when {} then {} when {} then {} else {} end", s,
                   *[literal("VARCHAR"), literal(of)] * 2, inner[of]),
              made("if({}, {}, {})", b, inner[of], inner[of]),
              made("greatest({}, {})", inner[of], inner[of]),
              made("least({}, {}, {})", inner[of], inner[of], inner[of])]  # fmt: skip
    small = st.sampled_from(["0", "1", "2", "-1", "-2", "3", "5"])
    compared = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    column = columns
    parts = {"i": i, "d": d, "s": s, "b": b, "n": n, "?": small, "=": compared, "c": column}
    parts |= {"p": p, "q": q, "u": st.sampled_from(UNITS), "r": st.sampled_from(PATTERNS)}
    parts |= {"I": literal("BIGINT"), "S": literal("VARCHAR")}
    parts |= {"+": st.sampled_from(["+", "-", "*", "//", " % "]), "*": st.sampled_from("+*/")}
    more = [
        made(re.sub(r"<.>", "{}", text), *(parts[one[1]] for one in re.findall(r"<.>", text)))
        for text in TEMPLATES[of].split("; ")
    ]
    return st.one_of(*any_of, *more, *more)


class DuckDb:
    """DuckDB with a table of rows."""

    def __init__(self) -> None:
        self._db = duckdb.connect(":memory:", config={"threads": 1})
        columns = ", ".join(f"{name} {of}" for name, of in COLUMNS.items())
        self._db.execute(f"create table rows (row_at BIGINT, {columns})")

    def of(self, text: str, rows: list[tuple[object, ...]]) -> list[object]:
        """The value of an expression for each row; an exception: there is none."""
        self._db.execute("delete from rows")
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        self._db.executemany(
            f"insert into rows values ({marks})", [(at, *row) for at, row in enumerate(rows)]
        )
        try:
            return [
                one
                for (one,) in self._db.execute(
                    f"select {text} from rows order by row_at"
                ).fetchall()
            ]
        except duckdb.Error:
            return [self._alone(text, at) for at in range(len(rows))]

    def _alone(self, text: str, at: int) -> object:
        try:
            found = self._db.execute(
                f"select {text} from (select * from rows where row_at = ? limit 1)", [at]
            ).fetchone()
        except (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException) as error:
            raise AssertionError(f"DuckDB can't read {text}: {error}") from error
        except duckdb.Error as error:
            return error
        assert found is not None
        return found[0]


def same(ours: object, theirs: object) -> bool:
    """Whether two values are equal: floats but for their last digit, and of one type."""
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return ours == theirs or math.isclose(ours, theirs, rel_tol=1e-14)
    return ours == theirs
