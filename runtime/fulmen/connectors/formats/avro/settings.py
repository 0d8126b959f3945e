"""Settings that coding and the registry's client read of a format's options."""

from __future__ import annotations

from typing import Protocol


class AvroSettings(Protocol):
    """See the options of the same names."""

    @property
    def url(self) -> str: ...  # noqa: D102

    @property
    def user_info(self) -> str | None: ...  # noqa: D102

    @property
    def subject(self) -> str | None: ...  # noqa: D102

    @property
    def auto_register(self) -> bool: ...  # noqa: D102

    @property
    def properties(self) -> dict[str, str | int | float | bool]: ...  # noqa: D102

    @property
    def given_schema(self) -> str | None: ...  # noqa: D102
