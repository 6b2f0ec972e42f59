"""No test is about the speed of the machine, which may be shared: hypothesis does not look at its clock either.

Hashes of files are cached in a folder that goes with the tests, not in the user's. Tables are 100 wide everywhere.
"""

import atexit
import gc
import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings

import durm._torchvision  # noqa: F401 (also in the process that collects what workers warn of: it imports lightning)

settings.register_profile("durm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("durm")

os.environ["COLUMNS"] = "100"
if "DURM_CACHE" not in os.environ:  # processes that tests start inherit it
    os.environ["DURM_CACHE"] = tempfile.mkdtemp(prefix="durm-cache-")
    atexit.register(shutil.rmtree, os.environ["DURM_CACHE"], ignore_errors=True)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Models with hooks are cycles: without this, every model of every library stays in memory for long."""
    if item.get_closest_marker("slow"):
        gc.collect()
