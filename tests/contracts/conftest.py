import pytest

from tests.contracts.three_slots import offers
from tests.support.evm import chain
from tests.support.protocol_driver import START
from tests.support.revm_deployment import five_multisigs


@pytest.fixture
def cast(play):
    """ada, bob, cy with a slot each at 1,000, and the aggregator at 500."""
    return play.register_all(4)


@pytest.fixture
def awarded(play, cast):
    return play.awarded(*offers(cast))


@pytest.fixture
def running(play, cast):
    return play.running(*offers(cast))


@pytest.fixture
def roles():
    """Those of a production deployment, at the time at which tests begin."""
    chain.timestamp = START
    return five_multisigs()
