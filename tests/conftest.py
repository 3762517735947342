"""Shared by all tests: the deployed contracts and a driver on them, and torch on one thread per worker.

The chain of a process is restored after each test, and after each module.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator

import pytest

# Before torch is imported, here and by the processes that tests start: workers that share cores wait for each other's threads.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_finish() -> None:
    """What was imported stays: the collector need not look at it again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def _steps_are_traced_once() -> None:
    """Nothing where no test of this process has a job."""
    if "zoo_compute.jobs.config" in sys.modules:
        from tests.support import traced_steps

        traced_steps.remember()


def _anchored() -> Iterator[None]:
    """Restore the chain afterwards; nothing where no test of this process loaded it."""
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
