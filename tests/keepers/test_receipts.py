"""Bandwidth receipts: what is counted, what is signed, whose receipts are kept, and which are worth their gas."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from eth_account import Account

from keepers.config import from_dict
from keepers.decisions.receipts import (
    Candidate,
    Receipt,
    RunningEpoch,
    Served,
    add_within_link,
    bytes_by_operator,
    is_signed_by,
    sign,
    worth_redeeming,
)
from keepers.queue.received_bytes import ReceivedBytes, Source
from keepers.services import receipts
from keepers.services.receipts import FILE, Receipts
from repops.fields import BadField
from tests.keepers.redis_double import Redis
from tests.store.test_cid import content_of
from tests.store.test_peers import OK, hostile
from zoo_compute.chain.batch import Read
from zoo_compute.spec.params import DEVNET, PAIR_BYTES, ZEN
from zoo_compute.spec.rewards import tier_bytes
from zoo_compute.store import BlockStore, ContentTampered, Gateway, cid_of
from zoo_compute.store.gateway import receipt_path

ME, SERVER, OTHER = 1, 2, 3
LINK = tier_bytes(0, DEVNET.epoch_s)
EPOCH, MIDDLE = 1_000, DEVNET.epoch_s // 2
CONTENT = content_of(700_000)  # three blocks and a root
KEYS = {operator: Account.from_key(bytes(31) + bytes([operator])) for operator in (ME, SERVER, OTHER)}


# -- what is counted


def fetched(folder: Path, operator: int, content: bytes = CONTENT) -> dict[Source, int]:
    """What a store counts that downloads from a gateway which says that it is this operator's."""
    serving, mine, received = BlockStore(folder / "serving"), BlockStore(folder / "mine"), ReceivedBytes(Redis())
    mine.received = received.add
    cid = serving.add(content)
    with Gateway(serving, operator=operator) as gateway:
        mine.set_peers([gateway.url])
        mine.read(cid, max_bytes=len(content))
        mine.read(cid, max_bytes=len(content))  # from its own disk
        taken = received.take()
        assert received.take() == {}, "what was taken is not counted again"
        return {source._replace(url="" if source.url == gateway.url else source.url): n for source, n in taken.items()}


def test_every_block_that_an_operators_gateway_sent__is_counted_once(tmp_path: Path) -> None:
    counts = fetched(tmp_path, SERVER)
    sent = sum(path.stat().st_size for path in (tmp_path / "mine" / "blocks").rglob("*") if path.is_file())
    assert sent > len(CONTENT)
    assert counts == {Source(SERVER, ""): sent}


def test_a_gateway_that_names_no_operator__is_not_counted(tmp_path: Path) -> None:
    assert fetched(tmp_path, 0) == {}


@pytest.mark.parametrize("header", ["2", "-2", "x", "9" * 30, "²", "2, 3"])
def test_bytes_that_do_not_hash_to_their_cid__and_nonsense_for_a_number__are_not_counted(
    tmp_path: Path, header: str
) -> None:
    mine, received = BlockStore(tmp_path), ReceivedBytes(Redis())
    mine.received = received.add
    said = f"X-Operator: {header}\r\n\r\n".encode()
    good, bad = b"good", b"bad!"

    def answer(body: bytes) -> Any:
        head = (OK % len(body)).removesuffix(b"\r\n") + said
        return lambda connection, request: connection.sendall(head + body)

    with hostile(answer(bad)) as liar:
        mine.set_peers([liar.url])
        with pytest.raises(ContentTampered):
            mine.read(cid_of(good), max_bytes=10)
        assert received.take() == {}
    with hostile(answer(good)) as peer:
        mine.set_peers([peer.url])
        mine.read(cid_of(good), max_bytes=10)
        assert received.take() == ({Source(2, peer.url): 4} if header == "2" else {})


def test_bytes_count_for_an_operator__only_where_it_announced_the_gateway_that_names_it() -> None:
    endpoints = {
        ME: "http://me",
        SERVER: "http://SERVER:80/",
        OTHER: "http://other",
        4: "http://server:80",
        5: "nonsense",
    }
    received = {
        Source(SERVER, "http://server:80"): 10,
        Source(
            4, "http://server:80"
        ): 1,  # a second operator that announced the same gateway, which names it now and then
        Source(SERVER, "http://other"): 100,  # a gateway that names another operator
        Source(OTHER, "http://alias-of-server"): 100,
        Source(ME, "http://me"): 100,
        Source(9, "http://nobody"): 100,
    }
    assert bytes_by_operator(received, endpoints, ME) == {SERVER: 10, 4: 1}


def test_totals__never_exceed_the_link_in_sum() -> None:
    assert add_within_link({}, {SERVER: 5}, 10) == {SERVER: 5}
    assert add_within_link({SERVER: 5}, {SERVER: 2, OTHER: 2}, 10) == {SERVER: 7, OTHER: 2}
    assert add_within_link({SERVER: 5}, {SERVER: 4, OTHER: 2, 4: 3}, 10) == {SERVER: 9, OTHER: 1}
    assert add_within_link({SERVER: 10}, {SERVER: 1}, 10) == {SERVER: 10}
    assert add_within_link({SERVER: 12}, {OTHER: 1}, 10) == {SERVER: 12}, "a link that became smaller"


# -- what is worth redeeming

RICH = RunningEpoch(budget=10**6, weight=1, shares=((1, 10**9),), beats=0, total_beats=0, others_bytes=0)

UNSERVED = Served(0, 0, 10**6)


def candidate(total: int, *, client: int = OTHER, redeemed: int = 0, signed: int = 0, **changes: Any) -> Candidate:
    made = Candidate(Receipt(ME, client, EPOCH, total), redeemed, signed or redeemed, False, link=1_000)
    return replace(made, **changes)


def chosen(*candidates: Candidate, served: Served = UNSERVED, epoch: RunningEpoch = RICH, gas: int = 0) -> list[int]:
    return [receipt.client for receipt in worth_redeeming(candidates, served, epoch, gas)]


def test_a_receipt_beyond_a_link__is_never_redeemed() -> None:
    assert chosen(candidate(1_000)) == [OTHER]
    assert chosen(candidate(1_001)) == []
    assert chosen(candidate(500, signed=500)) == [OTHER]
    assert chosen(candidate(500, signed=501)) == [], "with what others redeemed of this client"
    assert chosen(candidate(100, violated=True)) == []
    assert chosen(candidate(100), served=Served(50, 0, 150)) == [OTHER]
    assert chosen(candidate(100), served=Served(51, 0, 150)) == []
    assert chosen(candidate(100, client=4), candidate(90), served=Served(0, 0, 180)) == [4], "both are beyond my link"


def test_what_was_redeemed__is_not_redeemed_again() -> None:
    assert chosen(candidate(100, redeemed=100)) == []
    assert chosen(candidate(100, redeemed=101)) == []
    assert chosen(candidate(101, redeemed=100)) == [OTHER]


def test_a_receipt__is_redeemed_where_it_brings_more_than_its_gas() -> None:
    """A tenth of the budget is shared by bytes: 100,000 of these, half of them with as many bytes as others have."""
    epoch = replace(RICH, others_bytes=100)
    assert chosen(candidate(100), epoch=epoch, gas=49_999) == [OTHER]
    assert chosen(candidate(100), epoch=epoch, gas=50_000) == []
    # The second one adds less: its bytes share with the first one's.
    two = (candidate(100), candidate(90, client=4))
    assert chosen(*two, epoch=epoch, gas=15_000) == [OTHER, 4]
    assert chosen(*two, epoch=epoch, gas=16_000) == [OTHER]


def test_what_bytes_pay__stays_within_what_compute_and_uptime_leave_of_the_jobs_fees() -> None:
    assert replace(RICH, shares=()).pays(100) == 0
    assert RICH.pays(0) == 0
    assert RICH.pays(100) == 100_000
    # Room 700,000: compute fills 500,000, and uptime 150,000 of what is left.
    scarce = replace(RICH, shares=((1, 10**6),), beats=3, total_beats=4)
    assert scarce.pays(100) == 50_000
    assert replace(scarce, beats=4).pays(100) == 0


def test_bytes_beyond_a_pairs_cap__bring_nothing() -> None:
    big = Served(0, 0, 10**15)
    assert chosen(candidate(PAIR_BYTES + 1, redeemed=PAIR_BYTES, link=10**15), served=big) == []
    assert chosen(candidate(PAIR_BYTES, redeemed=PAIR_BYTES - 10**9, link=10**15), served=big) == [OTHER]


# -- a keeper's looks


class ChainDouble:
    """What a keeper reads of the chain, and what it sends. paid: by job what was recorded of mine in this epoch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.params = DEVNET
        self.now = EPOCH * DEVNET.epoch_s + MIDDLE
        self.network: Any = SimpleNamespace(chain_id=7, contracts={"rewards": "0x" + 40 * "1"}, first_block=0)
        self.w3: Any = SimpleNamespace(
            eth=SimpleNamespace(get_block=lambda _: {"baseFeePerGas": 10**9}, max_priority_fee=0)
        )
        self.rewards: Any = SimpleNamespace(redeem=lambda *args: args)
        self.redeemed: list[tuple[Any, ...]] = []
        self.tiers: dict[int, int] = {}
        monkeypatch.setattr(receipts, "read_all", lambda chain, block, reads: [self.read(each) for each in reads])
        monkeypatch.setattr(
            receipts,
            "History",
            lambda *_, **__: SimpleNamespace(
                events_until=lambda head: [SimpleNamespace(args={"job": 1, "epoch": self.now // DEVNET.epoch_s})],
                forget=lambda events: None,
            ),
        )

    def head(self) -> Any:
        return SimpleNamespace(number=1, timestamp=self.now)

    def send(self, args: tuple[Any, ...]) -> Any:
        self.redeemed.append(args)
        return SimpleNamespace(transaction_hash="0x")

    def read(self, read: Read) -> Any:
        mine = [args for args in self.redeemed if args[2] == self.now // DEVNET.epoch_s]
        return {
            "hot_key": lambda: KEYS[read.args[0]].address,
            "promised": lambda: {"tier": self.tiers.get(read.args[0], 0), "hours": 0},
            "pairs": lambda: {"total": max([a[3] for a in mine if a[1] == read.args[1]], default=0), "counted": 0},
            "signed": lambda: {
                "total": max([a[3] for a in mine if a[1] == read.args[0]], default=0),
                "violated": False,
            },
            "served": lambda: {"total": sum(a[3] for a in mine), "counted": sum(a[3] for a in mine)},
            "epochs": lambda: {"budget": 1_000 * ZEN, "weight": 1, "fees": 10**6 * ZEN, "paid": 0},
            "shares": lambda: {"weight": 1, "fees": 10**6 * ZEN},
        }.get(read.function, lambda: 0)()


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> ChainDouble:
    return ChainDouble(monkeypatch)


class Operator:
    """One operator's folder, store and receipts; `restart` makes them anew from the same disk."""

    def __init__(self, folder: Path, chain: ChainDouble, number: int, endpoints: dict[int, str]) -> None:
        self.chain, self.number, self.endpoints = chain, number, endpoints
        self.redis = Redis()
        self.store = BlockStore(folder / "store")
        self.config = from_dict({"name": "node", "network": "n", "operator": number}, folder)
        self.restart()

    def restart(self) -> None:
        chain: Any = self.chain
        args = (self.config, chain, chain, KEYS[self.number], self.store, self.received)
        self.receipts = Receipts(*args, lambda: self.endpoints)

    @property
    def received(self) -> ReceivedBytes:
        return ReceivedBytes(self.redis)

    def look(self, **received: int) -> None:
        for name, count in received.items():
            operator = int(name.removeprefix("of_"))
            self.received.add(self.endpoints[operator], operator, count)
        self.receipts.look()

    def signed_for(self, server: int) -> int | None:
        path = receipt_path(self.store.root, server)
        return Receipt.from_bytes(path.read_bytes()).total if path.exists() else None


ENDPOINTS = {ME: "http://me", SERVER: "http://127.0.0.1:1", OTHER: "http://127.0.0.1:2"}


@pytest.fixture
def client(tmp_path: Path, chain: ChainDouble) -> Operator:
    """It has seen an epoch begin."""
    made = Operator(tmp_path / "client", chain, ME, dict(ENDPOINTS))
    made.look()
    chain.now += DEVNET.epoch_s
    return made


def test_a_client__signs_for_all_bytes_of_the_epoch_so_far__also_after_a_restart(
    client: Operator, chain: ChainDouble
) -> None:
    client.look(of_2=100, of_3=7)
    assert (client.signed_for(SERVER), client.signed_for(OTHER)) == (100, 7)
    client.look(of_2=11)
    client.restart()
    client.look(of_2=1_000)
    assert client.signed_for(SERVER) == 1_111
    signed = Receipt.from_bytes(receipt_path(client.store.root, SERVER).read_bytes())
    assert (signed.server, signed.client, signed.epoch) == (SERVER, ME, EPOCH + 1)
    assert is_signed_by(chain, KEYS[ME].address, signed)  # type: ignore[arg-type]
    chain.now += DEVNET.epoch_s
    client.look()
    assert client.signed_for(SERVER) is None, "the next epoch begins with nothing"
    client.look(of_2=5)
    assert client.signed_for(SERVER) == 5


def test_a_client__never_signs_for_more_than_its_link_carries(client: Operator, chain: ChainDouble) -> None:
    client.look(of_2=LINK - 10)
    client.restart()
    client.look(of_3=100, of_2=100)
    totals = [client.signed_for(server) or 0 for server in (SERVER, OTHER)]
    assert sum(totals) == LINK
    chain.now += DEVNET.epoch_s
    chain.tiers[ME] = 1
    client.look(of_2=LINK + 10)
    assert client.signed_for(SERVER) == LINK + 10


def test_a_crash_between_counting_and_signing__signs_nothing_twice(
    client: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(receipts, "sign", dies)
    with pytest.raises(KeyboardInterrupt):
        client.look(of_2=100)
    monkeypatch.undo()
    ChainDouble.__init__(client.chain, monkeypatch)
    client.chain.now += DEVNET.epoch_s
    client.restart()
    client.look()
    assert client.signed_for(SERVER) == 100


@pytest.mark.parametrize("damage", ["lost", "nonsense", "of a later epoch"])
def test_a_client_that_cannot_know_what_it_signed__signs_nothing_until_the_next_epoch(
    client: Operator, chain: ChainDouble, damage: str
) -> None:
    client.look(of_2=LINK)
    path = client.config.folder / FILE
    if damage == "lost":
        path.unlink()
    else:
        later = json.loads(path.read_text()) | {"epoch": EPOCH + 50}
        path.write_text("{" if damage == "nonsense" else json.dumps(later))
    client.restart()
    for _ in range(2):
        client.look(of_3=100)
        client.restart()
    assert client.signed_for(OTHER) is None
    chain.now += DEVNET.epoch_s
    client.look(of_3=100)
    assert client.signed_for(OTHER) == 100


def test_before_the_announcements_are_read__nothing_that_was_counted_is_lost(client: Operator) -> None:
    known, client.endpoints = client.endpoints, {}
    client.received.add(known[SERVER], SERVER, 100)
    client.look()
    client.endpoints = known
    client.look()
    assert client.signed_for(SERVER) == 100


# -- handed over, and redeemed


@pytest.fixture
def server(tmp_path: Path, chain: ChainDouble) -> Operator:
    return Operator(tmp_path / "server", chain, SERVER, dict(ENDPOINTS))


def near_the_end(chain: ChainDouble) -> None:
    chain.now = (chain.now // DEVNET.epoch_s + 1) * DEVNET.epoch_s - 2


def test_a_server__collects_what_its_client_signed__and_redeems_the_best_near_the_epochs_end(
    client: Operator, server: Operator, chain: ChainDouble
) -> None:
    with Gateway(client.store, operator=ME) as gateway:
        server.endpoints[ME] = gateway.url
        client.look(of_2=10**9)
        server.look()
        assert chain.redeemed == []
        assert server.receipts.status["receipts_bytes"] == 10**9
        client.look(of_2=5)
        server.look()
        server.look()
    server.restart()
    near_the_end(chain)
    server.look()  # its client is gone, and the receipt is on disk
    server.look()
    assert [args[:4] for args in chain.redeemed] == [(SERVER, ME, EPOCH + 1, 10**9 + 5)]
    assert server.receipts.status["redeemed_bytes"] == 10**9 + 5
    chain.now += DEVNET.epoch_s
    server.look()
    assert len(chain.redeemed) == 1, "a receipt of an epoch that is over is worth nothing"


def test_a_receipt_that_brings_less_than_its_gas__is_not_redeemed(
    client: Operator, server: Operator, chain: ChainDouble
) -> None:
    with Gateway(client.store) as gateway:
        server.endpoints[ME] = gateway.url
        client.look(of_2=10**9)
        chain.w3.eth.max_priority_fee = 10**15
        near_the_end(chain)
        server.look()
    assert chain.redeemed == []


@pytest.mark.parametrize(
    "lie", ["another client", "another server", "another epoch", "another signer", "nonsense", "less"]
)
def test_a_receipt_that_is_not_what_it_should_be__is_not_kept(
    client: Operator, server: Operator, chain: ChainDouble, lie: str
) -> None:
    good = Receipt(SERVER, ME, EPOCH + 1, 10)
    lies = {
        "another client": sign(chain, KEYS[OTHER], replace(good, client=OTHER)),  # type: ignore[arg-type]
        "another server": sign(chain, KEYS[ME], replace(good, server=OTHER)),  # type: ignore[arg-type]
        "another epoch": sign(chain, KEYS[ME], replace(good, epoch=EPOCH)),  # type: ignore[arg-type]
        "another signer": sign(chain, KEYS[OTHER], good),  # type: ignore[arg-type]
        "nonsense": replace(good, signature=130 * "f"),
        "less": sign(chain, KEYS[ME], replace(good, total=9)),  # type: ignore[arg-type]
    }
    path = receipt_path(client.store.root, SERVER)
    path.parent.mkdir(exist_ok=True)
    kept = 0
    with Gateway(client.store) as gateway:
        server.endpoints[ME] = gateway.url
        if lie == "less":
            kept = 10
            path.write_bytes(sign(chain, KEYS[ME], good).to_bytes())  # type: ignore[arg-type]
            server.look()
        path.write_bytes(lies[lie].to_bytes())
        server.look()
        assert server.receipts.status["receipts_bytes"] == kept
        path.write_bytes(b"{}")
        server.look()
        path.write_bytes(sign(chain, KEYS[ME], replace(good, total=11)).to_bytes())  # type: ignore[arg-type]
        server.look()
    assert server.receipts.status["receipts_bytes"] == 11


@pytest.mark.parametrize("field", ["server", "client", "epoch", "total"])
def test_a_receipt_with_a_number_out_of_range__cannot_be_read(field: str) -> None:
    raw = json.loads(Receipt(1, 2, 3, 4).to_bytes())
    for wrong in (-1, 1 << 128, "4", 1.5):
        with pytest.raises(BadField):
            Receipt.from_bytes(json.dumps(raw | {field: wrong}).encode())
