"""The contract between operator and driver: names, files, exit codes, messages. Pure.

Operator and driver may be of different versions: an upgrade of the operator does not restart a
running driver. So both ignore fields that they don't know, and nothing here is ever removed.

Here is what labels, files and ports are called; `revisions` is what the operator tells a driver,
`reports` what the driver tells while it runs, `endings` how it ends. Uses `kube.load`,
`kube.message` and `topology`. Used by the operator and by what runs in pods.
"""

from typing import Final

SCHEMA_VERSION: Final = 1

# ---- Labels and annotations

GROUP: Final = "fulmen.dev"
PLURAL: Final = "topologies"
VERSION: Final = "v1alpha1"

NAME_LABEL: Final = "app.kubernetes.io/name"
INSTANCE_LABEL: Final = "app.kubernetes.io/instance"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
TOPOLOGY_LABEL: Final = "fulmen.dev/topology"
ATTEMPT_LABEL: Final = "fulmen.dev/attempt"
WORKER_LABEL: Final = "fulmen.dev/worker"
"""The numbers of a pod's workers, such as `2` or `2-3`. The driver sets it, when it knows them."""

APP_NAME: Final = "fulmen"
MANAGER: Final = "fulmen-operator"
DRIVER: Final = "driver"
WORKER: Final = "worker"
PREFLIGHT: Final = "preflight"

RUNNING: Final = "running"
"""The message of the condition Ready when there is nothing to tell."""

REPORT_ANNOTATION: Final = "fulmen.dev/report"
PAUSED_ANNOTATION: Final = "fulmen.dev/paused"
ACCEPT_LOSS_ANNOTATION: Final = "fulmen.dev/accept-checkpoint-loss"
ADOPT_ANNOTATION: Final = "fulmen.dev/adopt"

# ---- Containers

DRIVER_CONTAINER: Final = "driver"
WORKER_CONTAINER: Final = "worker"
PREFLIGHT_CONTAINER: Final = "preflight"
STATE_CONTAINER: Final = "state"
"""Answers questions about the state, beside the driver."""
WORKER_PREFLIGHT_CONTAINER: Final = "preflight-worker"
"""Runs before the other one, if the workers have an image of their own or instances are opened."""
DRIVER_COMMAND: Final = "driver"
EXECUTOR_COMMAND: Final = "executor"
PREFLIGHT_COMMAND: Final = "preflight"
USER_ID: Final = 185

METRICS_PORT: Final = 9464
METRICS_PORT_NAME: Final = "metrics"
SPARK_PORT: Final = 7078
BLOCK_MANAGER_PORT: Final = 7079
POD_PORTS: Final = (SPARK_PORT, BLOCK_MANAGER_PORT)
"""The ports on which the pods of a topology connect to each other."""
HEALTH_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"

NAMESPACE_ENV: Final = "FULMEN_NAMESPACE"
TOPOLOGY_ENV: Final = "FULMEN_TOPOLOGY"
UID_ENV: Final = "FULMEN_UID"
ATTEMPT_ENV: Final = "FULMEN_ATTEMPT"
POD_NAME_ENV: Final = "FULMEN_POD_NAME"
POD_IP_ENV: Final = "FULMEN_POD_IP"
METRICS_TOKEN_ENV: Final = "FULMEN_METRICS_TOKEN"
"""The token that whoever asks a server in the pod has to show."""
CODE_URI_ENV: Final = "FULMEN_CODE_URI"
CODE_SHA256_ENV: Final = "FULMEN_CODE_SHA256"
"""Variables with the place of code in a store, and the digest that it must have."""

# ---- Files

CODE_FOLDER: Final = "/opt/fulmen/code"
UNPACKED_FOLDER: Final = "/var/fulmen/code"
"""The folder to which a container unpacks an archive; `entrypoint` has the same one for workers."""
SECRET_FILE: Final = "/etc/fulmen/auth/secret"
SECRET_KEY: Final = "secret"
CANDIDATE_FILE: Final = "/etc/fulmen/candidate/candidate.json"
CANDIDATE_KEY: Final = "candidate.json"
CHECKPOINT_FOLDER: Final = "/checkpoint"
CHECKPOINT_URI: Final = "file:///checkpoint"
TEMP_FOLDER: Final = "/tmp"
WORK_FOLDER: Final = "/var/fulmen"
SPARK_FOLDER: Final = "/var/fulmen/spark"
STATE_FOLDER: Final = "/var/fulmen/state"
STATE_FOLDER_ENV: Final = "FULMEN_STATE_FOLDER"
"""The environment variable by which workers find it, if keyed state is on disk."""
SPARK_VOLUME: Final = "spark-local-dir-1"
"""The volume at SPARK_FOLDER in worker pods: Spark takes volumes of that name for its own."""
LOG_FILE: Final = "/var/fulmen/spark.log"
TERMINATION_FILE: Final = "/dev/termination-log"
REVISION_KEY: Final = "revision.json"

GRACE_SECONDS: Final = 30
"""Seconds on top of messageTimeoutSeconds for a driver's pod to end."""
REPORT_SECONDS: Final = 5
"""The least time between two reports."""
FIGURES_SECONDS: Final = 20
"""The least seconds between reports that differ only in figures that change with every batch."""
REPORT_BYTES: Final = 64 * 1024
ENDED_BYTES: Final = 4096
"""The most bytes that the kubelet takes of a termination message."""
