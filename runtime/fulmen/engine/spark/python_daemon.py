"""The process from which Spark forks the Python processes of workers, with their imports done.

Spark's own daemon leaves all imports to the forked process: a new worker then takes some seconds
of CPU before it runs anything, and so does the batch after a kill. Here they are made once. Only
modules of Fulmen and of libraries: those of authors may open connections or start threads, which
no fork may share.
"""

from pyspark import daemon

from fulmen.engine.spark.rdds import stage_runner as stage_runner
from fulmen.engine.worker import worker as worker

if __name__ == "__main__":
    daemon.manager()
