"""Why a topology is as it is: from all that is known of it to sentences with cures. Pure.

`cluster` has what follows from a status and from events, `run` what follows from the
figures of a driver or from a report.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fulmen.cli.cluster.kubectl import Json
from fulmen.cli.display.served_figures import TopologyView
from fulmen.cli.display.why.cluster import (
    condition_findings,
    error_findings,
    event_findings,
    scaling_findings,
    scaling_now,
)
from fulmen.cli.display.why.finding import Finding
from fulmen.cli.display.why.run import (
    RunReport,
    failures_of_report,
    failures_of_view,
    latency_of_report,
    time_findings,
    wait_findings,
)
from fulmen.visible import visible

NOTHING = "nothing is wrong that can be seen from here"


@dataclass(frozen=True)
class Known:
    """All that is known of a topology, as far as it could be read, and what could not be."""

    now: float
    topology: Json | None = None
    events: Sequence[Json] = ()
    view: TopologyView | None = None
    report: RunReport | None = None
    unknown: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """The answers to one question, what matters most first."""

    title: str
    findings: Sequence[Finding]


def why(known: Known) -> list[Section]:
    """The findings, by question; questions without an answer are left out."""
    topology, view, report = known.topology, known.view, known.report
    state: list[Finding] = []
    waits: list[Finding] = []
    fails: list[Finding] = []
    lately: list[Finding] = []
    time: list[Finding] = []
    scales: list[Finding] = []
    if topology is not None:
        state += condition_findings(topology, known.now)
        state += scaling_findings(topology)
        scales += scaling_now(topology)
        lately += event_findings(known.events, known.now, state)
        if view is None:
            fails += error_findings(topology)
    if view is not None:
        waits += wait_findings(view)
        fails += failures_of_view(view)
        time += time_findings(view)
    if report is not None:
        fails += failures_of_report(report)
        time += latency_of_report(report)
    if not (state or waits or fails):
        state.append(Finding(NOTHING))
    sections = [
        Section("How it is", state),
        Section("How it scales", scales),
        Section("What it waits for", waits),
        Section("What fails", fails),
        Section("What happened lately", lately),
        Section("Where the time goes", time),
        Section("What is not known", [Finding(text) for text in known.unknown]),
    ]
    return [section for section in sections if section.findings]


def why_lines(sections: Sequence[Section]) -> Iterator[str]:
    """The page."""
    for number, section in enumerate(sections):
        if number:
            yield ""
        yield section.title
        for finding in section.findings:
            yield f"- {visible(finding.text)}"
            if finding.cure:
                yield f"  What to do: {finding.cure}"
