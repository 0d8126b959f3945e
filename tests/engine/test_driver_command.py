"""The command of the driver's JVM, beside that of Spark's launcher."""

import os
import subprocess
from pathlib import Path

from fulmen.engine.jvm import spark_conf
from fulmen.engine.jvm.class_archive import spark_jars
from fulmen.engine.jvm.driver_command import class_path, driver_command
from fulmen.engine.jvm.java import find_java


def command_of_launcher(java_home, conf_folder, launch):
    """What Spark's launcher would run."""
    jars = spark_jars()
    settings = [word for name, value in launch.items() for word in ("--conf", f"{name}={value}")]
    printed = subprocess.run(
        [
            *(java_home / "bin" / "java", "-Xmx128m", "-cp", f"{jars}/*"),
            *("org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"),
            *(*settings, "pyspark-shell"),
        ],
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("SPARK")},
            "JAVA_HOME": str(java_home),
            "SPARK_HOME": str(jars.parent),
            "SPARK_CONF_DIR": str(conf_folder),
            "SPARK_SCALA_VERSION": "2.13",
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    return printed.partition("\0\n")[2].split("\0")[:-1]


def test_it_is_that_of_sparks_launcher(tmp_path):
    java_home, conf_folder = find_java().path, tmp_path / "conf"
    conf_folder.mkdir()
    given = {"spark.driver.extraJavaOptions": "-Dquoted='one two' -Da=b", "spark.jars": "a.jar"}
    classes = Path("/some/classes.jsa")
    launch = spark_conf.at_launch(
        spark_conf.complete(given, 2, 2, tmp_path, tmp_path / "logs", classes)
    )
    ours = driver_command(java_home, class_path(conf_folder, spark_jars()), launch)
    theirs = command_of_launcher(java_home, conf_folder, launch)
    assert sorted(ours) == sorted(theirs)  # Spark orders its settings by a hash
    assert ours[: ours.index("--conf")] == theirs[: theirs.index("--conf")]
    assert ours[-1] == theirs[-1]
