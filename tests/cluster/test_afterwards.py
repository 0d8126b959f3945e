"""What all other tests together have caused. Runs last, and only if all of them were selected."""

from fulmen_operator.manifests.rights import driver_role
from support.cluster.reasons import explained

SHORT = {"Rebalancing", "EarlierTopologyEnds"}
"""May be over before the driver's next report, or before the operator looks."""
ALIKE = {"ErrImagePull", "ImagePullBackOff"}
"""The kubelet says one after the other."""


def test_every_reason_was_caused(seen):
    assert sorted(explained() - seen.reasons - SHORT - ALIKE) == []
    assert seen.reasons & ALIKE


def test_drivers_have_used_all_that_their_role_gives_them(operator, requests):
    """The driver itself and Spark, each under the name that it gives to the API server.

    It decides on each request by itself, and test_rights.py has it refuse each of them for want of
    its verb.
    """
    rules = driver_role("numbered")
    given = {(r, verb) for rule in rules for r in rule["resources"] for verb in rule["verbs"]}
    used = requests.asked("fulmen-driver", "fabric8")
    assert sorted(given - used) == []
