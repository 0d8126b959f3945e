"""What a topology's file may say about Avro."""

import sys

import pytest
from pydantic import ValidationError

from fulmen.connectors.console.stdin import StdinSpout
from fulmen.connectors.files import FileSpout
from fulmen.connectors.formats import AvroOptions
from fulmen.connectors.kafka import KafkaSink, KafkaSinkOptions, KafkaSpout, KafkaSpoutOptions
from fulmen.connectors.rabbitmq import RabbitSink, RabbitSpout
from fulmen.connectors.redis import RedisSink, RedisStreamSpout
from fulmen.topology.configuration.options import check_options

KAFKA = {"bootstrap.servers": "broker:9092", "topic": "orders"}
WHERE = {"type": "avro", "schema.registry.url": "http://registry:8081"}
OPTIONS = "fulmen.connectors.formats.avro.options"
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "customer", "type": "string"}]}


def problems(cls, config):
    """What `fulmen validate` says of a component's config."""
    found = check_options(cls, config, "spec.bolts[0]", "bolt 'it'").problems
    return [f"{problem.path}: {problem.message}" for problem in found]


@pytest.mark.parametrize(
    ("option", "place", "text"),
    [
        ({"schema": "{"}, ".schema", "schema: it is not JSON: Expecting property name"),
        ({"schema": "Strin"}, ".schema", "schema: it is no schema of Avro: there is no type 'Str"),
        ({"schema": {"type": "record"}}, ".schema", "schema: it is no schema of Avro: "),
        ({"schemaFile": "a.avsc"}, ".schemaFile", "schemaFile: there is no file 'a.avsc', also"),
        ({"schema.registry.url": "registry:8081"}, "[schema.registry.url]", "it must be `http:"),
        ({"schema": ORDER, "schemaFile": __file__}, ".schemaFile", "it is not JSON"),
        ({"properties": {"url": "x"}}, "", "`properties` has 'url': write it beside"),
        ({"subject": ""}, ".subject", "subject has 0 characters"),
        ({"auto.register": True}, "[auto.register]", "there is no option 'auto.register'"),
    ],
)
def test_a_mistake_is_told_with_its_place(option, place, text):
    [problem] = problems(KafkaSink, KAFKA | {"format": WHERE | option})
    assert problem.startswith(f"spec.bolts[0].config.format{place}: bolt 'it': ")
    assert text in problem


@pytest.mark.parametrize("strategy", ["RecordNameStrategy", "TopicRecordNameStrategy"])
def test_a_subject_by_the_record_needs_its_name(strategy):
    form = WHERE | {"subject.name.strategy": strategy}
    for schema in ({}, {"schema": "string"}):
        [problem] = problems(KafkaSink, KAFKA | {"format": form | schema})
        assert f"`subject.name.strategy: {strategy}` needs a record's `schema`" in problem
    assert problems(KafkaSink, KAFKA | {"format": form | {"schema": ORDER}}) == []


def test_a_subject_by_the_topic_needs_one_topic():
    several = KAFKA | {"topicField": "to", "format": WHERE}
    url = {"url": "amqp://localhost", "routingKey": "q", "format": WHERE}
    for cls, config in ((KafkaSink, several), (RabbitSink, url)):
        [problem] = problems(cls, config)
        assert "there is not one topic that names the subject of the schema: give its" in problem
        assert problems(cls, config | {"format": WHERE | {"subject": "s"}}) == []
    assert problems(RabbitSpout, {"url": "amqp://localhost", "queue": "q", "format": WHERE}) == []


def test_where_the_registry_is_may_be_known_only_where_it_runs():
    place = {"schema.registry.url": "${URL}", "basic.auth.user.info": "${LOGIN}"}
    form = WHERE | place | {"properties": {"ssl.ca.location": "${CA}"}}
    assert problems(KafkaSpout, KAFKA | {"format": form | {"fields": ["a"]}}) == []
    assert problems(KafkaSink, KAFKA | {"format": form | {"schema": "${SCHEMA}"}}) == []
    [problem] = problems(KafkaSpout, KAFKA | {"format": form | {"schema": "${SCHEMA}"}})
    assert problem.startswith("spec.bolts[0].config.format.schema: ")
    assert "its streams depend on this" in problem


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"schema.registry.url": "registry"}, "Invalid url registry"),
        ({"basic.auth.user.info": "ann"}, r"basic.auth.user.info must be in the form of {username"),
    ],
)
def test_what_only_the_client_finds_wrong_is_told_at_the_start(option, text):
    with pytest.raises(ValueError, match=text):
        AvroOptions.model_validate(WHERE | option).make().connect()


def test_keys_in_avro_need_a_key():
    [problem] = problems(KafkaSink, KAFKA | {"keyFormat": WHERE})
    assert "`keyFormat` needs `keyField`" in problem


@pytest.mark.parametrize(
    ("cls", "config"),
    [
        (FileSpout, {"path": "x"}),
        (StdinSpout, {}),
        (RedisStreamSpout, {"url": "redis://h", "key": "k", "group": "g"}),
        (RedisSink, {"url": "redis://h", "key": "k", "type": "list"}),
    ],
)
def test_connectors_without_avro_refuse_it(cls, config):
    [problem] = problems(cls, config | {"format": WHERE})
    assert "type is 'avro', but must be one of text, bytes, json, csv" in problem


@pytest.mark.parametrize("library", ["fastavro", "httpx2", "confluent_kafka.schema_registry"])
@pytest.mark.parametrize("schema", [{}, {"schema": ORDER}], ids=["without-schema", "with-schema"])
def test_without_its_libraries_the_format_says_what_to_install(monkeypatch, library, schema):
    for name in [name for name in sys.modules if name.startswith(f"{OPTIONS.rpartition('.')[0]}.")]:
        if name != OPTIONS:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    for cls in (KafkaSpout, KafkaSink):
        [problem] = problems(cls, KAFKA | {"format": WHERE | schema})
        assert "the format avro needs its libraries: pip install 'CHECKOUT[avro]'" in problem


@pytest.mark.parametrize("cls", [KafkaSpout, KafkaSink])
def test_a_key_format_that_there_is_not_is_told(cls):
    key = {"keyField": "k"} if cls is KafkaSink else {}
    [problem] = problems(cls, KAFKA | key | {"keyFormat": "json"})
    assert "keyFormat is 'json', but must be " in problem
    [problem] = problems(cls, KAFKA | key | {"keyFormat": WHERE | {"type": "json"}})
    assert problem.endswith("type is 'json', but must be avro")


def test_a_schema_may_be_yaml_or_json_or_the_name_of_a_type_or_a_file(tmp_path, monkeypatch):
    text = '{"type": "record", "name": "Order", "fields": []}'
    (tmp_path / "order.avsc").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)  # as the folder of the code is
    for options in ({"schema": text}, {"schemaFile": "order.avsc"}):
        assert AvroOptions.model_validate(WHERE | options).given_schema == text
    yaml = AvroOptions.model_validate(WHERE | {"schema": ORDER})
    assert yaml.make().fields == ("customer",)
    assert AvroOptions.model_validate(WHERE | {"schema": "string"}).given_schema == '"string"'


def test_fields_are_known_before_it_runs():
    config = KAFKA | {"format": WHERE | {"schema": ORDER}, "include": ["key"], "keyFormat": WHERE}
    assert KafkaSpoutOptions.model_validate(config).fields == ("customer", "key")
    [problem] = problems(KafkaSpout, config | {"format": WHERE | {"fields": ["key"]}})
    assert "there are two fields 'key'" in problem


def test_logins_are_in_no_text():
    secret = WHERE | {
        "basic.auth.user.info": "ann:s3cret",
        "properties": {"bearer.auth.token": "s3cret"},
    }
    for kind in (KafkaSpoutOptions, KafkaSinkOptions):
        assert "s3cret" not in repr(kind.model_validate(KAFKA | {"format": secret}))
        with pytest.raises(ValidationError) as raised:
            kind.model_validate(KAFKA | {"format": secret | {"subject": 7}})
        assert "s3cret" not in str(raised.value)


def test_a_login_in_the_url_is_in_no_message():
    form = WHERE | {"schema.registry.url": "http://ann:s3cret@registry:8081"}
    made = AvroOptions.model_validate(form).make()
    assert made._registry.service == "the schema registry at http://registry:8081"


@pytest.mark.parametrize("password", ["s3c@ret", "s3c@r@t"])
def test_a_password_with_an_at_sign_is_in_no_message(password):
    url = f"http://ann:{password}@one:1,http://ann:{password}@two:2/path"
    form = KafkaSpout.config_model.model_validate(
        {"bootstrap.servers": "b:1", "topic": "t", "format": WHERE | {"schema.registry.url": url}}
    ).format
    service = form.make()._registry.service
    assert service == "the schema registry at http://one:1,http://two:2/path"


def test_a_login_with_a_slash_is_refused_and_not_shown():
    form = WHERE | {"schema.registry.url": "http://ann:s3c/ret@registry:8081"}
    (problem,) = problems(KafkaSpout, {"bootstrap.servers": "b:1", "topic": "t", "format": form})
    assert "write `/` as `%2F`" in str(problem)
    assert "s3c" not in str(problem)
