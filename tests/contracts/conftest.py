import pytest

from tests.contracts.three_slots import offers


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
