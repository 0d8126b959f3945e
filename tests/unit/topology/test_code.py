"""Loading the author's classes, and making instances."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from fulmen import Stream
from fulmen.errors import CodeError
from fulmen.topology.code.loading import CodeFolder, create, create_grouping, load_class, streams_of
from fulmen.topology.resource.spec import BoltSpec, Grouping, SpoutSpec
from fulmen.topology.resource.spec.pods import Code
from support.parts import components

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


def test_what_was_there_before_a_folder_was_opened_stays(tmp_path, monkeypatch):
    early = ModuleType("early_module")
    early.__file__ = str(tmp_path / "early_module.py")
    monkeypatch.setitem(sys.modules, "early_module", early)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "late_module.py").write_text(MODULE)
    with CodeFolder(tmp_path):
        load_class("late_module.Count")
    assert sys.modules.get("early_module") is early
    assert "late_module" not in sys.modules
    assert str(tmp_path) in sys.path


def test_modules_of_a_virtual_environment_inside_of_a_folder_stay(tmp_path, monkeypatch):
    installed = tmp_path / ".venv" / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "installed_module.py").write_text(MODULE)
    (tmp_path / "own_module.py").write_text("import installed_module\nclass Count: pass")
    monkeypatch.syspath_prepend(installed)
    with CodeFolder(tmp_path):
        load_class("own_module.Count")
    assert sys.modules.pop("installed_module", None) is not None
    assert "own_module" not in sys.modules


def test_a_missing_part_of_a_package(folder):
    with pytest.raises(CodeError) as caught:
        load_class("package.modul.Count", folder)
    assert str(caught.value) == "'package' has no class 'modul'. Did you mean 'module'?"


def test_an_instance_is_made_without_arguments():
    assert (
        type(create(BoltSpec(name="b", class_="support.parts.components.Count")))
        is components.Count
    )


def test_a_custom_grouping_finds_its_config():
    grouping = Grouping(type="custom", class_="support.parts.components.ByWeight", config={"a": 1})
    made = create_grouping(grouping)
    assert (type(made), made.config) == (components.ByWeight, {"a": 1})


def test_a_grouping_that_is_not_custom_has_no_class():
    with pytest.raises(CodeError) as caught:
        create_grouping(Grouping(type="shuffle"))
    assert str(caught.value) == "a shuffle grouping has no class."


def test_only_spouts_have_dead_letters():
    spout = SpoutSpec(name="s", class_="support.parts.components.Sentences")
    bolt = BoltSpec(name="b", class_="support.parts.components.Sink")
    dead = Stream(("stream", "values", "msg_id", "failures", "reason"))
    assert streams_of(spout, components.Sentences) == {
        "default": Stream(("sentence",)),
        "__dead_letters": dead,
    }
    assert streams_of(bolt, components.Sink) == {}
