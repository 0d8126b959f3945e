"""A real Prometheus for tests, on a free port; it scrapes every two seconds.

On a busy machine a scrape takes more than one, and what takes longer than the time between two is
no scrape.

Where the binary is absent, tests that use it are skipped and say so (in CI that is a failure).
"""

import json
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from support.runs.spark_runs import wait_until
from support.servers.ports import free_port


def binary(name):
    """The path of `prometheus` or `promtool`."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(
            f"{name} was not tried: it is not on PATH (Debian: apt-get install "
            "--no-install-recommends prometheus)"
        )
    return path


def promtool(*args):
    """What it prints; it has to be content."""
    ended = subprocess.run(
        [binary("promtool"), *args], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@dataclass(frozen=True)
class Prometheus:
    """One that runs.

    Attributes:
        url: Of its API.
    """

    url: str

    def is_ready(self):
        """Whether it has read what it keeps."""
        try:
            urlopen(f"{self.url}/-/ready", timeout=5).close()
        except HTTPError as not_yet:
            not_yet.close()
            return False
        except OSError:
            return False
        return True

    def query(self, promql):
        """The labels and the value of each sample of the answer."""
        result = self._get("query", query=promql)["result"]
        return [(sample["metric"], float(sample["value"][1])) for sample in result]

    def value(self, promql):
        """That of the only sample; None if there is none."""
        samples = self.query(promql)
        assert len(samples) <= 1, samples
        return samples[0][1] if samples else None

    def label_values(self, label, series):
        """What Grafana's `label_values(series, label)` gives."""
        return self._get(f"label/{label}/values", **{"match[]": series})

    def rules(self):
        """The state of each alert's rule."""
        groups = self._get("rules")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}

    def _get(self, path, **parameters):
        url = f"{self.url}/api/v1/{path}?{urlencode(parameters)}"
        try:
            with urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except HTTPError as refused:
            with refused:
                pytest.fail(f"{parameters}: {refused.read().decode()}")


@contextmanager
def running_prometheus(folder, targets, rule_files=()):
    """One with its files in an empty folder.

    Args:
        folder: The folder.
        targets: The labels of each "host:port" whose /metrics it scrapes.
        rule_files: Paths of files with rules.
    """
    program = binary("prometheus")
    config = folder / "prometheus.yml"
    config.write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "2s", "evaluation_interval": "1s"},
                "rule_files": [str(path) for path in rule_files],
                "scrape_configs": [
                    {
                        "job_name": "fulmen",
                        "static_configs": [
                            {"targets": [target], "labels": labels}
                            for target, labels in targets.items()
                        ],
                    }
                ],
            }
        )
    )
    address, log = f"127.0.0.1:{free_port()}", folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            server = Prometheus(f"http://{address}")
            wait_until(lambda: server.is_ready() or process.poll() is not None, "its start")
            assert process.poll() is None, log.read_text()
            yield server
        finally:
            process.kill()
            process.wait()
