"""What conditions can say has been said, of a topology that the other tests had on the cluster."""

from support.reasons import explained

SHORT = {"Rebalancing"}
"""May be over before the driver's next report."""
ALIKE = {"ErrImagePull", "ImagePullBackOff"}
"""The kubelet says one after the other."""


def test_every_reason_was_caused(seen):
    assert sorted(explained() - seen.reasons - SHORT - ALIKE) == []
    assert seen.reasons & ALIKE
