"""Bandwidth receipts between two keepers with a store and a gateway each, on a chain with production's epochs of a day: what one downloads
from the other is signed for, handed over, redeemed and paid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.config import from_dict
from keepers.keeper import Keeper
from keepers.queue.received_bytes import ReceivedBytes
from keepers.services.receipts import REDEEM_GAS
from tests.keepers.redis_double import Redis
from tests.store.test_cid import content_of
from tests.support.devnet_driver import DevnetDriver, DevnetOperator
from tests.support.job_driver import Offer
from zoo_compute.chain.connection import connect
from zoo_compute.chain.event_log import use_store
from zoo_compute.chain.events import scan
from zoo_compute.chain.sender import Sender
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.operators.account import Operators
from zoo_compute.operators.bandwidth import EpochBandwidth, read_bandwidth
from zoo_compute.spec.params import PRODUCTION
from zoo_compute.store import BlockStore, Gateway

pytestmark = pytest.mark.integration

DAY_S = PRODUCTION.epoch_s
RESERVE = 10**17
CONTENT = content_of(700_000)


class Node:
    """An operator's keeper, with its store behind its gateway; nothing but its work queue is a double."""

    def __init__(self, folder: Path, driver: DevnetDriver, name: str, stack: ExitStack) -> None:
        self.party: DevnetOperator = driver.operator(name, RESERVE // 2)
        self.store, received = BlockStore(folder / name / "store"), ReceivedBytes(Redis())
        self.store.received = received.add
        self.gateway = stack.enter_context(Gateway(self.store, operator=self.party.id))
        raw = {
            "name": name,
            "network": "n",
            "operator": self.party.id,
            "endpoint": self.gateway.url,
            "coin_price": "0.000001",
            "private_peers": True,
        }
        config = from_dict(raw, folder / name)
        work: Any = SimpleNamespace(wake=lambda: None)
        chain = connect(driver.devnet.network)
        use_store(chain, folder / name / "events.sqlite3", self.party.id)
        sender = Sender(chain, self.party.account, folder=driver.devnet.folder)
        self.keeper = Keeper(config, chain, self.party.account, sender, self.store, work, received)
        self.keeper.peers.refresh()

    def look(self) -> dict[str, Any]:
        self.keeper.peers.refresh()
        assert self.keeper.receipts is not None
        self.keeper.receipts.look()
        return self.keeper.receipts.status


@pytest.fixture
def network(tmp_path: Path) -> Iterator[tuple[DevnetDriver, Node, Node]]:
    """A server and a client, on the first day on which both keepers were there from the beginning. The server was paid for a small job on
    it, whose compute leaves room in what its fee allows: most of the day's compute is another job's."""
    with Devnet(tmp_path / "chain", preset="production") as devnet, ExitStack() as stack:
        driver = DevnetDriver(devnet)
        server, client = (Node(tmp_path, driver, name, stack) for name in ("server", "client"))
        other = driver.operator("other", RESERVE // 2)
        jobs = []
        for pair, flops in (((server.party, client.party), 1), ((client.party, other), 10**12)):
            offers = dict.fromkeys(pair, Offer(RESERVE // 2))
            reserves = {"reserve": RESERVE, "max_price": 2 * RESERVE, "flops": flops}
            job = driver.running(offers, {pair[1]: Offer(4)}, **reserves)
            driver.commit_all(job)
            driver.post_checkpoint(job)
            jobs.append(job)
        for node in (server, client):
            node.look()
        devnet.warp_to((devnet.chain.now() // DAY_S + 1) * DAY_S)
        for node in (server, client):
            node.look()
        for job in jobs:
            driver.finalise(job)
        yield driver, server, client


def test_a_download__is_signed_for_handed_over_redeemed_and_paid__where_it_pays(
    network: tuple[DevnetDriver, Node, Node],
) -> None:
    driver, server, client = network
    chain, devnet = driver.chain, driver.devnet
    epoch = chain.now() // DAY_S
    cid = server.store.add(CONTENT)
    assert client.store.read(cid, max_bytes=len(CONTENT)) == CONTENT
    signed = client.look()["received_bytes"]
    assert signed > len(CONTENT)
    assert server.look()["receipts_bytes"] == signed
    assert chain.rewards.served(server.party.id, epoch).total == 0, "the day is not over"

    devnet.warp_to((epoch + 1) * DAY_S - 3_600)
    assert server.look()["redeemed_bytes"] == signed
    assert client.look()["redeemed_bytes"] == 0
    server.look()
    (redeemed,) = scan(chain, 0, chain.head().number, names=("ReceiptRedeemed",))
    used = chain.w3.eth.get_transaction_receipt(redeemed.tx)["gasUsed"]  # type: ignore[arg-type]
    assert 0.7 * REDEEM_GAS < used <= REDEEM_GAS
    named = {"server": server.party.id, "client": client.party.id, "epoch": epoch, "total": signed, "counted": signed}
    assert redeemed.args == named
    assert chain.rewards.signed(client.party.id, epoch) == (signed, False)

    devnet.warp_to((epoch + 1) * DAY_S)
    before = chain.zen.balanceOf(server.party.account.address)
    paid = Operators(chain, server.party.sender).claim_rewards(server.party.id, say=print)
    assert chain.zen.balanceOf(server.party.account.address) == before + paid
    extra = chain.rewards.earned(server.party.id, epoch).extra
    assert 0 < extra < paid
    assert read_bandwidth(chain, server.party.id) == (EpochBandwidth(epoch, signed, extra),)
    assert read_bandwidth(chain, client.party.id) == ()
    assert Operators(chain).earnings(server.party.id).bandwidth == (EpochBandwidth(epoch, signed, extra),)

    # -- a day on which nobody was paid for compute: a receipt pays nothing, and no gas is spent on it
    for node in (server, client):
        node.look()
    cid = server.store.add(CONTENT[::-1])
    client.store.read(cid, max_bytes=len(CONTENT))
    assert client.look()["received_bytes"] == signed
    devnet.warp_to((epoch + 2) * DAY_S - 3_600)
    status = server.look()
    assert (status["epoch"], status["receipts_bytes"], status["redeemed_bytes"]) == (epoch + 1, signed, 0)
