"""What the API server refuses by the definition's own rules, and what it says."""

import json
from itertools import chain

import pytest

from support.cli.documents import ABSENT, word_count
from support.cluster import api_reads
from support.docs.scripts import script

RULES = script("crd_schema").RULES
CODE = {"spec.code": {"files": {"wordcount.py": ""}}}
GROUPING = "spec.bolts.1.inputs.0.grouping"
SOURCE = {"name": "sentences", "class": "wordcount.Sentences"}
TRANSACTIONAL = {"spec.spouts": ABSENT, "spec.transactional": [SOURCE]}
HOURS = {"start": "07:30", "end": "18:00"}
ONE_OF_THE_TWO = "a topology needs spouts, or transactional spouts"
REFUSED = [
    ({"spec.spouts": ABSENT}, ONE_OF_THE_TWO),
    ({"spec.spouts": []}, ONE_OF_THE_TWO),
    ({"spec.transactional": [{**SOURCE, "name": "other"}]}, ONE_OF_THE_TWO),
    (
        {**TRANSACTIONAL, "spec.transactional.0.name": "__mine"},
        "names that begin with '__' are reserved",
    ),
    ({"metadata.name": "a" * 41}, "the name must have at most 40"),
    ({"metadata.name": "word.count"}, "the name must have at most 40"),
    ({"spec.spouts.0.name": "__mine"}, "names that begin with '__' are reserved"),
    ({"spec.bolts.0.name": "__mine"}, "names that begin with '__' are reserved"),
    ({"spec.bolts.0.inputs": []}, "a bolt needs an input"),
    *(
        ({f"spec.{who}.eventTime": wrong}, "eventTime needs field, the field with the time, or")
        for who in ("spouts.0", "bolts.0")
        for wrong in ({"lag": "1s"}, {"field": "at", "streams": {"default": "at"}})
    ),
    ({GROUPING: {"type": "custom"}}, "a custom grouping needs a class"),
    ({GROUPING: {"type": "all", "class": "a.B"}}, "a custom grouping needs a class"),
    ({GROUPING: {"type": "all", "fields": ["word"]}}, "only fields and partial-key groupings"),
    ({"spec.code": {"folder": "."}}, "a folder is on your machine"),
    ({"spec.code": {"configMap": "a", "files": {"a.py": ""}}}, "give files or configMap"),
    (
        {"spec.code": {"uri": "s3://a/b", "sha256": "0" * 64, "configMap": "a"}},
        "give uri, or files, or configMap",
    ),
    ({"spec.code": {"uri": "s3://a/b"}}, "uri and sha256 belong together"),
    ({"spec.code": {"configMaps": ["a", "b"]}}, "so do configMaps and sha256"),
    (
        {"spec.code": {"configMaps": ["a"], "sha256": "0" * 64, "configMap": "a"}},
        "give configMaps, or files, or configMap, or uri",
    ),
    (
        {"spec.checkpoint": {"uri": "s3://a/b", "persistentVolumeClaim": "c"}},
        "give uri or persistentVolumeClaim",
    ),
    ({"spec.autoscale": {"minWorkers": 3, "maxWorkers": 2}}, "minWorkers is at most maxWorkers"),
    (
        {"spec.autoscale": {"maxWorkers": 2, "schedule": [{**HOURS, "minWorkers": 3}]}},
        "minWorkers of a schedule",
    ),
    *(
        (
            {f"spec.{pod}.env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {}}}]},
            "give value or valueFrom",
        )
        for pod in ("driver", "worker")
    ),
]
pytestmark = pytest.mark.timeout(300)


def test_each_rule_is_broken_here():
    said = {rule["message"] for rule in chain.from_iterable(RULES.values())}
    broken = {message for message in said for _, part in REFUSED if message.startswith(part)}
    assert said == broken


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[str(c) for c, _ in REFUSED])
def test_what_breaks_a_rule_is_refused(operator, kube, changes, message):
    topology = word_count({**CODE, **changes})
    assert message in api_reads.refusal("topology", kube.namespace, topology)


ASLEEP = {**CODE, "spec.state": "Suspended"}


def replaced(kube, changes):
    """Whether the topology that is there may become this one; nothing is changed."""
    content = json.dumps(word_count({**ASLEEP, **changes}))
    kube.run("replace", "--dry-run=server", "-f", "-", content=content)


@pytest.fixture
def there(operator, kube):
    """Makes a topology, which is gone afterwards."""

    def make(changes):
        content = json.dumps(word_count({**ASLEEP, **changes}))
        kube.run("create", "-f", "-", content=content)

    yield make
    kube.delete("topology", "word-count")


def test_fields_of_a_transactional_spout_have_owners_of_their_own(kube, there):
    """As an autoscaler or a person may own `parallelism`, and a file the rest."""
    there({**TRANSACTIONAL, "spec.transactional.0.config": {"rate": 1}})

    def apply(manager, source, *options):
        metadata = {"name": "word-count", "namespace": kube.namespace}
        kind = {key: word_count()[key] for key in ("apiVersion", "kind")}
        content = json.dumps({**kind, "metadata": metadata, "spec": {"transactional": [source]}})
        how = ("apply", "--server-side", f"--field-manager={manager}", *options, "-f", "-")
        kube.run(*how, content=content)

    apply("one", {**SOURCE, "parallelism": 3}, "--force-conflicts")
    with pytest.raises(AssertionError, match='conflict with "one"'):
        apply("two", {**SOURCE, "parallelism": 4})
    apply("one", SOURCE)
    apply("two", {**SOURCE, "parallelism": 4})
    [source] = kube.get("topology", "word-count")["spec"]["transactional"]
    assert source == {**SOURCE, "parallelism": 4, "config": {"rate": 1}}


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("transactional", "The sources of a transactional topology"),
        ("transactional.parallelism", "The number of executors"),
        ("bolts.committer", "whether this BatchBolt is a committer"),
    ],
)
def test_kubectl_explains_fields(operator, kube, field, words):
    said = " ".join(kube.run("explain", f"topology.spec.{field}").split())
    assert words in said
