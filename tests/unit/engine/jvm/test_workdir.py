import re
import tempfile
from pathlib import Path

import pytest

from fulmen.engine.jvm.workdir import LONGEST_PATH, WorkDir
from fulmen.errors import FulmenError


def test_a_work_folder_is_made_where_it_is_wanted():
    with tempfile.TemporaryDirectory(dir="/tmp") as short, WorkDir(Path(short)) as folder:
        assert folder.path.parent == Path(short)


def test_a_path_too_long_for_sockets_is_refused(tmp_path):
    deep = tmp_path / ("x" * LONGEST_PATH)
    with pytest.raises(FulmenError, match=re.escape(f"'{deep}' is too long a path")):
        WorkDir(deep)


def test_a_work_folder_can_be_made_in_the_default_place():
    with WorkDir() as folder:
        assert folder.path.is_dir()
    assert not folder.path.exists()
