"""Contracts and specification, driven together through the directed sequences."""

from dataclasses import replace

import pytest

from tests.support.evm import chain, reverts
from tests.support.job_driver import Offer
from tests.support.lockstep.contract_mirror import Disagreement, fresh_mirror
from tests.support.lockstep.contract_views import seal_bytes
from tests.support.lockstep.coverage import Coverage, functions_of, listed_functions, listed_reasons
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.catalogue import SCENARIOS
from zoo_compute.spec.params import PRESETS
from zoo_compute.spec.state import Pause
from zoo_compute.spec.world import EXTERNAL, PROTOCOL_ONLY


class Campaign:
    """Runs each sequence once, whoever asks first, and keeps what all of them reached."""

    def __init__(self) -> None:
        self.coverage = Coverage()
        self._done: set[str] = set()

    def run(self, name: str) -> None:
        if name in self._done:
            return
        preset = "production" if "production" in name else "devnet"
        with fresh_mirror(preset) as mirror:
            stage = Stage(self.coverage, mirror, preset=PRESETS[preset])
            SCENARIOS[name](stage)
            mirror.compare(stage.world)
        self._done.add(name)


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    return Campaign()


@pytest.mark.parametrize("name", SCENARIOS)
def test_contracts_and_specification_agree_that(campaign: Campaign, name: str) -> None:
    campaign.run(name)


def test_every_function_state_and_refusal_of_the_protocol_is_reached(campaign: Campaign) -> None:
    for name in SCENARIOS:
        campaign.run(name)
    print(campaign.coverage.summary())
    assert campaign.coverage.missing() == {}
    assert campaign.coverage.unlisted() == {}


def test_the_list_of_reasons_is_read_from_the_protocols_text() -> None:
    assert {"settlement: window open", "auction: out of order", "tasks: not the guardian"} <= listed_reasons()
    assert len(listed_reasons()) > 90


def test_the_specification_has_the_functions_of_the_protocols_tables() -> None:
    assert listed_functions() == functions_of(EXTERNAL) | functions_of(PROTOCOL_ONLY)


def test_a_contract_that_shows_another_state_is_noticed() -> None:
    with fresh_mirror("devnet") as mirror:
        stage = Stage(Coverage(), mirror)
        alice = stage.register("alice")
        wrong = stage.world.fork()
        wrong.operators[alice] = replace(wrong.operators[alice], reputation=1_000, rated_at=stage.now)
        with pytest.raises(Disagreement, match="reputation shows 0, specification says 1"):
            mirror.compare(wrong)


def test_a_contract_that_accepts_or_refuses_otherwise_is_noticed() -> None:
    with fresh_mirror("devnet") as mirror:
        stage = Stage(Coverage(), mirror)
        stage.register("alice")
        job = stage.post()
        stage.bid(job, 0, "alice", Offer(50))
        world = stage.world.fork()
        world.pauses[world.config.registry] = Pause(end=stage.now + 1)
        stage.world = world
        with pytest.raises(Disagreement, match="accepted, specification says 'registry: intake paused'"):
            stage.register("bob")
        with pytest.raises(Disagreement, match="refused with 'auction: no bid'"):
            mirror.refuse(
                stage.call("auction", "reclaim", "stranger", job, 0, 99), "auction: bid still active", stage.world
            )


def test_a_seal_is_compared_by_its_upper_160_bits() -> None:
    """The specification keeps the tuple, not the hash: what only the hash can show is shown on the contract alone."""
    with fresh_mirror("devnet") as mirror:
        stage = Stage(Coverage(), mirror)
        stage.register("alice")
        job = stage.post()
        auction, hot = mirror.contracts["auction"], stage.accounts["alice hot"]
        seal = seal_bytes(stage.seal(job, 0, "alice", Offer(50)))
        reveal = (job, 0, 1, 50, stage.salt("alice"))
        for kept, reason in ((20, None), (19, "auction: seal does not match")):
            flipped = seal[:kept] + bytes(byte ^ 0xFF for byte in seal[kept:])
            with chain.anchor():
                auction.bid(job, 0, 1, flipped, 1, sender=hot)
                chain.timestamp = stage.world.lot(job, 0).bid_end
                if reason is None:
                    auction.reveal(*reveal)
                    assert auction.bids(job, 0, 1).revealed
                else:
                    with reverts(reason):
                        auction.reveal(*reveal)
            chain.timestamp = stage.now
