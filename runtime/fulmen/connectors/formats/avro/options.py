"""Options for Avro and for the schema registry.

Options of Confluent's clients have their names and, but where it is said, their defaults.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from typing_extensions import override

from fulmen.api.declarer import Stream
from fulmen.connectors.formats.base import Format, positions, refused
from fulmen.connectors.formats.options import AnyFormat, Names, OneFormat
from fulmen.connectors.formats.types import misfits
from fulmen.errors import install

Strategy = Literal["TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"]
_URL = re.compile(r"https?://[^\s/,]+(/[^\s@]*)?")  # an @ behind a / is that of a login


def _urls(text: str) -> str:
    # A mere word may stand for what is not known before it runs: then the client tells.
    if not all(_URL.fullmatch(url.strip()) for url in text.split(",")) and not text.isidentifier():
        raise ValueError(
            "it must be `http://host:port` or `https://…`; commas between several. In a login,"
            " write `/` as `%2F`"
        )
    return text


def _as_json(schema: Any) -> Any:
    """A schema that is written as YAML, or that is only the name of a type."""
    is_name = isinstance(schema, str) and schema.lstrip()[:1] not in ("{", "[", '"')
    return json.dumps(schema) if is_name or isinstance(schema, dict | list) else schema


def _checked(text: str) -> str:
    from fulmen.connectors.formats.avro.schemas import parsed

    parsed(text)
    return text


def _text_of(file: str) -> str:
    """Read a file: one with this path, or one beside the author's modules."""
    for folder in ("", *sys.path):
        path = Path(folder, file)
        if path.is_file():
            return str(_as_json(path.read_text(encoding="utf-8")))
    raise ValueError(f"there is no file {file!r}, also not in the folder of the code")


def _readable(file: str) -> str:
    _checked(_text_of(file))
    return file


Urls = Annotated[str, AfterValidator(_urls)]
SchemaText = Annotated[
    str,
    BeforeValidator(_as_json, json_schema_input_type=str | dict[str, Any] | list[Any]),
    AfterValidator(_checked),
]
SchemaFile = Annotated[str, AfterValidator(_readable)]


class AvroKeyOptions(OneFormat):
    """The message has the id of its schema, which is in a schema registry, and then the value."""

    type: Literal["avro"]
    url: Annotated[Urls, Field(alias="schema.registry.url")]
    """Where the schema registry is; several, with commas between them, are tried in their order."""
    user_info: Annotated[str | None, Field(alias="basic.auth.user.info", repr=False)] = None
    """Who logs in there: `user:password`. Take it from the environment: `${REGISTRY_LOGIN}`."""
    schema_text: Annotated[SchemaText | None, Field(alias="schema")] = None
    """A schema, as YAML or as text in JSON. A source reads messages as this schema says: fields
    that a message does not have get their defaults, and others are left out. A sink writes with it.
    Default: a source reads each message as it was written; a sink takes the latest schema of the
    subject."""
    schema_file: SchemaFile | None = None
    """Instead of `schema`: the name of a file that has it, in the folder of the code."""
    subject: Annotated[str, Field(min_length=1)] | None = None
    """Of a sink: the subject of the schema in the registry. Default: as `subject.name.strategy`
    says."""
    strategy: Annotated[Strategy, Field(alias="subject.name.strategy")] = "TopicNameStrategy"
    """Of a sink, how a subject is named: by the topic (`orders-value`), by the record's full name,
    or by both with `-` between them."""
    auto_register: Annotated[bool, Field(alias="auto.register.schemas")] = True
    """Of a sink: register `schema` in the subject, if the registry finds it compatible. False: it
    must be there. What is not given as `schema` is never registered."""
    properties: Annotated[
        dict[str, str | int | float | bool], Field(default_factory=dict, repr=False)
    ]
    """Any other setting of Confluent's Python client of the registry, such as `ssl.ca.location` or
    `bearer.auth.token`."""

    @model_validator(mode="before")
    @classmethod
    def _need_libraries(cls, given: Any) -> Any:
        try:
            import fulmen.connectors.formats.avro.coding  # noqa: F401 (whether it can be)
        except ImportError:
            raise ValueError(f"the format avro needs its libraries: {install('avro')}") from None
        return given

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.schema_text and self.schema_file:
            raise ValueError("`schema` and `schemaFile` are given: give one of them")
        own = {"url", *(str(field.alias) for field in type(self).model_fields.values())}
        if taken := sorted(own & self.properties.keys()):
            raise ValueError(
                f"`properties` has {taken[0]!r}: write it beside `properties`, as"
                " `schema.registry.url` for the URL"
            )
        return self

    @cached_property
    def given_schema(self) -> str | None:
        """The schema that is given, in JSON."""
        return _text_of(self.schema_file) if self.schema_file else self.schema_text

    def for_topic(self, topic: str | None, part: str = "value") -> Self:
        """Copy with the subject of a topic's messages.

        Args:
            topic: Its name; None: messages have no topic, or several.
            part: Of a message: `key` or `value`.

        Raises:
            ValueError: The options do not tell the subject.
        """
        if self.subject:
            return self
        if self.strategy != "RecordNameStrategy" and topic is None:
            raise ValueError(
                "there is not one topic that names the subject of the schema: give its `subject`,"
                " or `subject.name.strategy: RecordNameStrategy`"
            )
        if self.strategy == "TopicNameStrategy":
            return self.model_copy(update={"subject": f"{topic}-{part}"})
        from fulmen.connectors.formats.avro.schemas import is_record, parsed

        schema: Any = parsed(self.given_schema) if self.given_schema else None
        if not is_record(schema):
            raise ValueError(f"`subject.name.strategy: {self.strategy}` needs a record's `schema`")
        by_topic = self.strategy == "TopicRecordNameStrategy"
        subject = f"{topic}-{schema['name']}" if by_topic else schema["name"]
        return self.model_copy(update={"subject": subject})

    def make(self) -> Format:
        """The format."""
        from fulmen.connectors.formats.avro.coding import AvroFormat

        return AvroFormat(self)


class AvroOptions(AvroKeyOptions):
    """The message has the id of its schema, which is in a schema registry, and then the values."""

    fields: Names = ()
    """The fields of the record that become fields. Default: those of `schema`; without it, the
    whole record is one field, `value`. In a sink: the fields that are written; default: all."""

    def make(self) -> Format:
        """The format."""
        from fulmen.connectors.formats.avro.coding import AvroFormat

        return AvroFormat(self, self.fields)

    @override
    def mistakes(self, stream: Stream) -> Iterable[str]:
        from fulmen.connectors.formats.avro.schemas import (
            field_types,
            is_record,
            match,
            parsed,
            refuse_misfit,
        )

        schema: Any = parsed(self.given_schema) if self.given_schema else None
        names = self.fields or stream.fields
        if is_record(schema):
            yield from refused(lambda: match(schema, names))
        if is_record(schema) or len(stream.fields) > 1:
            yield from refused(lambda: positions(names, stream.fields))
        writers = [
            (name, partial(refuse_misfit, schema=kind))
            for name, kind in field_types(schema).items()
            if name in names
        ]
        yield from misfits(stream.types, writers)


MessageFormatOptions = Annotated[AnyFormat | AvroOptions, Field(discriminator="type")]
"""The `format` of a connector whose messages may be any bytes, and come one by one."""
