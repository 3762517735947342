"""Times of blocks by their hash, while other threads read blocks by number."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from zoo_compute.chain.connection import connect
from zoo_compute.chain.events import scan
from zoo_compute.chain.explorations import Explorations
from zoo_compute.devnet.devnet import Devnet

pytestmark = pytest.mark.integration

LOOKS = 100


@pytest.fixture
def threads_that_take_turns_quickly() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_times_of_blocks__are_read_while_other_threads_read_blocks_by_number(
    devnet: Devnet, threads_that_take_turns_quickly: None
) -> None:
    """web3 keeps the choice between by hash and by number in an object of all threads: a soak of an hour ended after six minutes."""
    chain = connect(devnet.network)
    events = list(scan(chain, 0, chain.head().number))
    first = chain.head(events[0].block).timestamp
    ended, errors = threading.Event(), list[Exception]()

    def by_number() -> None:
        while not ended.is_set():
            try:
                with chain.w3.batch_requests() as batch:  # without a wait for answers, so that they meet often
                    for _ in range(100):
                        batch.add(chain.w3.eth.get_block("latest"))
                    batch.cancel()
            except Exception as error:  # noqa: BLE001 whatever it is
                errors.append(error)

    others = [threading.Thread(target=by_number) for _ in range(3)]
    for each in others:
        each.start()
    try:
        for _ in range(LOOKS):
            reader = Explorations(chain)
            reader._read_times(events)
            assert reader._times[events[0].block_hash] == first
    finally:
        ended.set()
        for each in others:
            each.join()
    assert not errors
