"""Each message of validation, whole."""

import pytest

from fulmen.topology.validation.check import check
from support.cli.documents import ABSENT, WORD_COUNT, word_count

COMPONENTS = "support.parts.components"
COUNT = {"name": "x", "class": f"{COMPONENTS}.Count"}
SHUFFLE = {"type": "shuffle"}


def from_split(stream="default", **grouping):
    return {"from": "split", "stream": stream, "grouping": grouping}


def texts(document, **kwargs):
    return [str(problem) for problem in check(document, **kwargs).problems]


OWN_VARIABLE = (
    "is Fulmen's own, as all FULMEN_ variables but FULMEN_LOG_FORMAT, FULMEN_LOG_LEVEL, "
    "FULMEN_METRICS_HOSTS, FULMEN_METRICS_TOKEN, FULMEN_TRACEBACK. Take a name that does not begin "
    "with FULMEN_."
)
NOT_READ = (
    "spec.code.uri: the classes are in an archive in a store, which was not read, so they were not"
    " checked. Name a folder with a copy of its files: --code-folder."
)
PARTS_NOT_READ = NOT_READ.replace("code.uri", "code.configMaps").replace(
    "an archive in a store", "ConfigMaps of a cluster"
)
MISSHAPEN = {
    "list": ([1], "the document is a list, but must be a mapping with apiVersion: "
             "fulmen.dev/v1alpha1, kind: Topology, metadata and spec."),
    "nothing": (None, "the document is empty, but must be a mapping with apiVersion: "
                "fulmen.dev/v1alpha1, kind: Topology, metadata and spec."),
    "other-kind": ({"kind": "Deployment"}, "kind: kind is 'Deployment', but must be Topology. "
                   "A topology begins with kind: Topology."),
    "no-kind": ({}, "kind: 'kind' is missing. A topology begins with kind: Topology."),
}  # fmt: skip


@pytest.mark.parametrize(("document", "text"), MISSHAPEN.values(), ids=MISSHAPEN.keys())
def test_what_is_no_topology_at_all(document, text):
    assert texts(document) == [text]


FIELDS = {
    "no-api-version": (
        {"apiVersion": ABSENT},
        "apiVersion: 'apiVersion' is missing. Add apiVersion: fulmen.dev/v1alpha1.",
    ),
    "other-api-version": (
        {"apiVersion": "fulmen.dev/v1"},
        "apiVersion: apiVersion is 'fulmen.dev/v1', but must be fulmen.dev/v1alpha1. "
        "Did you mean 'fulmen.dev/v1alpha1'?",
    ),
    "no-metadata": (
        {"metadata": ABSENT},
        "metadata: 'metadata' is missing. Add metadata: {name: word-count}.",
    ),
    "no-topology-name": (
        {"metadata": {}},
        "metadata.name: 'name' is missing. Add one, such as name: word-count.",
    ),
    "topology-name": (
        {"metadata.name": "WordCount"},
        "metadata.name: name is 'WordCount', but must consist of small letters, digits and '-', "
        "begin with a letter and not end with '-'.",
    ),
    "long-topology-name": (
        {"metadata.name": "a" * 41},
        "metadata.name: name has 41 characters, but at most 40 are allowed.",
    ),
    "no-spec": (
        {"spec": ABSENT},
        "spec: 'spec' is missing. Add it, with the spouts and bolts.",
    ),
    "unknown-field": (
        {"spec.maxSpoutPnding": 5},
        "spec.maxSpoutPnding: there is no field 'maxSpoutPnding'. Did you mean 'maxSpoutPending'?",
    ),
    "python-spelling": (
        {"spec.max_spout_pending": 5},
        "spec.max_spout_pending: there is no field 'max_spout_pending'. "
        "Did you mean 'maxSpoutPending'?",
    ),
    "unknown-field-like-none": (
        {"spec.code": {"zip": "a.zip"}},
        "spec.code.zip: there is no field 'zip'. There are: files, folder, configMap, configMaps, "
        "uri, sha256.",
    ),
    "field-of-the-spec-in-a-bolt": (
        {"spec.bolts.0.maxReplays": 3},
        "spec.bolts[0].maxReplays: bolt 'split': there is no field 'maxReplays'. "
        "It is a field of spec.",
    ),
    "unknown-field-of-a-bolt": (
        {"spec.bolts.0.paralelism": 3},
        "spec.bolts[0].paralelism: bolt 'split': there is no field 'paralelism'. "
        "Did you mean 'parallelism'?",
    ),
    "unknown-field-of-a-grouping": (
        {"spec.bolts.1.inputs.0.grouping.field": "word"},
        "spec.bolts[1].inputs[0].grouping.field: bolt 'count', input from 'split': "
        "there is no field 'field'. Did you mean 'fields'?",
    ),
    "text-for-a-number": (
        {"spec.workers": "3"},
        "spec.workers: workers is '3', but must be a whole number. Remove the quotes.",
    ),
    "fraction": (
        {"spec.workers": 1.5},
        "spec.workers: workers is 1.5, but must be a whole number.",
    ),
    "bool-for-a-number": (
        {"spec.workers": True},
        "spec.workers: workers is true, but must be a whole number.",
    ),
    "zero-workers": (
        {"spec.workers": 0},
        "spec.workers: workers is 0, but must be at least 1.",
    ),
    "too-many-workers": (
        {"spec.workers": 1001},
        "spec.workers: workers is 1001, but must be at most 1000.",
    ),
    "negative-ackers": (
        {"spec.ackers": -1},
        "spec.ackers: ackers is -1, but must be at least 0.",
    ),
    "zero-timeout": (
        {"spec.messageTimeoutSeconds": 0},
        "spec.messageTimeoutSeconds: messageTimeoutSeconds is 0, but must be at least 1.",
    ),
    "zero-parallelism": (
        {"spec.bolts.0.parallelism": 0},
        "spec.bolts[0].parallelism: bolt 'split': parallelism is 0, but must be at least 1.",
    ),
    "zero-tasks": (
        {"spec.spouts.0.numTasks": 0},
        "spec.spouts[0].numTasks: spout 'sentences': numTasks is 0, but must be at least 1.",
    ),
    "zero-ticks": (
        {"spec.bolts.0.tickSeconds": 0},
        "spec.bolts[0].tickSeconds: bolt 'split': tickSeconds is 0, but must be greater than 0.",
    ),
    "text-for-ticks": (
        {"spec.bolts.0.tickSeconds": "1s"},
        "spec.bolts[0].tickSeconds: bolt 'split': tickSeconds is '1s', but must be a number.",
    ),
    "infinite-ticks": (
        {"spec.bolts.0.tickSeconds": float("nan")},
        "spec.bolts[0].tickSeconds: bolt 'split': tickSeconds is nan, but must be a finite number.",
    ),
    "text-for-bool": (
        {"spec.bolts.0.blocking": "yes"},
        "spec.bolts[0].blocking: bolt 'split': blocking is 'yes', but must be true or false.",
    ),
    "number-for-text": (
        {"spec.spark": {"conf": {"spark.executor.cores": 1}}},
        "spec.spark.conf[spark.executor.cores]: spark.executor.cores is 1, but must be text. "
        "Write it in quotes.",
    ),
    "choice": (
        {"spec.state": "active"},
        "spec.state: state is 'active', but must be one of Active, Inactive, Suspended. "
        "Did you mean 'Active'?",
    ),
    "no-spouts": (
        {"spec.spouts": []},
        "spec.spouts: spouts is empty. Add at least one spout: without a source nothing happens.",
        "spec.bolts[0].inputs[0].from: bolt 'split', input from 'sentences': "
        "there is no component 'sentences'. There are: count.",
    ),
    "spouts-are-missing": (
        {"spec.spouts": ABSENT},
        "spec.spouts: 'spouts' is missing. "
        "Add at least one spout: without a source nothing happens.",
        "spec.bolts[0].inputs[0].from: bolt 'split', input from 'sentences': "
        "there is no component 'sentences'. There are: count.",
    ),
    "bolts-as-mapping": (
        {"spec.bolts": {"split": {}}},
        "spec.bolts: bolts is a mapping, but must be a list. Begin each entry with '-'.",
    ),
    "bolt-as-text": (
        {"spec.bolts.2": "sink"},
        "spec.bolts[2]: bolts[2] is 'sink', but must be a mapping.",
    ),
    "worker-as-number": (
        {"spec.worker": 2},
        "spec.worker: worker is 2, but must be a mapping. Did you mean 'workers'?",
    ),
    "option-beside-config": (
        {"spec.bolts.0.path": "x"},
        "spec.bolts[0].path: bolt 'split': there is no field 'path'. There are: name, class, "
        "parallelism, numTasks, config, tickSeconds, eventTime, instance, blocking, committer, "
        "keyedState, trackResults, inputs. Options of its class are within 'config'.",
    ),
    "too-many-fields": (
        {"spec.bolts.1.inputs.0.grouping.fields": ["word"] * 65},
        "spec.bolts[1].inputs[0].grouping.fields: bolt 'count', input from 'split': fields has 65 "
        "entries, but at most 64 are allowed.",
    ),
    "no-component-name": (
        {"spec.bolts.1.name": ABSENT},
        "spec.bolts[1].name: bolt number 2: 'name' is missing. Add one, such as name: word-count.",
    ),
    "number-as-component-name": (
        {"spec.bolts.1.name": 7},
        "spec.bolts[1].name: bolt number 2: name is 7, but must be text. Write it in quotes.",
    ),
    "component-name": (
        {"spec.bolts.1.name": "word count"},
        "spec.bolts[1].name: bolt 'word count': name is 'word count', but must consist of "
        "letters, digits, '-', '_' and '.', and begin and end with a letter, digit or '_'.",
    ),
    "no-class": (
        {"spec.bolts.1.class": ABSENT},
        "spec.bolts[1].class: bolt 'count': 'class' is missing. "
        "Add the Python class, such as class: wordcount.SplitSentence.",
    ),
    "class-without-module": (
        {"spec.bolts.1.class": "WordCount"},
        "spec.bolts[1].class: bolt 'count': class is 'WordCount', but must be a module and "
        "a class, such as 'wordcount.SplitSentence'.",
    ),
    "no-from": (
        {"spec.bolts.1.inputs.0.from": ABSENT},
        "spec.bolts[1].inputs[0].from: bolt 'count', input number 1: 'from' is missing. "
        "Add the component to receive from, such as from: sentences.",
    ),
    "input-as-text": (
        {"spec.bolts.1.inputs": ["split"]},
        "spec.bolts[1].inputs[0]: bolt 'count': inputs[0] is 'split', but must be a mapping. "
        "Write {from: split, grouping: {type: shuffle}}.",
    ),
    "no-grouping": (
        {"spec.bolts.1.inputs.0.grouping": ABSENT},
        "spec.bolts[1].inputs[0].grouping: bolt 'count', input from 'split': "
        "'grouping' is missing. Add one, such as grouping: {type: shuffle}.",
    ),
    "grouping-as-text": (
        {"spec.bolts.0.inputs.0.grouping": "shuffle"},
        "spec.bolts[0].inputs[0].grouping: bolt 'split', input from 'sentences': grouping is "
        "'shuffle', but must be a mapping. Write grouping: {type: shuffle}.",
    ),
    "no-grouping-type": (
        {"spec.bolts.0.inputs.0.grouping": {}},
        "spec.bolts[0].inputs[0].grouping.type: bolt 'split', input from 'sentences': 'type' is "
        "missing. Add one of shuffle, fields, partial-key, all, global, none, direct, "
        "local-or-shuffle, custom.",
    ),
    "grouping-type": (
        {"spec.bolts.0.inputs.0.grouping.type": "partial_key"},
        "spec.bolts[0].inputs[0].grouping.type: bolt 'split', input from 'sentences': type is "
        "'partial_key', but must be one of shuffle, fields, partial-key, all, global, none, "
        "direct, local-or-shuffle, custom. Did you mean 'partial-key'?",
    ),
    "fields-as-text": (
        {"spec.bolts.1.inputs.0.grouping.fields": "word"},
        "spec.bolts[1].inputs[0].grouping.fields: bolt 'count', input from 'split': fields is "
        "'word', but must be a list. Write fields: [word].",
    ),
    "number-as-field": (
        {"spec.bolts.1.inputs.0.grouping.fields": [1]},
        "spec.bolts[1].inputs[0].grouping.fields[0]: bolt 'count', input from 'split': fields[0] "
        "is 1, but must be text. Write it in quotes.",
    ),
    "empty-field": (
        {"spec.bolts.1.inputs.0.grouping.fields": [""]},
        "spec.bolts[1].inputs[0].grouping.fields[0]: bolt 'count', input from 'split': fields[0] "
        "is empty.",
    ),
    "number-as-key": (
        {"spec.config": {1: "a"}},
        "spec.config: config has the key 1, which is not text. Write it in quotes.",
    ),
    "bool-as-key": (
        {"spec.bolts.0": {**WORD_COUNT["spec"]["bolts"][0], True: "x"}},
        "spec.bolts[0]: bolt 'split': bolts[0] has the key true, which is not text: YAML reads "
        "on, off, yes, no, y and n as that. Write it in quotes.",
    ),
    "on-as-key": (
        {"spec.config": {True: "x"}},
        "spec.config: config has the key true, which is not text: YAML reads on, off, yes, "
        "no, y and n as that. Write it in quotes.",
    ),
    "null-as-key-below": (
        {"spec.config": {"format": {None: ["NA"]}}},
        "spec.config.format: config has the key null, which is not text: YAML reads null, ~ and "
        "nothing as that. Write it in quotes.",
    ),
    "number-as-key-below": (
        {"spec.config": {"a": [{"b": {2: "x"}}]}},
        "spec.config.a[0].b: config has the key 2, which is not text. Write it in quotes.",
    ),
    "on-as-key-below": (
        {"spec.config": {"switches": {True: "x"}}},
        "spec.config.switches: config has the key true, which is not text: YAML reads on, off, "
        "yes, no, y and n as that. Write it in quotes.",
    ),
    "not-json": (
        {"spec.bolts.0.config": {"a": {"x"}}},
        "spec.bolts[0].config.a: bolt 'split': config contains a value of the type set, but must "
        "be text, numbers, true, false, lists or mappings with text as keys.",
    ),
    "infinite": (
        {"spec.config": {"a": float("inf")}},
        "spec.config.a: config contains the number inf, but must be text, numbers, true, false, "
        "lists or mappings with text as keys.",
    ),
    "code-file-name": (
        {"spec.code": {"files": {"../a.py": ""}}},
        "spec.code.files: files has the key '../a.py', which can't be the name of a file.",
    ),
    "much-code": (
        {"spec.code": {"files": {"a.py": "#" * 100_000, "b.py": "#" * 100_000}}},
        "spec.code.files: files has 200000 bytes in all, but at most 131072 are allowed inline.",
    ),
    "two-codes": (
        {"spec.code": {"folder": ".", "configMap": "code"}},
        "spec.code: folder and configMap are given, but only one of them is allowed. "
        "Remove all but one.",
    ),
    "code-uri-without-a-digest": (
        {"spec.code": {"uri": "s3://a/code.tar.gz"}},
        "spec.code: uri is given without sha256, by which its archive is checked. Add what"
        " `sha256sum FILE` or `fulmen manifest --archive FILE` prints.",
        NOT_READ,
    ),
    "digest-without-code-uri": (
        {"spec.code": {"sha256": "0" * 64}},
        "spec.code.sha256: sha256 is given, but no uri: it is the digest of what is there. Add uri,"
        " or remove it.",
    ),
    "parts-of-code-without-a-digest": (
        {"spec.code": {"configMaps": ["a", "b"]}},
        "spec.code: configMaps are given without sha256, by which their archive is checked. Apply"
        " what `fulmen manifest FILE` prints.",
        PARTS_NOT_READ,
    ),
    "parts-of-code-and-a-uri": (
        {"spec.code": {"configMaps": ["a"], "uri": "s3://a/code.tar.gz", "sha256": "0" * 64}},
        "spec.code: configMaps and uri are given, but only one of them is allowed. "
        "Remove all but one.",
    ),
    "code-uri-of-a-folder": (
        {"spec.code": {"uri": "s3://code", "sha256": "0" * 64}},
        "spec.code.uri: the URI must end in the name of a file: letters, digits and any of . _ = +"
        " -. Write s3://bucket/code-1.tar.gz, say.",
        NOT_READ,
    ),
    "code-uri-and-digest-that-are-none": (
        {"spec.code": {"uri": "/code/", "sha256": "ABC"}},
        "spec.code.uri: uri is '/code/', but must be a file in a kind of store, such as"
        " s3://bucket/code-1.tar.gz.",
        "spec.code.sha256: sha256 is 'ABC', but must be the 64 digits that `sha256sum FILE`"
        " prints.",
    ),
    "code-uri-with-a-password": (
        {"spec.code": {"uri": "s3://me:secret@a/code.tar.gz", "sha256": "0" * 64}},
        "spec.code.uri: a URI is shown in logs and in the topology's status, so it must hold no"
        " user and no password. Leave them out, and set the environment variables that the store's"
        " own tools read (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3): on Kubernetes from a"
        " Secret, in env of driver and worker.",
        NOT_READ,
    ),
    "no-code-folder": (
        {"spec.code": {"folder": "nowhere"}},
        "spec.code.folder: the folder 'nowhere' does not exist.",
    ),
    "two-checkpoints": (
        {"spec.checkpoint": {"uri": "s3://a/b", "persistentVolumeClaim": "c"}},
        "spec.checkpoint: uri and persistentVolumeClaim are given, but only one of them is "
        "allowed. Remove all but one.",
    ),
    "memory-without-a-limit": (
        {"spec.worker": {"resources": {"requests": {"memory": "1Gi"}}}},
        "spec.worker.resources.limits: memory is requested, but not limited. Add limits: "
        "{memory: 1Gi}: heap and Python are sized by the limit.",
    ),
    "spark-conf": (
        {"spec.spark": {"conf": {"spark.task.maxFailures": "4", "spark.task.cpus": "1"}}},
        "spec.spark.conf[spark.task.maxFailures]: 'spark.task.maxFailures' is '4', but Fulmen's "
        "batches need '1'. Leave it out.",
    ),
    "pod-template-without-spec": (
        {"spec.driver": {"podTemplate": {"tolerations": []}}},
        "spec.driver.podTemplate: 'tolerations' is no part of a pod template, which has metadata "
        "and spec. Write it below spec: {spec: {tolerations: …}}.",
    ),
    "pod-template-spec": (
        {"spec.driver": {"podTemplate": {"spec": "big"}}},
        "spec.driver.podTemplate.spec: spec is 'big', but must be a mapping.",
    ),
    "pod-template-host-network": (
        {"spec.worker": {"podTemplate": {"spec": {"hostNetwork": True}}}},
        "spec.worker.podTemplate.spec.hostNetwork: hostNetwork is not possible, since each "
        "pod needs an address of its own. Remove it.",
    ),
    "pod-template-command": (
        {
            "spec.driver": {
                "podTemplate": {
                    "spec": {
                        "containers": [
                            {"name": "proxy", "image": "proxy", "command": ["proxy"]},
                            {"name": "driver", "command": ["sleep", "1d"]},
                        ]
                    }
                }
            }
        },
        "spec.driver.podTemplate.spec.containers[1].command: container 'driver' is Fulmen's own, "
        "which runs nothing but Fulmen. Remove it. Run a program of your own in a container of "
        "another name.",
    ),
    "pod-template-args": (
        {
            "spec.worker": {
                "podTemplate": {"spec": {"containers": [{"name": "worker", "args": ["x"]}]}}
            }
        },
        "spec.worker.podTemplate.spec.containers[0].args: container 'worker' is Fulmen's own, "
        "which runs nothing but Fulmen. Remove it. Run a program of your own in a container of "
        "another name.",
    ),
    "pod-template-labels": (
        {"spec.worker": {"podTemplate": {"metadata": {"labels": ["a"]}}}},
        "spec.worker.podTemplate.metadata.labels: labels is a list, but must be a mapping.",
    ),
    "pod-template-containers": (
        {"spec.driver": {"podTemplate": {"spec": {"containers": {"name": "driver"}}}}},
        "spec.driver.podTemplate.spec.containers: containers is a mapping, but must be a list.",
    ),
    "pod-template-container": (
        {"spec.driver": {"podTemplate": {"spec": {"initContainers": ["a"]}}}},
        "spec.driver.podTemplate.spec.initContainers[0]: initContainers[0] is 'a', but must "
        "be a mapping.",
    ),
    "pod-template-env": (
        {
            "spec.driver": {
                "podTemplate": {"spec": {"containers": [{"name": "a", "env": {"A": "b"}}]}}
            }
        },
        "spec.driver.podTemplate.spec.containers[0].env: env is a mapping, but must be a list.",
    ),
    "pod-template-null": (
        {"spec.worker": {"podTemplate": {"spec": {"containers": [None]}}}},
        "spec.worker.podTemplate.spec.containers[0]: containers[0] is empty, but must "
        "be a mapping.",
    ),
    "pod-template-name": (
        {"spec.worker": {"podTemplate": {"spec": {"containers": [{"name": ["a"]}]}}}},
        "spec.worker.podTemplate.spec.containers[0].name: name is a list, but must be text.",
    ),
    "pod-template-container-without-a-name": (
        {"spec.driver": {"podTemplate": {"spec": {"initContainers": [{"image": "proxy:1"}]}}}},
        "spec.driver.podTemplate.spec.initContainers[0]: initContainers[0] has no 'name', which "
        "Kubernetes needs.",
    ),
    "pod-template-volume-without-a-name": (
        {"spec.worker": {"podTemplate": {"spec": {"volumes": [{"emptyDir": {}}]}}}},
        "spec.worker.podTemplate.spec.volumes[0]: volumes[0] has no 'name', which Kubernetes "
        "needs.",
    ),
    "pod-template-misspelled": (
        {"spec.driver": {"podTemplate": {"spec": {"nodeSelecter": {"disk": "ssd"}}}}},
        "spec.driver.podTemplate.spec.nodeSelecter: Kubernetes 1.34 has no field 'nodeSelecter' "
        "in spec. Did you mean 'nodeSelector'?",
    ),
    "pod-template-choice": (
        {"spec.worker": {"podTemplate": {"spec": {"tolerations": [{"effect": "noexecute"}]}}}},
        "spec.worker.podTemplate.spec.tolerations[0].effect: effect is 'noexecute', but must be "
        "one of NoExecute, NoSchedule, PreferNoSchedule. Did you mean 'NoExecute'?",
    ),
    "pod-template-number-as-a-label": (
        {"spec.driver": {"podTemplate": {"metadata": {"labels": {"line": 3}}}}},
        "spec.driver.podTemplate.metadata.labels[line]: 'line' is 3, but must be text. Write it in "
        "quotes.",
    ),
    "memory-that-is-too-little": (
        {"spec.worker": {"resources": {"limits": {"memory": "1Gi"}}}},
        "spec.worker.resources.limits: 1Gi of memory are too little for Spark, whose JVM gets 40 % "
        "of them as heap. Write memory: 1200Mi or more.",
    ),
    "memory-that-differs": (
        {
            "spec.driver": {
                "resources": {"requests": {"memory": "1.5Gi"}, "limits": {"memory": "2Gi"}}
            }
        },
        "spec.driver.resources.requests: 1.5Gi of memory are requested, but the limit is 2Gi. "
        "Leave the request out, or write memory: 2Gi: all of the limit is used.",
    ),
    "two-values": (
        {"spec.driver": {"env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {}}}]}},
        "spec.driver.env[0]: variable 'A' has both value and valueFrom. Remove one of them.",
    ),
    "two-values-for-all-pods": (
        {"spec.env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {}}}]},
        "spec.env[0]: variable 'A' has both value and valueFrom. Remove one of them.",
    ),
    "variable-of-fulmen": (
        {"spec.env": [{"name": "FULMEN_CODE_URI", "value": "s3://other/code.tar.gz"}]},
        f"spec.env[0]: variable 'FULMEN_CODE_URI' {OWN_VARIABLE}",
    ),
    "variable-of-fulmen-in-a-template": (
        {
            "spec.worker": {
                "podTemplate": {
                    "spec": {
                        "containers": [
                            {"name": "other", "env": [{"name": "FULMEN_SLOT", "value": "1"}]},
                            {
                                "name": "worker",
                                "env": [
                                    {"name": "FULMEN_LOG_LEVEL", "value": "DEBUG"},
                                    {"name": "FULMEN_SLOT", "value": "1"},
                                ],
                            },
                        ]
                    }
                }
            }
        },
        f"spec.worker.podTemplate.spec.containers[1].env[1]: variable 'FULMEN_SLOT' {OWN_VARIABLE}",
    ),
    "no-variable": (
        {"spec.config": {"dsn": "${DB-HOST}"}},
        "spec.config.dsn: ${DB-HOST} is not replaced, since it names no environment variable. Write"
        " ${NAME} with letters, digits and '_', or $${ for a literal ${.",
    ),
    "checkpoint-uri": (
        {"spec.checkpoint": {"uri": "/data"}},
        "spec.checkpoint.uri: uri is '/data', but must be a folder in a kind of store: s3://…, "
        "gs://…, az://… or file:///…. Write file:///data.",
    ),
    "rename-to-nothing": (
        {"spec.renames": {"old": "cuont"}},
        "spec.renames.old: there is no component 'cuont', which is to have been 'old'. "
        "Did you mean 'count'?",
    ),
    "rename-to-the-same": (
        {"spec.renames": {"count": "count"}},
        "spec.renames.count: the old name is the new one. Remove the entry.",
    ),
    "two-renames-to-one": (
        {"spec.renames": {"a": "count", "b": "count"}},
        "spec.renames.b: 'a' was renamed to 'count' as well: their state can't be merged. "
        "Remove one of the two.",
    ),
    "class-that-is-not-there": (
        {"spec.stateClasses": {"m.Old": "collections.Countr"}},
        "spec.stateClasses.m.Old: 'collections' has no class 'Countr'. Did you mean 'Counter'?",
    ),
    "classes-in-a-chain": (
        {"spec.stateClasses": {"m.Old": "collections.Counter", "collections": "typing"}},
        "spec.stateClasses.m.Old: its new name 'collections.Counter' is an old one, too: "
        "spec.stateClasses.collections. Write the name that the class has now, such as "
        "'typing.Counter'.",
    ),
    "checkpoint-as-text": (
        {"spec.checkpoint": "s3://a/b"},
        "spec.checkpoint: checkpoint is 's3://a/b', but must be a mapping. "
        "Write checkpoint: {uri: s3://a/b}.",
    ),
    "code-as-text": (
        {"spec.code": "code"},
        "spec.code: code is 'code', but must be a mapping. Write code: {folder: code}.",
    ),
    "quantity": (
        {"spec.worker": {"resources": {"limits": {"cpu": 0.5}}}},
        "spec.worker.resources.limits.cpu: cpu is 0.5, but must be a quantity: a whole number, "
        'or text such as "500m" or "2Gi".',
    ),
    "quantity-below-zero": (
        {"spec.worker": {"resources": {"limits": {"memory": -1}}}},
        "spec.worker.resources.limits.memory: memory is -1, but must be a quantity: a whole "
        'number, or text such as "500m" or "2Gi".',
    ),
    "quantity-of-no-unit": (
        {"spec.worker": {"resources": {"limits": {"memory": "2GB"}}}},
        "spec.worker.resources.limits.memory: memory is '2GB', but must be a quantity: a whole "
        'number, or text such as "500m" or "2Gi".',
    ),
    "environment-variable": (
        {"spec.worker": {"env": [{"name": "A B", "value": "x" * 32_769}]}},
        "spec.worker.env[0].name: name is 'A B', but must consist of letters, digits and '_', and "
        "not begin with a digit.",
        "spec.worker.env[0].value: value has 32769 characters, but at most 32768 are allowed.",
    ),
}

STRUCTURE = {
    "duplicate-name": (
        {"spec.bolts.2": {**COUNT, "name": "split", "inputs": [from_split(type="shuffle")]}},
        "spec.bolts[2].name: bolt 'split': the name is taken by spec.bolts[0], a bolt. "
        "Choose another: spouts and bolts share one namespace.",
        "spec.bolts: the inputs form a cycle: split -> split. Remove one of these inputs.",
    ),
    "bolt-named-as-a-spout": (
        {"spec.bolts.1.name": "sentences"},
        "spec.bolts[1].name: bolt 'sentences': the name is taken by spec.spouts[0], a spout. "
        "Choose another: spouts and bolts share one namespace.",
        "spec.bolts: the inputs form a cycle: sentences -> split -> sentences. "
        "Remove one of these inputs.",
    ),
    "reserved-name": (
        {"spec.bolts.1.name": "__count"},
        "spec.bolts[1].name: bolt '__count': names that begin with '__' are reserved. "
        "Choose another name.",
    ),
    "no-inputs": (
        {"spec.bolts.1.inputs": []},
        "spec.bolts[1].inputs: bolt 'count': it has no inputs, so it would never receive a tuple. "
        "Add one, such as inputs: [{from: sentences, grouping: {type: shuffle}}].",
    ),
    "inputs-are-missing": (
        {"spec.bolts.1.inputs": ABSENT},
        "spec.bolts[1].inputs: bolt 'count': it has no inputs, so it would never receive a tuple. "
        "Add one, such as inputs: [{from: sentences, grouping: {type: shuffle}}].",
    ),
    "spout-with-inputs": (
        {"spec.spouts.0.inputs": []},
        "spec.spouts[0].inputs: spout 'sentences': a spout has no inputs. "
        "List it under bolts if it receives tuples.",
    ),
    "unknown-component": (
        {"spec.bolts.1.inputs.0.from": "spilt"},
        "spec.bolts[1].inputs[0].from: bolt 'count', input from 'spilt': "
        "there is no component 'spilt'. Did you mean 'split'?",
    ),
    "unknown-component-like-none": (
        {"spec.bolts.1.inputs.0.from": "kafka"},
        "spec.bolts[1].inputs[0].from: bolt 'count', input from 'kafka': "
        "there is no component 'kafka'. There are: sentences, split.",
    ),
    "same-stream-twice": (
        {"spec.bolts.1.inputs.1": from_split(type="all")},
        "spec.bolts[1].inputs[1]: bolt 'count', input from 'split': stream 'default' is "
        "subscribed to twice. Remove one of the two inputs.",
    ),
    "cycle": (
        {"spec.bolts.0.inputs.1": {"from": "count", "grouping": SHUFFLE}},
        "spec.bolts: the inputs form a cycle: count -> split -> count. Remove one of these inputs.",
    ),
    "bolt-from-itself": (
        {"spec.bolts.1.inputs.1": {"from": "count", "grouping": SHUFFLE}},
        "spec.bolts: the inputs form a cycle: count -> count. Remove one of these inputs.",
    ),
    "two-cycles": (
        {
            "spec.bolts.0.inputs.1": {"from": "split", "stream": "errors", "grouping": SHUFFLE},
            "spec.bolts.1.inputs.1": {"from": "x", "grouping": SHUFFLE},
            "spec.bolts.2": {**COUNT, "inputs": [{"from": "count", "grouping": SHUFFLE}]},
        },
        "spec.bolts: the inputs form a cycle: split -> split. Remove one of these inputs.",
        "spec.bolts: the inputs form a cycle: count -> x -> count. Remove one of these inputs.",
    ),
}


STREAMS = {
    "unknown-stream": (
        {"spec.bolts.1.inputs.0": from_split("error", type="shuffle")},
        "spec.bolts[1].inputs[0].stream: bolt 'count', input from 'split': there is no stream "
        "'error': 'split' declares ['default', 'errors', 'to-task']. Did you mean 'errors'?",
    ),
    "unknown-stream-of-a-spout": (
        {"spec.bolts.0.inputs.0.stream": "x"},
        "spec.bolts[0].inputs[0].stream: bolt 'split', input from 'sentences': there is no stream "
        "'x': 'sentences' declares ['default', '__dead_letters'].",
    ),
    "no-stream-at-all": (
        {
            "spec.bolts.1.class": f"{COMPONENTS}.Sink",
            "spec.bolts.2": {**COUNT, "inputs": [{"from": "count", "grouping": SHUFFLE}]},
        },
        "spec.bolts[2].inputs[0].stream: bolt 'x', input from 'count': 'count' declares no "
        'stream. Give its class the attribute outputs, such as outputs = ["word"].',
    ),
    "unknown-field-to-group-by": (
        {"spec.bolts.1.inputs.0.grouping.fields": ["wrod"]},
        "spec.bolts[1].inputs[0].grouping.fields[0]: bolt 'count', input from 'split': fields "
        "grouping on 'wrod', but stream 'default' declares ['word']. Did you mean 'word'?",
    ),
    "unknown-field-to-group-by-like-none": (
        {"spec.bolts.1.inputs.0": from_split("errors", type="partial-key", fields=["line", "x"])},
        "spec.bolts[1].inputs[0].grouping.fields[1]: bolt 'count', input from 'split': "
        "partial-key grouping on 'x', but stream 'errors' declares ['line', 'reason'].",
    ),
    "fields-grouping-without-fields": (
        {"spec.bolts.1.inputs.0": from_split("errors", type="fields")},
        "spec.bolts[1].inputs[0].grouping.fields: bolt 'count', input from 'split': fields "
        "grouping needs the fields to group by. Add fields, of ['line', 'reason'].",
    ),
    "partial-key-grouping-without-fields-on-a-stream-unknown": (
        {"spec.bolts.1.inputs.0": {"from": "y", "grouping": {"type": "partial-key"}}},
        "spec.bolts[1].inputs[0].from: bolt 'count', input from 'y': there is no component 'y'. "
        "There are: sentences, split.",
        "spec.bolts[1].inputs[0].grouping.fields: bolt 'count', input from 'y': partial-key "
        "grouping needs the fields to group by. Add fields: [word].",
    ),
    "shuffle-with-fields": (
        {"spec.bolts.1.inputs.0.grouping.type": "shuffle"},
        "spec.bolts[1].inputs[0].grouping.fields: bolt 'count', input from 'split': shuffle "
        "grouping takes no fields. Remove them, or use type: fields.",
    ),
    "all-with-a-class-and-config": (
        {"spec.bolts.1.inputs.0": from_split(type="all", config={"a": 1}, **{"class": "a.B"})},
        "spec.bolts[1].inputs[0].grouping.class: bolt 'count', input from 'split': all grouping "
        "takes no class. Remove it, or use type: custom.",
        "spec.bolts[1].inputs[0].grouping.config: bolt 'count', input from 'split': all grouping "
        "takes no config. Remove it, or use type: custom.",
    ),
    "direct-on-a-stream-that-is-not": (
        {"spec.bolts.1.inputs.0": from_split(type="direct")},
        "spec.bolts[1].inputs[0].grouping.type: bolt 'count', input from 'split': direct grouping "
        "on stream 'default', which is not declared direct. Use another grouping, or declare it "
        "with fulmen.Stream(fields, direct=True).",
    ),
    "direct-on-dead-letters": (
        {"spec.bolts.0.inputs.0": {
            "from": "sentences", "stream": "__dead_letters", "grouping": {"type": "direct"}
        }},
        "spec.bolts[0].inputs[0].grouping.type: bolt 'split', input from 'sentences': direct "
        "grouping on stream '__dead_letters', which is not declared direct. Use another grouping, "
        "or declare it with fulmen.Stream(fields, direct=True).",
    ),
    "global-on-a-direct-stream": (
        {"spec.bolts.1.inputs.0": from_split("to-task", type="global")},
        "spec.bolts[1].inputs[0].grouping.type: bolt 'count', input from 'split': global grouping "
        "on stream 'to-task', which is direct. Use type: direct, or declare the stream without "
        "direct.",
    ),
    "custom-without-class": (
        {"spec.bolts.1.inputs.0": from_split(type="custom")},
        "spec.bolts[1].inputs[0].grouping.class: bolt 'count', input from 'split': custom "
        "grouping needs a class. Add class: module.Class, derived from "
        "fulmen.CustomStreamGrouping.",
    ),
    "custom-of-the-wrong-kind": (
        {"spec.bolts.1.inputs.0": from_split(type="custom", **{"class": f"{COMPONENTS}.Count"})},
        "spec.bolts[1].inputs[0].grouping.class: bolt 'count', input from 'split': "
        "support.parts.components.Count is not derived from fulmen.CustomStreamGrouping.",
    ),
    "custom-not-found": (
        {"spec.bolts.1.inputs.0": from_split(type="custom", **{"class": f"{COMPONENTS}.Weight"})},
        "spec.bolts[1].inputs[0].grouping.class: bolt 'count', input from 'split': "
        "'support.parts.components' has no class 'Weight'. Did you mean 'ByWeight'?",
    ),
}  # fmt: skip


def of_class(name):
    return {"spec.bolts.1.class": f"{COMPONENTS}.{name}"}


COUNT_CLASS = "spec.bolts[1].class: bolt 'count': "
CLASSES = {
    "not-found-in-its-module": (
        of_class("Cuont"),
        f"{COUNT_CLASS}'support.parts.components' has no class 'Cuont'. Did you mean 'Count'?",
    ),
    "not-found-in-its-class": (
        of_class("Outer.Other"),
        f"{COUNT_CLASS}'support.parts.components.Outer' has no class 'Other'.",
    ),
    "not-a-class": (
        of_class("a_function"),
        f"{COUNT_CLASS}'support.parts.components.a_function' is not a class but of the "
        "type function.",
    ),
    "module-not-found": (
        {"spec.bolts.1.class": "no_such_module.Count"},
        f"{COUNT_CLASS}there is no module 'no_such_module' among the installed packages.",
    ),
    "spout-under-bolts": (
        of_class("Sentences"),
        f"{COUNT_CLASS}support.parts.components.Sentences is a spout, but is listed under bolts. "
        "Move it to spouts.",
    ),
    "bolt-under-spouts": (
        {"spec.spouts.0.class": f"{COMPONENTS}.Count"},
        "spec.spouts[0].class: spout 'sentences': support.parts.components.Count is a bolt, but is "
        "listed under spouts. Move it to bolts.",
    ),
    "neither": (
        of_class("NotAComponent"),
        f"{COUNT_CLASS}support.parts.components.NotAComponent is not derived from fulmen.Bolt, "
        "fulmen.BasicBolt, fulmen.ArrowBolt or fulmen.Sink.",
    ),
    "no-spout": (
        {"spec.spouts.0.class": f"{COMPONENTS}.NotAComponent"},
        "spec.spouts[0].class: spout 'sentences': support.parts.components.NotAComponent is not "
        "derived from fulmen.Spout.",
    ),
    "abstract": (
        of_class("Unfinished"),
        f"{COUNT_CLASS}support.parts.components.Unfinished is abstract: it does not define "
        "execute.",
    ),
    "abstract-twice": (
        of_class("UnfinishedBase"),
        f"{COUNT_CLASS}support.parts.components.UnfinishedBase is abstract: "
        "it does not define check and parse.",
    ),
    "needs-arguments": (
        of_class("NeedsArguments"),
        f"{COUNT_CLASS}support.parts.components.NeedsArguments.__init__ needs path and limit, but "
        "an instance is made without arguments. Take such values from the configuration in open or "
        "prepare, or give them defaults.",
    ),
    "field-declared-twice": (
        of_class("TwiceTheField"),
        f"{COUNT_CLASS}TwiceTheField, stream 'default': field 'word' is declared twice.",
    ),
    "fields-are-text": (
        of_class("FieldsAreText"),
        f"{COUNT_CLASS}FieldsAreText, stream 'default': the fields are 'word', but must be a list "
        'of names, such as ["word"].',
    ),
    "declaration-raises": (
        of_class("DeclarationRaises"),
        f"{COUNT_CLASS}DeclarationRaises.declare_output_fields raised KeyError: 'schema'.",
    ),
    "instance-is-not-base64": (
        {"spec.bolts.1.instance": "%"},
        "spec.bolts[1].instance: bolt 'count': instance is not base64 (Only base64 data is "
        "allowed). Write the file again with TopologyBuilder, or remove the field.",
    ),
    "instance-is-not-pickled": (
        {"spec.bolts.1.instance": "AAAA"},
        "spec.bolts[1].instance: bolt 'count': instance can't be unpickled (UnpicklingError: "
        "invalid load key, '\\x00'.). Write the file again with TopologyBuilder, or remove the "
        "field.",
    ),
}

ALL = FIELDS | STRUCTURE | STREAMS | CLASSES


@pytest.mark.parametrize(
    ("changes", "expected"),
    [pytest.param(changes, expected, id=name) for name, (changes, *expected) in ALL.items()],
)
def test_message(changes, expected):
    assert texts(word_count(changes)) == expected


# ---- the author's modules -----------------------------------------------------------------------

MODULE = """from fulmen import Bolt

class Count(Bolt):
    outputs = ["word"]

    def execute(self, tup):
        pass
"""

MODULES = {
    "syntax": (
        {"counting.py": "x = 1\ndef f(:\n"},
        f"{COUNT_CLASS}module 'counting' can't be imported: SyntaxError: invalid syntax "
        "(counting.py, line 2).",
    ),
    "raises": (
        {"counting.py": "x = 1\n\nlimit = 1 / 0\n"},
        f"{COUNT_CLASS}module 'counting' can't be imported: ZeroDivisionError: division by zero "
        "(counting.py, line 3).",
    ),
    "raises-in-another": (
        {"counting.py": "import other_one\n", "other_one.py": "\nlimit\n"},
        f"{COUNT_CLASS}module 'counting' can't be imported: NameError: name 'limit' is not "
        "defined (other_one.py, line 2).",
    ),
    "imports-what-is-not-there": (
        {"counting.py": "import no_such_module\n"},
        f"{COUNT_CLASS}module 'counting' can't be imported: ModuleNotFoundError: No module named "
        "'no_such_module' (counting.py, line 1). If 'no_such_module' is of a package, install it;"
        " for a cluster, name the package in requirements.txt: fulmen manifest FILE --wheels takes"
        " it along.",
    ),
    "exits": (
        {"counting.py": "import sys\nsys.exit(3)\n"},
        f"{COUNT_CLASS}module 'counting' can't be imported: SystemExit: 3 (counting.py, line 2).",
    ),
    "misspelt-module": (
        {"countin.py": MODULE},
        f"{COUNT_CLASS}there is no module 'counting' in countin.py or among the installed "
        "packages. Did you mean 'countin'?",
    ),
    "no-such-class": (
        {"counting.py": MODULE.replace("Count", "Sum")},
        f"{COUNT_CLASS}'counting' has no class 'Count'. There are: Sum.",
    ),
    "init-raises": (
        {"counting.py": MODULE + "\n    def __init__(self):\n        raise ValueError('limit')\n"},
        f"{COUNT_CLASS}counting.Count() raised ValueError: limit (counting.py, line 10).",
    ),
}


@pytest.mark.parametrize(("files", "text"), MODULES.values(), ids=MODULES.keys())
def test_message_about_a_module(files, text):
    changes = {"spec.code": {"files": files}, "spec.bolts.1.class": "counting.Count"}
    assert texts(word_count(changes)) == [text]


def test_file_named_like_a_module_of_python():
    changes = {"spec.code": {"files": {"json.py": MODULE}}, "spec.bolts.1.class": "json.Count"}
    assert texts(word_count(changes)) == [
        f"{COUNT_CLASS}json.py has the name of a module of Python's own or of an installed "
        "package, which is imported instead of it. Rename the file."
    ]
