import pytest

from fulmen.errors import FulmenError
from fulmen.tracing.making import tracer_of
from fulmen.tracing.settings import TraceSettings

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
