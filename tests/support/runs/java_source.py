"""Runs a Java source file, to compare with what Java itself says."""

import functools
import os
import shutil
import subprocess

import pytest


@functools.cache
def compiler():
    """The path of a `java` that can run source files, or why there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None) or shutil.which("java")
    if java is None:
        return None, "there is no java"
    listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False)
    if "jdk.compiler" not in listed.stdout:
        return None, f"{java} has no compiler: it is a runtime only"
    return java, None


def run_java(folder, name, source, stdin):
    """What the class `name` prints, as lines. Skips the test if no Java can compile it."""
    java, why_not = compiler()
    if java is None:
        pytest.skip(why_not)
    file = folder / f"{name}.java"
    file.write_text(source, encoding="utf-8")
    ran = subprocess.run(
        [java, "-XX:TieredStopAtLevel=1", str(file)],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()
