"""What Fulmen costs and carries: `docs/measurements.md` says how to call each, and has the results.

`python -m benchmarks` measures the word count of `topologies` on this machine. Other modules
measure one thing each; `cluster` does so on a Kubernetes cluster, `nexmark` and `recipes` whole
sets of jobs. `machine` and `running` are what most of them need.
"""
