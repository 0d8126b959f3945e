"""Sources under `fulmen run`: whatever is killed, no message is lost, and none is written twice.

The seed decides what is killed; the moments are those of real processes. Longer ones:
`make soak SOAK_ARGS="--sources kafka"`.
"""

from contextlib import ExitStack

import pytest

from support.soaks.sink_soak import faults
from support.soaks.source_soak import KINDS, KilledSources, maker, soak
from support.soaks.transaction_soak import Figures
from support.suite import seeds

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]


@pytest.mark.matrix(share=2 / 9, name="connectors under kills", cell="from")
@pytest.mark.parametrize("kind", KINDS)
def test_each_message_is_written_whatever_is_killed(tmp_path, kind):
    figures = Figures()
    with ExitStack() as servers:
        make_source = maker(kind, servers)(tmp_path)
        with KilledSources(tmp_path, str(seeds.FIRST), make_source, figures) as killed:
            killed.round()
            killed.drain()
    print(figures)
    assert faults(figures) >= 1


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_each_message_is_written_after_fifty_faults(kind):
    print(soak(kind, seeds.FIRST, 50))
