"""Whole paths of an exploration, each call in step with the specification."""

import pytest

from tests.referee.exploration_driver import Exploring
from tests.referee.exploration_moves import Explorer
from tests.support.evm import chain


@pytest.fixture(scope="module", name="committed")
def committed_fixture():
    with chain.anchor():
        yield Exploring()


@pytest.fixture
def court(committed):
    with committed.fork() as mine:
        yield mine


@pytest.fixture
def explorer(court):
    return Explorer(court)


@pytest.mark.parametrize("leaf", [None, 2])
def test_path__from_the_claim_to_one_part__convicts(court, explorer, leaf):
    court.set_parts(700)
    id = explorer.first("bob", slot=5, leaf=leaf)
    if leaf is None:
        id = explorer.down(id, 2)
    id = explorer.down(explorer.answer(id), 3)
    id = explorer.down(explorer.answer(id), 3)
    shown = explorer.down(explorer.answer(id), 10)
    parts = explorer.ask_parts(shown, 128 * 10 + 5)
    part = explorer.down(explorer.answer(parts), 4)
    explorer.convict(part, child=0)
    assert court.reasons.total() == court.reasons[""]
