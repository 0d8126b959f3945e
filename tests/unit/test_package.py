"""What importing the package does, and does not."""

import subprocess
import sys

LOADED_SPARK = "import sys, fulmen; print([m for m in sys.modules if m.split('.')[0] == 'pyspark'])"


def test_importing_fulmen_loads_no_pyspark():
    result = subprocess.run(
        [sys.executable, "-c", LOADED_SPARK], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
