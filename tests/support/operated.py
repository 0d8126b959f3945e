"""What tests of the operator have in common."""

CODE = {"spec.code": {"files": {"wordcount.py": "class A: ..."}}}
OTHER_CODE = {"spec.code": {"files": {"wordcount.py": "class B: ..."}}}


def summary(cluster):
    ready = cluster.condition("Ready")
    return cluster.status["state"], ready["status"], ready["reason"]


def waiting(reason, message):
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "driver", "state": state}]}
