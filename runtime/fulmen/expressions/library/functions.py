"""The table of functions: what is not in it does not exist.

A row says of which types its arguments are, of which type the result is, how it is written in
Python, and how the documentation shows it. Arguments that are NULL make the result NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fulmen.expressions.library import arithmetic, json_texts, patterns, text, times
from fulmen.expressions.sql_types import SqlType

B, I, D, N, V, L = (  # noqa: E741 (short, as the table has many)
    (SqlType.BOOLEAN,),
    (SqlType.BIGINT,),
    (SqlType.DOUBLE,),
    (SqlType.DECIMAL,),
    (SqlType.VARCHAR,),
    (SqlType.LIST,),
)
M = (SqlType.DATE, SqlType.TIMESTAMP)
Types = tuple[SqlType, ...]
WHOLE_NUMBER = "a BIGINT"


@dataclass(frozen=True)
class Function:
    """A function of certain types of arguments.

    Attributes:
        name: Its name in lower case.
        arguments: The types that each argument may have.
        result: The type of the result.
        call: What is called, or the name of what Python has: `.upper` is a method of the first
            argument, `len` a function.
        optional: How many of the last arguments may be left out.
        fixed: The places of arguments, such as patterns, of which `call` makes what is called for
            the others. That is done once where they are constants.
        nullable: Whether the result may be NULL though no argument is.
        element: The type of the values of a result that is a list.
    """

    name: str
    arguments: tuple[Types, ...]
    result: SqlType
    call: Callable[..., Any] | str
    optional: int = 0
    fixed: tuple[int, ...] = ()
    nullable: bool = False
    element: SqlType = SqlType.UNKNOWN

    def takes(self, types: Sequence[SqlType]) -> bool:
        """Whether the arguments may have these types."""
        most = len(self.arguments)
        if not most - self.optional <= len(types) <= most:
            return False
        free = (SqlType.NULL, SqlType.UNKNOWN)
        return all(
            one in free or one in wanted or (SqlType.DOUBLE in wanted and one in _WIDENED)
            for one, wanted in zip(types, self.arguments, strict=False)
        )


_WIDENED = (SqlType.BIGINT, SqlType.DECIMAL)

FUNCTIONS: Final[tuple[Function, ...]] = (
    Function("upper", (V,), SqlType.VARCHAR, text.upper),
    Function("lower", (V,), SqlType.VARCHAR, text.lower),
    Function("length", (V,), SqlType.BIGINT, "len"),
    Function("length", (L,), SqlType.BIGINT, "len"),
    Function("substr", (V, I, I), SqlType.VARCHAR, text.substring, optional=1),
    Function("left", (V, I), SqlType.VARCHAR, text.left),
    Function("right", (V, I), SqlType.VARCHAR, text.right),
    Function("trim", (V, V), SqlType.VARCHAR, text.trim, optional=1),
    Function("ltrim", (V, V), SqlType.VARCHAR, text.ltrim, optional=1),
    Function("rtrim", (V, V), SqlType.VARCHAR, text.rtrim, optional=1),
    Function("replace", (V, V, V), SqlType.VARCHAR, text.replace),
    Function("split_part", (V, V, I), SqlType.VARCHAR, text.split_part),
    Function("string_split", (V, V), SqlType.LIST, text.split, element=SqlType.VARCHAR),
    Function("starts_with", (V, V), SqlType.BOOLEAN, ".startswith"),
    Function("ends_with", (V, V), SqlType.BOOLEAN, ".endswith"),
    Function("contains", (V, V), SqlType.BOOLEAN, ".__contains__"),
    Function("strpos", (V, V), SqlType.BIGINT, text.place),
    Function("reverse", (V,), SqlType.VARCHAR, lambda one: one[::-1]),
    Function("abs", (I,), SqlType.BIGINT, lambda one: arithmetic.fits(abs(one))),
    Function("abs", (N,), SqlType.DECIMAL, "abs"),
    Function("abs", (D,), SqlType.DOUBLE, "abs"),
    Function("sign", (I,), SqlType.BIGINT, arithmetic.sign),
    Function("sign", (N,), SqlType.BIGINT, arithmetic.sign),
    Function("sign", (D,), SqlType.BIGINT, arithmetic.sign),
    Function("round", (I, I), SqlType.BIGINT, arithmetic.int_rounded),
    Function("round", (I,), SqlType.BIGINT, "int"),
    Function("round", (N, I), SqlType.DECIMAL, arithmetic.decimal_rounded, optional=1),
    Function("round", (D, I), SqlType.DOUBLE, arithmetic.rounded, optional=1),
    Function("floor", (D,), SqlType.DOUBLE, arithmetic.floor),
    Function("ceil", (D,), SqlType.DOUBLE, arithmetic.ceil),
    Function("trunc", (D,), SqlType.DOUBLE, arithmetic.trunc),
    Function("sqrt", (D,), SqlType.DOUBLE, arithmetic.root),
    Function("pow", (D, D), SqlType.DOUBLE, arithmetic.power),
    Function("exp", (D,), SqlType.DOUBLE, arithmetic.exponential),
    Function("ln", (D,), SqlType.DOUBLE, arithmetic.ln),
    Function("log10", (D,), SqlType.DOUBLE, arithmetic.log10),
    Function("log2", (D,), SqlType.DOUBLE, arithmetic.log2),
    Function("isnan", (D,), SqlType.BOOLEAN, lambda one: one != one),
    Function("isinf", (D,), SqlType.BOOLEAN, lambda one: one in (float("inf"), float("-inf"))),
    Function("isfinite", (D,), SqlType.BOOLEAN, lambda one: one - one == 0),
    Function("regexp_matches", (V, V, V), SqlType.BOOLEAN, patterns.matches, 1, (1, 2)),
    Function("regexp_full_match", (V, V, V), SqlType.BOOLEAN, patterns.full_match, 1, (1, 2)),
    Function("regexp_extract", (V, V, I, V), SqlType.VARCHAR, patterns.extract, 2, (1, 2, 3)),
    Function(
        "regexp_extract_all",
        (V, V, I),
        SqlType.LIST,
        patterns.extract_all,
        1,
        (1, 2),
        element=SqlType.VARCHAR,
    ),
    Function("regexp_replace", (V, V, V, V), SqlType.VARCHAR, patterns.replaced, 1, (1, 2, 3)),
    *(Function(name, (M,), SqlType.BIGINT, times.part(name)) for name in times.PARTS),
    Function("date_part", (V, M), SqlType.BIGINT, times.part, fixed=(0,)),
    Function("date_trunc", (V, M), SqlType.TIMESTAMP, times.truncated, fixed=(0,)),
    Function("date_diff", (V, M, M), SqlType.BIGINT, times.boundaries, fixed=(0,)),
    Function("date_sub", (V, M, M), SqlType.BIGINT, times.whole_units, fixed=(0,)),
    Function("last_day", (M,), SqlType.DATE, times.last_day),
    Function("dayname", (M,), SqlType.VARCHAR, times.day_name),
    Function("monthname", (M,), SqlType.VARCHAR, times.month_name),
    Function("epoch", (M,), SqlType.DOUBLE, times.seconds),
    Function("epoch_ms", (M,), SqlType.BIGINT, times.millis),
    Function("epoch_ms", (I,), SqlType.TIMESTAMP, times.of_millis),
    Function("epoch_us", (M,), SqlType.BIGINT, times.micros),
    Function("to_timestamp", (D,), SqlType.TIMESTAMP, times.of_seconds),
    Function("make_timestamp", (I,), SqlType.TIMESTAMP, times.of_micros),
    Function("make_date", (I, I, I), SqlType.DATE, times.made_date),
    Function("strftime", (M, V), SqlType.VARCHAR, times.written, fixed=(1,)),
    Function("strptime", (V, V), SqlType.TIMESTAMP, times.read, fixed=(1,)),
    Function("timezone", (V, (SqlType.TIMESTAMP,)), SqlType.TIMESTAMP, times.in_zone, fixed=(0,)),
    *(
        Function(name, (V, path), SqlType.VARCHAR, call, 0, (1,), nullable=True)
        for name, call in (
            ("json_extract", json_texts.json_at),
            ("json_extract_string", json_texts.text_at),
        )
        for path in (V, I)
    ),
)

ALIASES: Final[Mapping[str, str]] = {
    "ucase": "upper",
    "lcase": "lower",
    "len": "length",
    "char_length": "length",
    "substring": "substr",
    "prefix": "starts_with",
    "suffix": "ends_with",
    "instr": "strpos",
    "ceiling": "ceil",
    "power": "pow",
    "ifnull": "coalesce",
    "split": "string_split",
    "str_split": "string_split",
    "string_to_array": "string_split",
    "array_length": "length",
    "datepart": "date_part",
    "datetrunc": "date_trunc",
    "datediff": "date_diff",
    "datesub": "date_sub",
    "weekday": "dayofweek",
    "weekofyear": "week",
    "dayofmonth": "day",
    "json_extract_path": "json_extract",
    "json_extract_path_text": "json_extract_string",
}
"""Other names of functions that DuckDB has, too."""

OWN: Final[Mapping[str, tuple[int, int]]] = {
    "coalesce": (1, 1000),
    "nullif": (2, 2),
    "if": (3, 3),
    "least": (1, 1000),
    "greatest": (1, 1000),
    "concat": (1, 1000),
    "concat_ws": (2, 1000),
    "try": (1, 1),
}
"""Functions that decide by themselves about NULL and types, and how many arguments they take."""

BY_NAME: Final[Mapping[str, Sequence[Function]]] = {
    name: [one for one in FUNCTIONS if one.name == name]
    for name in dict.fromkeys(one.name for one in FUNCTIONS)
}
UNNEST: Final = ("unnest", "explode")
"""What makes rows of a list, and so is no function."""
NAMES: Final = (*BY_NAME, *OWN, *ALIASES, *UNNEST)

MEANINGS: Final[Mapping[str, str]] = {
    "upper": "in upper case, letter by letter",
    "lower": "in lower case, letter by letter",
    "length": "how many characters, or values of a list",
    "substr": "the part from a place on, counted from 1; negative: from the end",
    "left": "the first characters; of a negative number: all but so many",
    "right": "the last characters; of a negative number: all but so many",
    "trim": "without spaces, or these characters, at both ends",
    "ltrim": "without them at the beginning",
    "rtrim": "without them at the end",
    "replace": "each occurrence of the second text as the third",
    "split_part": "a part of what the second text divides, from 1; empty: there is none",
    "string_split": "the parts that the second text divides, as a list",
    "starts_with": "whether it begins so",
    "ends_with": "whether it ends so",
    "contains": "whether the second text is in it",
    "strpos": "where the second text begins, from 1; 0: nowhere",
    "reverse": "backwards",
    "abs": "without its sign",
    "sign": "-1, 0 or 1",
    "round": "rounded, to so many digits; halves go away from zero",
    "floor": "the next whole number below",
    "ceil": "the next whole number above",
    "trunc": "without what follows the point",
    "sqrt": "the square root; NaN below zero",
    "pow": "a power",
    "exp": "a power of e",
    "ln": "the natural logarithm",
    "log10": "the logarithm to base 10",
    "log2": "the logarithm to base 2",
    "isnan": "whether it is NaN",
    "isinf": "whether it is infinite",
    "isfinite": "whether it is neither",
    "regexp_matches": (
        "whether the pattern is somewhere in it; options: `i` for any case, `s` for a point that"
        " is any character"
    ),
    "regexp_full_match": "whether the pattern is the whole of it",
    "regexp_extract": (
        "what the pattern, or a group of it, is in the text; empty: there is no match"
    ),
    "regexp_extract_all": "all that the pattern, or a group of it, is in the text, as a list",
    "regexp_replace": (
        "the first match as the third text, in which `\\1` is a group; option `g`: all"
    ),
    "year": "the year",
    "quarter": "1 to 4",
    "month": "1 to 12",
    "week": "the week of ISO 8601",
    "day": "the day of the month",
    "dayofweek": "0 is Sunday",
    "isodow": "1 is Monday, 7 is Sunday",
    "dayofyear": "1 to 366",
    "hour": "0 to 23",
    "minute": "0 to 59",
    "second": "0 to 59",
    "millisecond": "of the minute",
    "microsecond": "of the minute",
    "date_part": "the part named as a function above; also `extract(hour FROM at)`",
    "date_trunc": "the start of its `'year'`, `'month'`, `'week'`, `'day'`, `'hour'` …",
    "date_diff": "how many of these begin from the first time to the second",
    "date_sub": "how many of these are whole between them",
    "last_day": "the last day of the month",
    "dayname": "`Sunday` …",
    "monthname": "`January` …",
    "epoch": "seconds since 1970",
    "epoch_ms": "milliseconds since 1970; or the time of them",
    "epoch_us": "microseconds since 1970",
    "to_timestamp": "the time of seconds since 1970, in UTC",
    "make_timestamp": "the time of microseconds since 1970",
    "make_date": "of a year, a month and a day",
    "strftime": (
        "as text, by `%Y` `%y` `%m` `%d` `%H` `%I` `%M` `%S` `%f` `%p` `%j` `%a` `%A` `%b` `%B`"
    ),
    "strptime": "of a text in such a format",
    "timezone": (
        "the local time of `'Europe/Paris'` of a time with an offset; the time in UTC of a local"
        " time, which has none. Also `at AT TIME ZONE 'Europe/Paris'`"
    ),
    "json_extract": (
        "the part of JSON that a name or a path such as `'$.user.tags[0]'` leads to, as JSON;"
        " also `doc -> 'user'`"
    ),
    "json_extract_string": "the same as a text without quotes; also `doc ->> 'user'`",
    "coalesce": "the first of its arguments that is not NULL",
    "nullif": "the first argument; NULL if both are equal",
    "if": "the second argument if the first is true, else the third",
    "least": "the least of its arguments but NULL",
    "greatest": "the greatest of its arguments but NULL",
    "concat": "its arguments as one text, without NULL",
    "concat_ws": "the same with the first between each two",
    "try": "its argument; NULL instead of a failure",
}
"""What a function gives, for people."""
