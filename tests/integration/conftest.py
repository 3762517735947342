"""No process that a file of tests starts outlives it, whether its tests pass or fail. A file has one devnet, which each test finds new."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.started_processes import none_outlives

if TYPE_CHECKING:
    from tests.integration.cli_network import CliNetwork
    from zoo_compute.devnet.devnet import Devnet


@pytest.fixture(scope="module", autouse=True)
def _no_process_outlives_the_file(request: pytest.FixtureRequest) -> Iterator[None]:
    with none_outlives(request.node.nodeid):
        yield


@pytest.fixture(scope="module")
def running_devnet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    from zoo_compute.devnet.devnet import Devnet

    with Devnet(tmp_path_factory.mktemp("devnet")) as running:
        yield running


@pytest.fixture
def devnet(running_devnet: Devnet) -> Iterator[Devnet]:
    """As it was when it started."""
    from tests.support.devnet_driver import rolled_back

    with rolled_back(running_devnet):
        yield running_devnet


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliNetwork]:
    """Where a file of tests runs `zoo`."""
    from tests.integration.cli_network import cli_network

    with cli_network(tmp_path_factory.mktemp("place")) as network:
        yield network
