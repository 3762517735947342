"""Both sides' books: what an operator accepts, what a client may still sign, and that a crash loses nothing."""

from __future__ import annotations

import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import pytest
from eth_account import Account

from zoo_compute.chain.generated.bindings.channels import Channel
from zoo_compute.errors import ConfigError, VoucherRefused
from zoo_compute.inference import books
from zoo_compute.inference.books import ClientBook, OperatorBook
from zoo_compute.serving.vouchers import SignedVoucher, Voucher, domain_of, sign, verify

KEY = b"\x05" * 32
SIGNER = Account.from_key(KEY).address
DOMAIN = domain_of(31_337, "0x" + 20 * "c0")
NONE = "0x" + 40 * "0"
GONE = Channel(NONE, 0, NONE, NONE, 0, 0, 0)
OPERATOR = 7
RECHECK_S = 6.0


@dataclass
class Chain:
    """Channels as a chain would show them, and how often they were read."""

    channels: dict[int, Channel] = field(default_factory=dict)
    reads: int = 0

    def open(self, number: int, deposit: int = 1_000, operator: int = OPERATOR, **changes: int) -> None:
        self.channels[number] = Channel("0x" + 20 * "11", operator, NONE, SIGNER, deposit, 0, 0)._replace(**changes)

    def change(self, number: int, **changes: int) -> None:
        self.channels[number] = self.channels[number]._replace(**changes)

    def read(self, number: int) -> Channel:
        self.reads += 1
        return self.channels.get(number, GONE)


@pytest.fixture
def chain() -> Chain:
    chain = Chain()
    chain.open(1)
    return chain


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [100.0]
    monkeypatch.setattr(books.time, "monotonic", lambda: clock[0])
    return clock


@pytest.fixture
def book(chain: Chain, tmp_path: Path, now: list[float]) -> Iterator[OperatorBook]:
    made = OperatorBook(tmp_path / "node" / "vouchers.sqlite", DOMAIN, OPERATOR, chain.read, RECHECK_S)
    yield made
    made.close()


def signed(total: int, channel: int = 1, key: bytes = KEY, domain: bytes = DOMAIN) -> SignedVoucher:
    voucher = Voucher(channel, total)
    return SignedVoucher(voucher, sign(domain, voucher, key))


def again(book: OperatorBook, chain: Chain, tmp_path: Path) -> OperatorBook:
    book.close()
    return OperatorBook(tmp_path / "node" / "vouchers.sqlite", DOMAIN, OPERATOR, chain.read, RECHECK_S)


# --- the operator


def test_accept__vouchers_that_grow__keeps_the_newest(book: OperatorBook, chain: Chain, tmp_path: Path) -> None:
    assert book.accept(signed(10)) == 10
    assert book.accept(signed(15), price=5) == 5
    assert book.newest(1) == signed(15)
    for total in (0, 10, 14, 15):
        with pytest.raises(VoucherRefused, match="15 is owed already"):
            book.accept(signed(total))
    with pytest.raises(VoucherRefused, match="the request costs 6") as caught:
        book.accept(signed(20), price=6)
    assert caught.value.hint == "sign a total of 21 at least"
    assert book.newest(1) == signed(15)
    assert chain.reads == 1
    reopened = again(book, chain, tmp_path)
    assert reopened.newest(1) == signed(15)
    with pytest.raises(VoucherRefused, match="15 is owed already"):
        reopened.accept(signed(15))
    reopened.close()


def test_accept__a_voucher_that_is_not_the_signers__keeps_nothing(book: OperatorBook) -> None:
    other = domain_of(1, "0x" + 20 * "c0")
    for wrong in (
        signed(10, key=b"\x06" * 32),
        signed(10, domain=other),
        SignedVoucher(Voucher(1, 11), signed(10).signature),
    ):
        with pytest.raises(VoucherRefused, match="not signed by its signer"):
            book.accept(wrong)
    assert book.newest(1) is None
    assert book.channels() == []


def test_accept__beyond_the_deposit__looks_again_and_then_refuses(book: OperatorBook, chain: Chain) -> None:
    assert book.accept(signed(1_000)) == 1_000
    with pytest.raises(VoucherRefused, match="says 1001, and its deposit is 1000") as caught:
        book.accept(signed(1_001))
    assert "zoo channel add 1" in caught.value.hint
    chain.change(1, deposit=1_500)
    assert book.accept(signed(1_500)) == 500


def test_accept__a_forged_voucher_beyond_the_deposit__makes_nobody_look(book: OperatorBook, chain: Chain) -> None:
    book.accept(signed(1))
    for _ in range(5):
        with pytest.raises(VoucherRefused, match="not signed"):
            book.accept(signed(10**6, key=b"\x06" * 32))
    assert chain.reads == 1


def test_accept__of_anothers_channel_or_none__is_refused(book: OperatorBook, chain: Chain) -> None:
    chain.open(2, operator=OPERATOR + 1)
    with pytest.raises(VoucherRefused, match="channel 2 is not open to operator 7"):
        book.accept(signed(1, channel=2))
    with pytest.raises(VoucherRefused, match="channel 3 is not open to operator 7"):
        book.accept(signed(1, channel=3))
    del chain.channels[1]
    with pytest.raises(VoucherRefused, match="channel 1 is not open"):
        book.accept(signed(1))


def test_accept__after_notice__is_refused_once_it_is_seen(book: OperatorBook, chain: Chain, now: list[float]) -> None:
    book.accept(signed(1))
    chain.change(1, ends_at=10**9)
    now[0] += RECHECK_S
    assert book.accept(signed(2)) == 1  # seen a moment ago
    now[0] += 0.001
    with pytest.raises(VoucherRefused, match="given notice"):
        book.accept(signed(3))
    assert book.newest(1) == signed(2)
    assert book.left() == [1]


def test_left__names_what_ends_and_forgets_what_has_been_closed_for_a_notice(
    book: OperatorBook, chain: Chain, now: list[float]
) -> None:
    """An RPC that lags may say once that a channel is not there."""
    for number in (2, 3):
        chain.open(number)
    for number in (1, 2, 3):
        book.accept(signed(number, channel=number))
    assert book.left() == []
    chain.change(2, ends_at=10**9)
    gone = chain.channels.pop(3)
    assert book.left() == [2]
    chain.channels[3] = gone
    assert book.left() == [2]
    assert book.newest(3) == signed(3, channel=3)
    del chain.channels[3]
    assert book.left() == [2]
    assert book.channels() == [1, 2, 3]
    now[0] += books.RECHECKS * RECHECK_S + 1
    assert book.left() == [2]
    assert book.channels() == [1, 2]


def test_accept__numbers_that_are_no_channel__are_looked_up_once_in_a_while(
    book: OperatorBook, chain: Chain, now: list[float]
) -> None:
    for _ in range(5):
        with pytest.raises(VoucherRefused, match="not open to operator"):
            book.accept(signed(1, channel=77))
        assert book.owed(77) is None
    assert chain.reads == 1
    chain.open(77)
    now[0] += books.MISSED_S
    assert book.accept(signed(1, channel=77)) == 1


def test_accept__a_channel_in_another_token__refuses(book: OperatorBook) -> None:
    with pytest.raises(VoucherRefused, match="pays in the token"):
        book.accept(signed(5), token=SIGNER)
    assert book.accept(signed(5), token=NONE) == 5


def test_accept__a_channel_that_another_process_closed__refuses_its_old_vouchers(
    book: OperatorBook, chain: Chain, tmp_path: Path
) -> None:
    book.accept(signed(5))
    del chain.channels[1]
    keeper = OperatorBook(tmp_path / "node" / "vouchers.sqlite", DOMAIN, OPERATOR, chain.read, RECHECK_S)
    keeper.forget(1)
    keeper.close()
    with pytest.raises(VoucherRefused, match="not open to operator"):
        book.accept(signed(5))


def test_owed__is_what_is_signed_or_paid_of_an_own_channel(book: OperatorBook, chain: Chain) -> None:
    assert (book.owed(1), book.owed(9)) == (0, None)
    book.accept(signed(5))
    assert book.owed(1) == 5
    chain.change(1, paid=7)
    book.look(1)
    assert book.owed(1) == 7


def test_accept__after_a_lost_book__counts_from_what_the_chain_paid(book: OperatorBook, chain: Chain) -> None:
    chain.change(1, paid=400)
    with pytest.raises(VoucherRefused, match="400 is owed already"):
        book.accept(signed(400))
    assert book.accept(signed(410)) == 10


def test_two_networks__share_a_file_and_no_voucher(book: OperatorBook, chain: Chain, tmp_path: Path) -> None:
    book.accept(signed(10))
    elsewhere = domain_of(1, "0x" + 20 * "c0")
    other = OperatorBook(tmp_path / "node" / "vouchers.sqlite", elsewhere, OPERATOR, chain.read, RECHECK_S)
    assert other.newest(1) is None
    assert other.accept(signed(3, domain=elsewhere)) == 3
    assert book.newest(1) == signed(10)
    other.close()


def test_threads__that_accept_at_once__count_each_unit_once(book: OperatorBook) -> None:
    added: list[int] = []

    def accept(first: int) -> None:
        for total in range(first, 201, 4):
            try:
                added.append(book.accept(signed(total)))
            except VoucherRefused:
                continue

    threads = [Thread(target=accept, args=(first,)) for first in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(added) == 200
    assert book.newest(1) == signed(200)


def test_a_file_that_is_no_book__is_refused_with_its_name(tmp_path: Path, chain: Chain) -> None:
    path = tmp_path / "book"
    path.write_text("something else, that is long enough to be read as a database's first page" * 100)
    with pytest.raises(ConfigError, match=f"{path}: cannot keep vouchers there"):
        OperatorBook(path, DOMAIN, OPERATOR, chain.read, RECHECK_S)


def test_a_book__is_its_owners_alone_and_each_voucher_reaches_the_disk(book: OperatorBook, tmp_path: Path) -> None:
    book.accept(signed(1))
    for path in (tmp_path / "node").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert book._vouchers._db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL: with each commit
    assert book._vouchers._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


ACCEPTS_UNTIL_KILLED = """
import sys
from tests.serving.test_books import Chain, DOMAIN, OPERATOR, signed
from pathlib import Path
from zoo_compute.inference.books import OperatorBook
chain = Chain()
chain.open(1, deposit=10**9)
book = OperatorBook(Path(sys.argv[1]), DOMAIN, OPERATOR, chain.read, 60.0)
for total in range(1, 10**6):
    book.accept(signed(total))
    print(total, flush=True)
"""


def test_a_process_that_is_killed__loses_no_voucher_that_it_accepted(tmp_path: Path) -> None:
    path = tmp_path / "vouchers.sqlite"
    with subprocess.Popen(
        [sys.executable, "-c", ACCEPTS_UNTIL_KILLED, path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(50)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    said = [int(line) for line in lines if line.endswith("\n")]
    chain = Chain()
    chain.open(1, deposit=10**9)
    book = OperatorBook(path, DOMAIN, OPERATOR, chain.read, RECHECK_S)
    newest = book.newest(1)
    book.close()
    assert newest is not None
    assert said[-1] >= 50
    assert newest.voucher.total in (said[-1], said[-1] + 1)  # accepted, and perhaps not said any more


def test_an_accepted_voucher__that_the_disk_refuses__does_not_count(book: OperatorBook) -> None:
    book.accept(signed(1))
    book._vouchers._db.execute("PRAGMA query_only = 1")
    with pytest.raises(sqlite3.OperationalError):
        book.accept(signed(2))
    book._vouchers._db.execute("PRAGMA query_only = 0")
    assert book.newest(1) == signed(1)
    assert book.accept(signed(2)) == 1


# --- the client


@pytest.fixture
def purse(chain: Chain, tmp_path: Path) -> Iterator[ClientBook]:
    made = ClientBook(tmp_path / "client.sqlite", DOMAIN, KEY, chain.read)
    yield made
    made.close()


def test_pay__signs_growing_totals_up_to_the_deposit(purse: ClientBook, chain: Chain, tmp_path: Path) -> None:
    assert purse.pay(1, 400).voucher == Voucher(1, 400)
    made = purse.pay(1, 100)
    assert verify(DOMAIN, Voucher(1, 500), made.signature, SIGNER)
    assert (purse.signed(1), purse.left(1)) == (500, 500)
    with pytest.raises(
        VoucherRefused, match="channel 1 has 1000, of which 500 is signed for: 501 more is too much"
    ) as caught:
        purse.pay(1, 501)
    assert "zoo channel add 1" in caught.value.hint
    assert purse.signed(1) == 500
    chain.change(1, deposit=1_001)
    assert purse.pay(1, 501).voucher.total == 1_001
    purse.close()
    reopened = ClientBook(tmp_path / "client.sqlite", DOMAIN, KEY, chain.read)
    assert reopened.signed(1) == 1_001
    reopened.close()


def test_pay__where_the_operator_took_no_voucher__goes_on_from_what_it_has_and_forgets_nothing(
    purse: ClientBook, chain: Chain
) -> None:
    purse.pay(1, 400)
    assert purse.pay(1, 100, owed=0).voucher == Voucher(1, 100)
    assert (purse.signed(1), purse.left(1)) == (400, 600), "the operator may still show the larger one"
    assert purse.pay(1, 500, owed=100).voucher == Voucher(1, 600)
    assert purse.signed(1) == 600
    assert purse.pay(1, 1, owed=10**9).voucher == Voucher(1, 601), "nobody owes more than was signed for"
    chain.change(1, paid=601)
    purse.look(1)
    assert purse.pay(1, 1, owed=0).voucher == Voucher(1, 602), "what was paid was owed"


def test_pay__nothing_or_from_no_channel__is_refused(purse: ClientBook) -> None:
    for amount in (0, -5):
        with pytest.raises(VoucherRefused, match="pays for nothing"):
            purse.pay(1, amount)
    with pytest.raises(VoucherRefused, match="channel 9 has 0") as caught:
        purse.pay(9, 1)
    assert "zoo channel list" in caught.value.hint


def test_pay__after_a_lost_book__goes_on_from_what_the_chain_paid(purse: ClientBook, chain: Chain) -> None:
    chain.change(1, paid=300)
    assert purse.left(1) == 700
    assert purse.pay(1, 10).voucher.total == 310


def test_two_processes_of_a_client__never_sign_one_unit_twice(purse: ClientBook, chain: Chain, tmp_path: Path) -> None:
    other = ClientBook(tmp_path / "client.sqlite", DOMAIN, KEY, chain.read)
    totals = [each.pay(1, 5).voucher.total for each in (purse, other, purse, other)]
    other.close()
    assert totals == [5, 10, 15, 20]


def test_what_a_client_pays__an_operator_accepts(purse: ClientBook, book: OperatorBook) -> None:
    for amount in (3, 900, 97):
        assert book.accept(purse.pay(1, amount), price=amount) == amount
    with pytest.raises(VoucherRefused):
        purse.pay(1, 1)
