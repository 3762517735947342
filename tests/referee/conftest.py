"""One job on both sides a file of tests, and copies of it for each: other files find the chain as it was."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def deployments():
    """Before anything is anchored: the chain would take back what other files of tests go on with."""
    from tests.support.explorations import exploration_board
    from tests.support.lockstep.contract_mirror import deployed

    for preset in ("devnet", "production"):
        deployed(preset)
    exploration_board.deployed()


@pytest.fixture
def one_thread():
    import torch

    from node.hardware import use_threads

    before = torch.get_num_threads()
    use_threads(1)
    yield
    use_threads(before)


@pytest.fixture(scope="module", name="claimed")
def claimed_fixture():
    from tests.referee.exploration_driver import Exploring
    from tests.support.evm import chain

    with chain.anchor():
        yield Exploring()


@pytest.fixture
def exploring(claimed):
    """The Referee beside its specification, over claims that nobody asked about yet."""
    with claimed.fork() as mine:
        yield mine


@pytest.fixture
def explorer(exploring):
    from tests.support.explorations.exploration_moves import Explorer

    return Explorer(exploring)
