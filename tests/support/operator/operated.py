"""What tests of the operator have in common."""

import base64
import hashlib

CODE = {"spec.code": {"files": {"wordcount.py": "class A: ..."}}}
OTHER_CODE = {"spec.code": {"files": {"wordcount.py": "class B: ..."}}}


def summary(cluster):
    ready = cluster.condition("Ready")
    return cluster.status["state"], ready["status"], ready["reason"]


def waiting(reason, message):
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "driver", "state": state}]}


def put_parts(cluster, names, *contents):
    """ConfigMaps with the parts of an archive; what a topology says of it."""
    for number, (name, content) in enumerate(zip(names, contents, strict=True), 1):
        part = {f"code.tar.gz.{number}": base64.b64encode(content).decode()}
        thing = {"metadata": {"name": name}, "binaryData": part}
        cluster.api._store(cluster._place("ConfigMap", name), thing)
    sha256 = hashlib.sha256(b"".join(contents)).hexdigest()
    return {"spec.code": {"configMaps": names, "sha256": sha256}}
