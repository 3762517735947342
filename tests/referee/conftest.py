"""One job on both sides a file of tests, and copies of it for each: other files find the chain as it was."""

import pytest
import torch

from node.device import use_threads
from tests.referee.exploration_driver import Exploring
from tests.referee.exploration_moves import Explorer
from tests.referee.game_driver import fork, game_driver
from tests.support.evm import chain
from tests.support.lockstep.contract_mirror import deployed


@pytest.fixture(scope="session", autouse=True)
def deployments():
    """Before anything is anchored: the chain would take back what other files of tests go on with."""
    for preset in ("devnet", "production"):
        deployed(preset)


@pytest.fixture(scope="module", name="committed")
def committed_fixture():
    with chain.anchor():
        yield game_driver(token="bad")  # which can be told to answer false


@pytest.fixture
def court(committed):
    """Specification and contracts in step."""
    with fork(committed) as mine:
        yield mine


@pytest.fixture
def paper():
    """The specification alone."""
    return game_driver(on_chain=False)


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    use_threads(1)
    yield
    use_threads(before)


@pytest.fixture(scope="module", name="claimed")
def claimed_fixture():
    with chain.anchor():
        yield Exploring()


@pytest.fixture
def exploring(claimed):
    """Openings beside its specification, over claims that nobody asked about yet."""
    with claimed.fork() as mine:
        yield mine


@pytest.fixture
def explorer(exploring):
    return Explorer(exploring)
