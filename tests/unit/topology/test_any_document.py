"""Whatever a document contains, validation answers in its own words."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from fulmen.topology.reading.documents import parse_yaml, to_yaml
from fulmen.topology.reading.field_problems import parse
from fulmen.topology.validation.check import check
from support.cli.documents import WORD_COUNT

FULL = deepcopy(WORD_COUNT)
FULL["spec"] |= {
    "ackers": 1,
    "config": {"a": [1, {"b": None}]},
    "code": {"files": {"a.py": ""}},
    "checkpoint": {"uri": "s3://a/b"},
    "worker": {
        "image": "a",
        "resources": {"limits": {"cpu": 1}},
        "env": [{"name": "A", "value": "b"}],
        "imagePullSecrets": [{"name": "a"}],
        "podTemplate": {"spec": {}},
    },
    "spark": {"conf": {"spark.a": "b"}},
    "restartNonce": 1,
}
FULL["spec"]["bolts"][0] |= {"tickSeconds": 1, "blocking": True, "config": {}}

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2000)
    | st.floats()
    | st.sampled_from(["", "shuffle", "custom", "fields", "direct", "sentences", "count", "__x"])
    | st.text(max_size=5)
    | st.binary(max_size=2)
    | st.dates()
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(leaves, inner, max_size=2),
    max_leaves=4,
)


def places(value, path=()):
    """The path of everything in a value."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from places(inner, (*path, key))


@st.composite
def documents(draw):
    document = deepcopy(FULL)
    for _ in range(draw(st.integers(1, 3))):
        if not document:
            break
        *parents, last = draw(st.sampled_from(list(places(document))))
        place = document
        for part in parents:
            place = place[part]
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                place[last] = draw(values)
            case "remove":
                del place[last]
            case "add" if isinstance(place, dict):
                place[draw(leaves)] = draw(values)
            case "add":
                place.append(draw(values))
    return document


@given(documents())
def test_any_document(document):
    before = deepcopy(document)
    checked = check(document)
    for problem in checked.problems:
        assert "Input should" not in str(problem)
        assert "pydantic" not in str(problem)
    assert repr(document) == repr(before)
    if not checked.errors:
        topology = checked.topology()
        assert parse(parse_yaml(to_yaml(topology))) == topology
