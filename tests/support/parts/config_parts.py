"""Components whose classes have a model of their `config`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic.alias_generators import to_camel

from fulmen.api import BasicBolt


class Options(BaseModel):
    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, frozen=True, use_attribute_docstrings=True
    )


class Comma(Options):
    type: Literal["comma"]
    width: int = 80


class Plain(Options):
    type: Literal["plain"]


class WriterOptions(Options):
    dsn: str
    """Where the store is. Text of any kind."""
    batch_size: Annotated[int, Field(ge=1, le=1000)] = 100
    """Rows of one call."""
    mode: Literal["insert", "upsert"] = "insert"
    columns: tuple[str, ...] = ("word",)
    layout: Annotated[Comma | Plain, Field(discriminator="type")] = Plain(type="plain")
    hosts: tuple[Comma, ...] = ()
    limit: int | str | None = None
    password: SecretStr = SecretStr("")
    """What nobody may see."""
    is_fast: bool = False

    @model_validator(mode="after")
    def _fits(self):
        if self.is_fast and self.mode == "upsert":
            raise ValueError("it can't be fast and upsert.")
        return self

    @field_validator("dsn")
    @classmethod
    def _is_no_file(cls, dsn: str) -> str:
        if dsn.startswith("file:"):
            raise ValueError(f"{dsn} is a file, and a store is wanted.")
        return dsn


class Writer(BasicBolt):
    """Its streams depend on its options."""

    config_model = WriterOptions

    def outputs_for(self, options):
        return options.columns

    def prepare(self, conf, context):
        self.context = context
        self.state["options"] = repr(context.options)
        self.state["conf"] = repr(conf)

    def execute(self, tup, collector):
        collector.emit([tup[0]] * len(self.context.options.columns))


class Counted(Options):
    count: int


class Numbered(BasicBolt):
    """Has as many fields as a number says that it needs."""

    config_model = Counted

    def outputs_for(self, options):
        return [f"f{n}" for n in range(options.count)]

    def execute(self, tup, collector):
        pass


class NoModel(BasicBolt):
    config_model = dict

    def execute(self, tup, collector):
        pass
