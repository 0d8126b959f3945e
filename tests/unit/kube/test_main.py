"""What a container runs, by its arguments."""

import pytest

from fulmen.kube import __main__ as kube_main
from fulmen.kube.contract.endings import Ended, ExitCode

VALID = Ended(reason="Valid", message="topology 'shop' is valid")


@pytest.fixture
def run(monkeypatch):
    """Runs it with such arguments. Gives the exit code, how preflights were called, and the end."""

    def run_with(*args):
        called, written = [], []

        def preflight(**options):
            called.append(options)
            return ExitCode.FINISHED, VALID

        monkeypatch.setattr("sys.argv", ["fulmen.kube", *args])
        monkeypatch.setattr(kube_main, "preflight", preflight)
        monkeypatch.setattr(kube_main, "write_ended", written.append)
        monkeypatch.setattr(kube_main.logs, "set_up", lambda: None)
        return kube_main.main(), called, written

    return run_with


@pytest.mark.parametrize(
    ("args", "options"),
    [(("preflight",), {}), (("preflight", "worker"), {"opens": "worker"})],
)
def test_a_preflight_opens_what_it_is_told_to(run, args, options):
    assert run(*args) == (0, [options], [VALID])


def test_what_it_does_not_know_is_an_error(run):
    code, called, [ended] = run("preflight", "executor")
    assert (code, called) == (1, [])
    assert ended.message == "the argument must be driver, preflight or executor"
