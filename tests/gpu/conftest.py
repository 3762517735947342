"""These tests need a GPU that has kernels. Nothing here touches a driver before a test is to run."""

from __future__ import annotations

import pytest

from repops.backend import NoBackend


@pytest.fixture(scope="session", autouse=True)
def gpu_here() -> None:
    from repops.cuda import runner

    try:
        runner.check()
    except NoBackend as error:
        pytest.skip(f"no GPU to test here: {error}; run `make gpu` on a machine that has one")
