"""The kinds of panels and variables of the dashboard, and what is the same in all of them."""

from collections.abc import Mapping
from typing import Any, TypeVar

from grafana_foundation_sdk.builders import common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders.dashboard import QueryVariable, ThresholdsConfig
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    Threshold,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
CHOSEN = 'namespace=~"$namespace", topology="$topology"'
Queries = Mapping[str, str]
"""PromQL by legend, or by column of a table."""
Looks = Mapping[str, Mapping[str, Any]]
"""Grafana's field options of a figure or column, where it is not like the others of its panel."""

TREES = 'OF, source_component="", component!="__acker"'
"""Labels of what spouts count, a tree each: see docs/metrics.md."""

EACH = "{{component}}"

Panel = TypeVar("Panel", stat.Panel, timeseries.Panel, table.Panel)


def promql(text: str) -> str:
    """The query as Grafana runs it.

    Args:
        text: `OF` stands for the labels of the topology that was chosen, `[R]` for the time that a
            rate is of: a few scrapes, or more if a pixel is more.
    """
    return text.replace("{OF", "{" + CHOSEN).replace("[R]", "[$__rate_interval]")


def quantile(share: float, histogram: str, by: str = "") -> str:
    """PromQL of a quantile of a histogram, of all its series or by a label."""
    labels = f"le, {by}" if by else "le"
    rate = f"rate({histogram}_bucket{{OF}}[R])"
    return f"histogram_quantile({share}, sum by ({labels}) ({rate}))"


def mean(histogram: str, by: str) -> str:
    """PromQL of the mean of a histogram by a label."""
    total, count = (
        f"sum by ({by}) (rate({histogram}_{part}{{OF}}[R]))" for part in ("sum", "count")
    )
    return f"{total} / {count}"


def per_minute(counter: str, by: str) -> str:
    """PromQL of how often something rare happens, by a label."""
    return f"60 * sum by ({by}) (rate({counter}{{OF}}[R]))"


def limits(first: str, *steps: tuple[float, str]) -> ThresholdsConfig:
    """Colours: the first, and others from some value on."""
    colours = [Threshold(None, first), *(Threshold(value, colour) for value, colour in steps)]
    return ThresholdsConfig().steps(colours)


GOOD, WARNING, BAD = "green", "orange", "red"
NONE_IS_GOOD = limits(GOOD, (1e-9, BAD))
CAPACITY = limits(GOOD, (0.8, WARNING), (0.95, BAD))


def choice(label: str, metric: str, or_all: bool = False) -> QueryVariable:
    """A variable with the values of a label, and maybe all of them or none at all."""
    query: dict[str, object] = {"query": f"label_values({metric}, {label})", "refId": label}
    made = QueryVariable(label).label(label.capitalize()).query(query).datasource(DATASOURCE)
    made.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
    if or_all:  # `.*` matches what has no such label, too
        made.include_all(True).all_value(".*").current(VariableOption(True, "All", "$__all"))
    return made


def figure(
    title: str,
    text: str,
    unit: str,
    queries: Queries,
    *,
    width: int,
    colours: ThresholdsConfig | None = None,
    is_history: bool = True,
    looks: Looks | None = None,
) -> stat.Panel:
    """A few large figures.

    Args:
        title: Of the panel.
        text: What they are, and what to do if they are bad.
        unit: Grafana's name of the unit.
        queries: A figure each.
        width: A 24th of the page is 1.
        colours: By value; else they are blue.
        is_history: Whether the past is drawn behind them.
        looks: Of single figures.
    """
    panel = _panel(stat.Panel(), title, text, unit, queries, looks).span(width).height(5)
    return (
        panel.thresholds(colours or limits("blue"))
        .color_mode(BigValueColorMode.VALUE)
        .graph_mode(BigValueGraphMode.AREA if is_history else BigValueGraphMode.NONE)
        .text_mode(BigValueTextMode.AUTO)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def lines(
    title: str,
    text: str,
    unit: str,
    queries: Queries,
    *,
    width: int = 8,
    limit: ThresholdsConfig | None = None,
    is_stacked: bool = False,
) -> timeseries.Panel:
    """Lines over time. The arguments are like those of `figure`.

    Args:
        title: Of the panel.
        text: What they are, and what to do if they are bad.
        unit: Grafana's name of the unit.
        queries: One or more lines each.
        width: A 24th of the page is 1.
        limit: Drawn as areas behind the lines.
        is_stacked: Whether the lines are parts of a whole.
    """
    panel = _panel(timeseries.Panel(), title, text, unit, queries).span(width).height(8).min(0)
    legend = common.VizLegendOptions().show_legend(True)
    legend.display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    tooltip = common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)
    panel.legend(legend).tooltip(tooltip).line_width(1).fill_opacity(30 if is_stacked else 8)
    panel.show_points(VisibilityMode.NEVER)
    if is_stacked:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
    if limit:
        style = common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.AREA)
        panel.thresholds(limit).thresholds_style(style)
    return panel


def columns(title: str, text: str, of: str, queries: Queries, looks: Looks) -> table.Panel:
    """A table with a row for each value of a label.

    Args:
        title: Of the panel.
        text: What is in it, and what to do if it is bad.
        of: The label, which every query is by.
        queries: By column.
        looks: Of columns.
    """
    panel = _panel(table.Panel(), title, text, "short", queries, looks, as_table=True)
    panel.span(24).height(8)
    names = {f"Value #{_ref(n)}": column for n, column in enumerate(queries)}
    panel.with_transformation(DataTransformerConfig("merge", options={}))
    panel.with_transformation(
        DataTransformerConfig(
            "organize",
            options={
                "excludeByName": {"Time": True},
                "indexByName": {name: n for n, name in enumerate([of, *names])},
                "renameByName": names,
            },
        )
    )
    return panel


def _panel(
    panel: Panel,
    title: str,
    text: str,
    unit: str,
    queries: Queries,
    looks: Looks | None = None,
    as_table: bool = False,
) -> Panel:
    panel.title(title).description(text).unit(unit).datasource(DATASOURCE)
    for n, (legend, query) in enumerate(queries.items()):
        panel.with_target(_target(_ref(n), legend, query, as_table))
    for name, options in (looks or {}).items():
        panel.override_by_name(name, [DynamicConfigValue(k, v) for k, v in options.items()])
    return panel


def _target(ref: str, legend: str, query: str, as_table: bool) -> prometheus.Dataquery:
    target = prometheus.Dataquery().ref_id(ref).expr(promql(query)).datasource(DATASOURCE)
    if as_table:
        return target.instant().format(PromQueryFormat.TABLE)
    return target.range().format(PromQueryFormat.TIME_SERIES).legend_format(legend)


def _ref(n: int) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[n]
