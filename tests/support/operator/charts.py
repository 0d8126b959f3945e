"""The chart, rendered by helm."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from support.docs.pages import ROOT

CHART = ROOT / "charts" / "fulmen"
HELM = shutil.which("helm", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def helm(*args, fails=False):
    """What helm prints; its errors, if it is to fail."""
    done = subprocess.run([HELM, *args], capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def template(*values, hooks=False, chart=CHART):
    """The objects of the chart by kind, namespace and name, with some values set.

    Args:
        values: What is set.
        chart: The folder of the chart.
        hooks: Take what `helm test` makes, instead of what is installed.
    """
    settings = [part for value in values for part in ("--set", value)]
    text = helm("template", "fulmen", str(chart), "--namespace", "tools", *settings)
    objects = [thing for thing in yaml.load_all(text, yaml.CSafeLoader) if thing]
    return {
        (o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o
        for o in objects
        if hooks == ("helm.sh/hook" in o["metadata"].get("annotations", {}))
    }
