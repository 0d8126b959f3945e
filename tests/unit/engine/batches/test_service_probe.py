"""When an attempt only asks for a service that was away."""

from fulmen.engine.batches.failures.service_probe import ServiceProbe


def test_what_was_answered_is_tried_with_tuples_until_a_batch_that_has_them_counts():
    probe = ServiceProbe()
    assert not probe.committed()
    probe.failed(is_service_away=True)
    assert probe.is_next
    assert probe.committed()
    for _ in range(2):  # it connects later only, and has tuples each time
        probe.failed(is_service_away=True)
        assert not probe.is_next
    assert not probe.committed()
    probe.failed(is_service_away=True)
    assert probe.is_next
    probe.failed(is_service_away=False)
    assert not probe.is_next
