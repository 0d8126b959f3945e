"""What a driver's pod tells, and that it counts as a sign of life."""

import threading

from fulmen.kube.driver.event_log import EventLog


def test_what_another_thread_tells_is_shown_and_is_no_sign_of_life_of_the_batches():
    log = EventLog()
    log.heard = 0.0
    teller = threading.Thread(target=log.note, args=("spout 'a', task 1: open runs since …",))
    teller.start()
    teller.join()
    assert log.latest.startswith("spout 'a', task 1: open runs since")
    assert log.heard == 0.0
    log.note("no worker is left: waiting until one is back")
    assert log.heard > 0.0
