"""What a topology's file may say about text."""

import pytest
from pydantic import ValidationError

from fulmen.connectors.formats import TextOptions


@pytest.mark.parametrize("name", ["nope", "hex"])
def test_an_encoding_that_is_none_of_text_is_refused(name):
    with pytest.raises(ValidationError, match=f"Python knows no encoding '{name}' of text"):
        TextOptions(encoding=name)


@pytest.mark.parametrize("name", ["utf-8", "latin-1", "utf-16"])
def test_an_encoding_of_text_is_taken(name):
    assert TextOptions(encoding=name).make().decode("ä".encode(name)) == ["ä"]
