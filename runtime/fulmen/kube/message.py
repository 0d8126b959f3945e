"""The base of all messages between operator and driver, whatever their versions are."""

import json
from typing import Self

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ContractModel(BaseModel):
    """Base of what is said. Fields of a newer version are ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="ignore",
        frozen=True,
        serialize_by_alias=True,
        validate_by_alias=True,
        validate_by_name=True,
    )

    def to_json(self) -> str:
        """The text, equal for equal messages. Characters that UTF-8 lacks become '?'."""
        text = json.dumps(
            self.model_dump(mode="json", by_alias=True),
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
        )
        return text.encode(errors="replace").decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The message in that text. pydantic's ValidationError if there is none."""
        return cls.model_validate_json(text)
