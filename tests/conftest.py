"""Of all tests: the contracts of a module and a way to play on them, one thread of torch's a worker, and the way back.

What a test does to the chain of its process is undone after it, and what a module's fixtures did, after the module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

# Before torch is imported, here and by the processes that tests start: workers that share cores wait for each other's threads.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def _anchored() -> Iterator[None]:
    """Nothing, where the tests at hand never loaded a chain."""
    evm = sys.modules.get("tests.support.evm")
    if evm is None:
        yield
        return
    with evm.chain.anchor():
        yield


@pytest.fixture(scope="module", autouse=True)
def _chain_of_the_module() -> Iterator[None]:
    yield from _anchored()


@pytest.fixture(autouse=True)
def _chain_of_the_test(_chain_of_the_module: None) -> Iterator[None]:
    yield from _anchored()


@pytest.fixture(scope="module")
def kit():
    from tests.support.evm import chain
    from tests.support.protocol_driver import START, deploy_all

    chain.timestamp = START
    return deploy_all()


@pytest.fixture
def play(kit):
    from tests.support.protocol_driver import Play

    return Play(kit)
