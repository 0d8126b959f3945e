"""The classes that Spark's JVMs load, kept ready in a file: Java's class data sharing (JEP 310).

A JVM that maps them need not unpack, parse and verify them, which is half of the CPU time until a
first job ends. engine/spark/class_training.py makes the file, once for each Python environment.
Without it everything works, but starts more slowly: and so does a JVM that finds that it does not
fit.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fulmen.errors import FulmenError

FOLDER = Path(os.environ.get("FULMEN_CLASSES") or f"{sys.prefix}/share/fulmen/classes")
"""Goes with the environment whose jars it is made of."""
FIRST_WITHOUT = 21
"""Seen with 17 and 21: the newer Java refuses an archive if the class path has a jar twice, and
Spark's launcher puts one in front that is in its folder as well."""


@dataclass(frozen=True)
class ClassArchive:
    """Where the file is.

    Attributes:
        folder: The folder of the archive.
    """

    folder: Path = FOLDER

    @property
    def file(self) -> Path:
        """The archive that JVMs map."""
        return self.folder / "spark.jsa"

    @property
    def conf_folder(self) -> Path:
        """Stands for Spark's folder of settings, and is empty.

        It is the first on the class path, and the class path has to be the one of the making.
        """
        return self.folder / "conf"

    @property
    def class_path(self) -> Path:
        """Holds that class path, for JVMs that Spark's launcher does not start."""
        return self.folder / "class-path"

    @property
    def made_for(self) -> Path:
        """Holds the fingerprint of the Java and the jars that it was made for."""
        return self.folder / "made-for"

    def fits(self, java_home: Path, jars: Path) -> bool:
        """Whether it is there, and was made for these."""
        try:
            return self.made_for.read_text(encoding="utf-8") == fingerprint(java_home, jars)
        except OSError:
            return False


def spark_jars() -> Path:
    """The jars of the Spark that comes with pyspark."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise FulmenError("Spark: pyspark is not installed in this Python environment")
    return Path(found.origin).parent / "jars"


def fingerprint(java_home: Path, jars: Path) -> str:
    """A short text that differs if anything differs that the JVM compares. OSError without jars."""
    seen = [str(java_home), (java_home / "release").read_text(encoding="utf-8"), str(jars)]
    for jar in sorted(jars.iterdir()):
        status = jar.stat()
        seen.append(f"{jar.name} {status.st_size} {int(status.st_mtime)}")
    return hashlib.sha256("\n".join(seen).encode()).hexdigest()
