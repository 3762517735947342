"""Nothing is imported before a test needs it: xdist's controller, which runs none, reads this file too."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def chain_here():
    """Before anything is anchored."""
    from tests.support.evm import chain

    return chain


@pytest.fixture
def cast(play):
    """ada, bob, cy with a slot each at 1,000, and the aggregator at 500."""
    return play.register_all(4)


@pytest.fixture
def awarded(play, cast):
    from tests.contracts.three_slots import offers

    return play.awarded(*offers(cast))


@pytest.fixture
def running(play, cast):
    from tests.contracts.three_slots import offers

    return play.running(*offers(cast))


@pytest.fixture
def roles(chain_here):
    """Those of a production deployment, at the time at which tests begin."""
    from tests.support.protocol_driver import START
    from tests.support.revm_deployment import five_multisigs

    chain_here.timestamp = START
    return five_multisigs()
