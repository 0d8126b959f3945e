"""What anybody may write into a topology is read, however deep, and refused by a condition."""

import subprocess
import sys

from support.docs.pages import ROOT

DEEP = """
import json
from fulmen.topology.reading.yaml_limits import DEEPEST_OBJECT, allow_deep_objects
from support.operator.fake_cluster import FakeCluster

allow_deep_objects()
for begin, end in ("[", "]"), ('{"a":', "}"):
    deep = json.loads(begin * (DEEPEST_OBJECT - 4) + "1" + end * (DEEPEST_OBJECT - 4))
    cluster = FakeCluster()
    cluster.change({"spec.config": {"x": deep}})
    cluster.settle()
    print(cluster.condition("SpecAccepted")["reason"], cluster.condition("SpecAccepted")["message"])
    print(cluster.names("Pod"))
"""


def test_a_topology_as_deep_as_the_api_server_takes_it_is_refused_with_the_reason():
    done = subprocess.run(
        [sys.executable, "-c", DEEP],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    told = (
        "InvalidSpec spec.config: the document is too large: lists and mappings are nested deeper"
        " than 100 levels.\n[]\n"
    )
    assert done.stdout == 2 * told
