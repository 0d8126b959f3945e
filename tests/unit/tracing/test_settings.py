import logging

import pytest

from fulmen import secrets
from fulmen.errors import FulmenError
from fulmen.tracing.making import tracer_of
from fulmen.tracing.settings import TraceSettings, secrets_in

URL = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_TRACES_SAMPLER": "always_on"},
        {**URL, "OTEL_SDK_DISABLED": "true"},
        {**URL, "OTEL_TRACES_EXPORTER": "none"},
        {**URL, "OTEL_TRACES_SAMPLER": "always_off"},
        {**URL, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"},
    ],
)
def test_nothing_is_traced_unless_it_is_wanted(environ):
    assert TraceSettings.of(environ, "words") is None


@pytest.mark.parametrize(
    ("sampler", "ratio", "follows_parents"),
    [
        ({}, 1.0, True),
        ({"OTEL_TRACES_SAMPLER": "always_on"}, 1.0, False),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, 0.0, True),
        ({"OTEL_TRACES_SAMPLER": "traceidratio"}, 1.0, False),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": ".5"}, 0.5, False),
        (
            {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"},
            0.01,
            True,
        ),
    ],
)
def test_the_standard_samplers(sampler, ratio, follows_parents):
    assert TraceSettings.of({**URL, **sampler}, "words") == TraceSettings(
        ratio, follows_parents, "words"
    )


@pytest.mark.parametrize(
    ("more", "service"),
    [
        ({}, "words"),
        ({"OTEL_SERVICE_NAME": "billing"}, None),
        ({"OTEL_RESOURCE_ATTRIBUTES": "team=a, service.name=billing"}, None),
        ({"OTEL_RESOURCE_ATTRIBUTES": "team=a"}, "words"),
    ],
)
def test_the_service_has_the_topologys_name_unless_it_is_given_one(more, service):
    assert TraceSettings.of({**URL, **more}, "words").service == service


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER must be otlp or none"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "must be http/protobuf, not 'grpc'"),
        ({"OTEL_TRACES_SAMPLER": "jaeger"}, "OTEL_TRACES_SAMPLER must be one of always_on"),
        (
            {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1 %"},
            "OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1, not '1 %'",
        ),
    ],
)
def test_what_can_not_be_used_is_told_and_nothing_is_traced(more, message):
    with pytest.raises(FulmenError, match=message):
        TraceSettings.of({**URL, **more}, "words")
    notes = []
    assert tracer_of({**URL, **more}, "words", notes.append) is None
    assert message in notes[0]


@pytest.fixture
def no_secrets(monkeypatch):
    monkeypatch.setattr(secrets, "_known", secrets._Known())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization: Bearer open-sesame"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "open-sesame"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "team=red,key=open-sesame"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20open-sesame"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:open-sesame@collector/"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector/v1?token=open-sesame"),
    ],
)
def test_headers_and_passwords_of_the_collector_are_not_shown(name, value, no_secrets):
    for variable, text in secrets_in({name: value}):
        secrets.hide(variable, [text])
    assert "sesame" not in secrets.masked(f"wrong: {value}, that is Bearer open-sesame")
    assert secrets.masked("http://collector/v1 is away") == "http://collector/v1 is away"


def test_what_the_sdk_says_of_a_header_has_no_secret_and_is_told(
    monkeypatch, no_secrets, capfd, caplog
):
    header = "Authorization: Bearer open-sesame"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", header)
    notes = []
    tracer = tracer_of({**URL, "OTEL_EXPORTER_OTLP_HEADERS": header}, "words", notes.append)
    tracer.close()
    assert notes[0].startswith("traces: Header format invalid!")
    assert "sesame" not in "".join([*notes, *capfd.readouterr(), caplog.text])


def test_whatever_the_sdk_raises_about_its_variables_is_no_reason_not_to_run(monkeypatch):
    name = "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER"
    monkeypatch.setenv(name, "nobody")
    notes = []
    assert tracer_of(URL, "words", notes.append) is None
    assert notes[0].startswith("nothing is traced: RuntimeError: Requested component 'nobody'")
    assert logging.getLogger("opentelemetry").propagate
