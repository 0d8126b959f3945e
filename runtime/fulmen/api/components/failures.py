"""What a bolt raises to fail its input."""


class FailedException(Exception):
    """Raised in `execute` of any bolt to fail the input, without a report. The name is Storm's.

    The spout gets the exception's text as the reason, at most 500 characters of it, or the name of
    the class if there is no text. In an ArrowBolt, all rows of the batch fail. If a Bolt has acked
    or failed the input already, that stays so. Nothing that was emitted for the input is undone:
    its tree has failed, and the spout decides about a replay.
    """


class ReportedFailedException(FailedException):
    """Like FailedException, but the failure is also reported as an error of the component."""
