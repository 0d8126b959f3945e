import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from fulmen.engine.protocol.sampling import Sampling, TraceContext

CONTEXTS = st.builds(
    TraceContext, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans()
)


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(CONTEXTS)
def test_a_traceparent_says_what_it_was_made_of(context):
    assert TraceContext.parsed(context.traceparent) == context


def test_the_traceparent_of_the_standard():
    text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    context = TraceContext(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
    assert (TraceContext.parsed(text), context.traceparent) == (context, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
    ],
)
def test_what_is_no_traceparent_says_nothing(text):
    assert TraceContext.parsed(text) is None


def test_a_later_version_of_the_header_may_have_more():
    text = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more"
    assert TraceContext.parsed(text).is_sampled is False


@pytest.mark.parametrize(("ratio", "least", "most"), [(0, 0, 0), (0.01, 800, 1_200), (1, 1e5, 1e5)])
def test_about_so_many_trees_are_chosen(ratio, least, most):
    roots = np.arange(100_000, dtype=np.uint64)
    assert least <= Sampling(ratio, 7).chosen(roots).sum() <= most


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(
    st.integers(0, 2**64 - 1),
    st.lists(st.integers(0, 2**64 - 1), max_size=9),
    st.integers(0, 100).map(lambda percent: percent / 100),
)
def test_the_choice_is_that_of_opentelemetrys_sampler_for_the_same_trace_ids(salt, roots, ratio):
    sampling, theirs = Sampling(ratio, salt), TraceIdRatioBased(ratio)
    decisions = [theirs.should_sample(None, sampling.trace_id(root), "") for root in roots]
    expected = [one.decision.is_sampled() for one in decisions]
    assert sampling.chosen(np.array(roots, np.uint64)).tolist() == expected


def test_spans_of_trees_of_two_drivers_have_different_ids():
    one, other = Sampling(1, 1), Sampling(1, 2)
    parent = TraceContext(5, 6)
    assert one.context_of(9, parent).trace_id == other.context_of(9, parent).trace_id
    assert one.context_of(9, parent).span_id != other.context_of(9, parent).span_id
    assert one.context_in(9, "a", 1, parent) != one.context_in(9, "a", 2, parent)
