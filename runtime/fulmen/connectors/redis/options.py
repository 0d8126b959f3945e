"""Options for Redis."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fulmen.connectors.formats import FormatOptions, TextOptions
from fulmen.connectors.formats.options import Names
from fulmen.connectors.options import Options, SinkOptions
from fulmen.connectors.templates import Template

Name = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1, le=10_000)]


class _SourceOptions(Options):
    url: Name
    """How to connect: `redis://user:password@host:6379/0`, `rediss://…` or `unix://…`."""
    key: Name
    """The name of the stream or list."""
    format: FormatOptions = TextOptions()
    """How messages are written down."""
    count: Count = 1000
    """How many messages are read at once."""


class StreamSpoutOptions(_SourceOptions):
    """The `config` of a RedisStreamSpout."""

    group: Name
    """The consumer group. It is created if there is none."""
    id: str = "0"
    """Where a group that is created begins: `0` with the first entry there is, `$` with those that
    come later, or the id of an entry that it begins behind."""
    mkstream: bool = False
    """Create the stream if there is none. Otherwise it is waited for."""
    field: Name = "value"
    """The field of an entry that has the message, which `format` reads."""
    fields: Names = ()
    """Instead of `field` and `format`: the fields of an entry that become fields of the tuple, as
    text. One that is missing is null."""
    id_field: str = ""
    """The name of one more field, with the id of the entry. Default: there is none."""
    min_idle_time: Annotated[int, Field(ge=0)] = 60_000
    """Milliseconds after which entries of consumers of other names in the group are claimed, and
    entries that were lost on the way are looked for. 0: only when a task starts."""

    @model_validator(mode="after")
    def _either(self) -> Self:
        if self.fields and {"field", "format"} & self.model_fields_set:
            raise ValueError("`fields` can't be given together with `field` or `format`")
        return self


class ListSpoutOptions(_SourceOptions):
    """The `config` of a RedisListSpout."""

    src: Literal["LEFT", "RIGHT"] = "LEFT"
    """The end of the list that is read, as LMOVE names it."""
    processing: str = ""
    """The name of the hash that keeps messages until they are acked. Default: the list's, the
    topology's and the component's names with `:processing:` and `:` between them."""


class RedisSinkOptions(SinkOptions):
    """The `config` of a RedisSink."""

    url: Name
    """How to connect: `redis://user:password@host:6379/0`, `rediss://…` or `unix://…`."""
    type: Literal["set", "hash", "stream", "list", "string"]
    """What the key is: rows are written with SADD, HSET, XADD, RPUSH or SET."""
    key: Annotated[Template, Field(min_length=1)]
    """The name of the key. `{name}` is replaced by that field of the row."""
    field: Template = ""
    """Of a hash: the name of the field that is set to the row's value; `{name}` is replaced.
    Default: each of `fields` is set."""
    fields: Names = ()
    """Of a hash or stream: the row's fields that are written, each under its name. Default: all.
    Fields that are null are left out."""
    format: FormatOptions = TextOptions()
    """How a row is written as one value: of a set, list or string, or of a hash with `field`."""
    deleted_field: Annotated[str, Field(min_length=1)] | None = None
    """Of a string or hash: the field that says, if it is true, that the row is deleted. Then the
    key is removed, or with `field` that field of the hash."""
    ex: Annotated[int, Field(ge=1)] | None = None
    """Seconds after which a key expires, counted from the last row that was written to it. Default:
    it does not."""
    maxlen: Annotated[int, Field(ge=1)] | None = None
    """Of a stream: about how many entries are kept; XADD trims older ones. Default: all."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.field and self.type != "hash":
            raise ValueError(f"`field` is for the type 'hash', not for {self.type!r}")
        if self.fields and (self.type not in ("hash", "stream") or self.field):
            raise ValueError("`fields` is for streams, and for hashes without `field`")
        if self.deleted_field and self.type not in ("string", "hash"):
            raise ValueError(f"`deletedField` is for strings and hashes, not for {self.type!r}")
        if self.maxlen and self.type != "stream":
            raise ValueError(f"`maxlen` is for the type 'stream', not for {self.type!r}")
        return self
