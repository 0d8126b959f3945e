"""Numbers, times and lines as people read them. Pure."""

from rich.text import Text

from fulmen.visible import visible


def count(number: float) -> str:
    """A number with its thousands apart; the decimals of small rates count, too."""
    return f"{number:,.1f}" if 0 < number < 10 and number != int(number) else f"{number:,.0f}"


def several(number: float, noun: str) -> str:
    """So many of something."""
    return f"{count(number)} {noun}" if number == 1 else f"{count(number)} {noun}s"


def milliseconds(value: float | None) -> str:
    """A latency with its unit; a dash if there is none."""
    if value is None:
        return "-"
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    if 0 < value < 0.1:
        return f"{1000 * value:.1f} µs"
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"


def age(seconds: float) -> str:
    """Format an age, in the largest units that it has."""
    if seconds < 120:
        return milliseconds(1000 * seconds)
    for size, unit, smaller, name in (
        (31_557_600, "years", 2_629_800, "months"),
        (86_400, "days", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            text = f"{whole:,.0f} {unit}" if whole != 1 else f"1 {unit.removesuffix('s')}"
            rest = int(rest // smaller)
            return f"{text} {rest} {name}" if rest and whole < 10 else text
    raise AssertionError(seconds)


def whole_age(seconds: float) -> str:
    """Format an age that is known to the second only."""
    return f"{int(seconds)} s" if seconds < 120 else age(int(seconds))


def elapsed(seconds: float) -> str:
    """A time since the start."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min {rest:02} s"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


Parts = tuple[str | tuple[str, str], ...]


def item(label: str, value: str, style: str = "bold") -> Parts:
    """A figure with its name, for `line`."""
    return (f"{label} ", "dim"), (value, style), "   "


def sentence(text: str, style: str = "") -> Text:
    """A sentence with what somebody's data or code may have said."""
    return Text(visible(text), style)


def line(*items: Parts) -> Text:
    """Figures side by side; what a terminal has no room for is in the line below."""
    parts = (part for item in items for part in item)
    return Text.assemble(*parts)
