"""Loading the author's classes, and making instances."""

import sys
from pathlib import Path

import pytest

from fulmen import Stream
from fulmen.errors import CodeError
from fulmen.topology.code import CodeFolder, create, create_grouping, load_class, streams_of
from fulmen.topology.pods import Code
from fulmen.topology.spec import Bolt, Grouping, Spout
from support import components

MODULE = "class Count:\n    class Inner:\n        pass\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "counting.py").write_text(MODULE)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "module.py").write_text(MODULE)
    with CodeFolder(tmp_path):
        yield tmp_path


@pytest.mark.parametrize(
    ("name", "qualname"),
    [
        ("counting.Count", "Count"),
        ("counting.Count.Inner", "Count.Inner"),
        ("package.module.Count", "Count"),
        ("package.module.Count.Inner", "Count.Inner"),
        ("collections.OrderedDict", "OrderedDict"),
    ],
)
def test_classes_are_found(folder, name, qualname):
    assert load_class(name, folder).__qualname__ == qualname


def test_a_folder_is_put_on_the_path_by_load_class(folder):
    sys.path.remove(str(folder))
    assert load_class("counting.Count", folder).__name__ == "Count"


def test_inline_files_are_there_until_the_folder_is_closed():
    with CodeFolder.of(Code(files={"inline_code.py": MODULE}), Path()) as folder:
        assert load_class("inline_code.Count").__module__ == "inline_code"
        assert folder.path.is_dir()
    assert not folder.path.exists()
    with pytest.raises(CodeError):
        load_class("inline_code.Count")


def test_two_topologies_may_have_modules_of_one_name():
    found = []
    for text in ("class A: pass", "class B: pass"):
        with CodeFolder.of(Code(files={"same_name.py": text}), Path()):
            found += [vars(sys.modules[load_class(f"same_name.{text[6]}").__module__])[text[6]]]
    assert [cls.__name__ for cls in found] == ["A", "B"]


def test_a_missing_part_of_a_package(folder):
    with pytest.raises(CodeError) as caught:
        load_class("package.modul.Count", folder)
    assert str(caught.value) == "'package' has no class 'modul'."


def test_an_instance_is_made_without_arguments():
    assert type(create(Bolt(name="b", class_="support.components.Count"))) is components.Count


def test_a_custom_grouping_finds_its_config():
    grouping = Grouping(type="custom", class_="support.components.ByWeight", config={"a": 1})
    made = create_grouping(grouping)
    assert (type(made), made.config) == (components.ByWeight, {"a": 1})


def test_a_grouping_that_is_not_custom_has_no_class():
    with pytest.raises(CodeError) as caught:
        create_grouping(Grouping(type="shuffle"))
    assert str(caught.value) == "a shuffle grouping has no class."


def test_only_spouts_have_dead_letters():
    spout = Spout(name="s", class_="support.components.Sentences")
    bolt = Bolt(name="b", class_="support.components.Sink")
    dead = Stream(("stream", "values", "msg_id", "failures", "reason"))
    assert streams_of(spout, components.Sentences) == {
        "default": Stream(("sentence",)),
        "__dead_letters": dead,
    }
    assert streams_of(bolt, components.Sink) == {}
