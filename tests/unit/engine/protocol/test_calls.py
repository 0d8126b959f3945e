"""Calls of authors' code that others can read, also when their process has ended."""

import os
import signal
import struct
import threading

import pytest

from fulmen.engine.protocol.callbacks.call_names import method_of, name_of, progress_of
from fulmen.engine.protocol.callbacks.calls import Calls, left_in, under_way_in


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "calls"


def in_a_process(folder, code):
    """Run `code(calls)` in a process of its own; gives its id as soon as it has run."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        try:
            calls = Calls()
            calls.keep_in(folder)
            code(calls)
            os.write(writer, b"x")
            signal.pause()
        finally:
            os._exit(0)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    return process


def kill(process):
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def named(calls):
    return [(call.task, call.callback) for call in calls]


def test_a_call_is_seen_while_it_lasts_and_told_once_when_its_process_was_killed(folder):
    process = in_a_process(folder, lambda calls: calls.begin(3, "next_tuple"))
    assert named(under_way_in(folder)) == [(3, "next_tuple")]
    kill(process)
    assert named(left_in(folder)) == [(3, "next_tuple")]
    assert named(left_in(folder)) == []


def test_a_process_between_two_calls_leaves_nothing_not_even_its_file(folder):
    process = in_a_process(folder, lambda calls: calls.end(calls.begin(3, "ack")))
    assert under_way_in(folder) == []
    assert list(left_in(folder)) == []
    assert len(list(folder.iterdir())) == 1
    kill(process)
    assert list(left_in(folder)) == []
    assert list(folder.iterdir()) == []


def test_the_call_around_another_one_goes_on_when_that_ends():
    calls = Calls()
    outer = calls.begin(3, "next_tuple")
    calls.end(calls.begin(3, "ack"))
    assert named(calls.under_way()) == [(3, "next_tuple")]
    calls.end(outer)
    assert calls.under_way() == []


def test_each_thread_has_a_call_and_one_that_has_ended_has_none():
    calls, go_on = Calls(), threading.Event()

    def work(task):
        calls.begin(task, "execute")
        go_on.wait()

    threads = [threading.Thread(target=work, args=(task,)) for task in range(100)]
    for thread in threads:
        thread.start()
    assert len(calls.under_way()) > 50
    go_on.set()
    for thread in threads:
        thread.join()
    del thread, threads
    assert calls.under_way() == []


def test_a_folder_that_is_not_there_has_no_calls(folder):
    assert under_way_in(folder) == list(left_in(folder)) == []


def test_a_name_that_is_too_long_is_cut_off(folder):
    process = in_a_process(folder, lambda calls: calls.begin(3, "long" * 20))
    kill(process)
    assert named(left_in(folder)) == [(3, ("long" * 20)[:51])]


def test_a_call_that_is_half_written_is_not_told(tmp_path):
    (tmp_path / "1").write_bytes(struct.pack("<id52p", 17, 0.0, b""))
    assert under_way_in(tmp_path) == []


def test_a_call_says_how_far_it_is_and_begins_no_later_for_it(folder):
    def code(calls):
        calls.reached("nothing is under way")
        calls.begin(3, "restoring self.state")
        calls.reached("43 % of it is read")
        calls.reached("100 % of it is read")

    process = in_a_process(folder, code)
    [call] = under_way_in(folder)
    assert (method_of(call.callback), progress_of(call.callback)) == (
        "restoring self.state",
        "100 % of it is read",
    )
    kill(process)
    assert named(left_in(folder)) == [(3, call.callback)]
    assert progress_of(name_of("on_timer", "a key", 1)) == ""
