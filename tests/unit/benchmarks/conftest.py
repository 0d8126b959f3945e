"""Benchmarks are beside the tests, not installed."""

import sys

from support.pages import ROOT

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
