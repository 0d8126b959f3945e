"""`fulmen run --metrics-port`."""

import socket
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from fulmen.cli.commands import run as run_module
from fulmen.engine.worker.in_process import InProcessJobs
from fulmen.metrics import MetricsServer
from support.cli.cli_runs import write_letters
from support.metrics.scrapes import Scrape, check_consistent


@pytest.fixture
def scraped(monkeypatch):
    """Servers of a run, and what was scraped from them when its jobs had ended."""
    servers, scrapes = [], []

    class Server(MetricsServer):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            servers.append(self)

    class Jobs(InProcessJobs):
        def close(self):
            super().close()
            if servers:
                with urllib.request.urlopen(f"{servers[0].url}metrics") as answer:
                    scrapes.append(Scrape(answer.read().decode()))

    monkeypatch.setattr(run_module, "MetricsServer", Server)
    monkeypatch.setattr(run_module, "make_jobs", lambda *_, **__: Jobs())
    return servers, scrapes


def test_metrics_are_served_while_it_runs(fulmen, tmp_path, scraped):
    servers, scrapes = scraped
    file = write_letters(tmp_path)
    result = fulmen("run", file, "--in-process", "--until-drained", "--metrics-port", "0")
    assert result.exit_code == 0
    (server,) = servers
    assert f"metrics and the topology's page: http://127.0.0.1:{server.port}/\n" in result.stderr
    check_consistent(scrapes[-1])
    assert scrapes[-1].sum("fulmen_executed_total", component="count") == 2000
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(server.url)


def test_without_the_option_nothing_is_served(fulmen, tmp_path, scraped):
    servers, _ = scraped
    result = fulmen("run", write_letters(tmp_path), "--in-process", "--until-drained")
    assert (result.exit_code, servers) == (0, [])
    assert "metrics" not in result.output


def test_a_port_that_is_taken_is_told(fulmen, tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        result = fulmen("run", write_letters(tmp_path), "--in-process", "--metrics-port", str(port))
    assert result.exit_code == 1
    assert result.output == (
        f"Error: metrics: can't listen on 127.0.0.1, port {port}: Address already in use. Choose "
        "another port; 0 takes a free one.\n"
    )
