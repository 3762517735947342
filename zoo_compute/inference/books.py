"""What a channel's two sides keep of it on disk: the operator its newest voucher, the client how much it has signed.

Each is one SQLite file, which threads and processes can share. A voucher is on disk before it counts: a crash loses nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from zoo_compute.durable_database import open_database
from zoo_compute.errors import VoucherRefused
from zoo_compute.inference.channels import domain_at
from zoo_compute.serving.vouchers import SignedVoucher, Voucher, sign, verify

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.generated.bindings.channels import Channel

ReadChannel = Callable[[int], "Channel"]
MISSED_S, MOST_MISSED = (
    2.0,
    10_000,
)  # for so long, and of so many numbers, it is believed that they are no channel: strangers name any
RECHECKS = 10  # of an open channel, in the notice that its client must give
# Totals are text: SQLite's integers have 64 bits. The domain keeps the vouchers of two networks apart.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS vouchers (
    domain BLOB NOT NULL, channel INTEGER NOT NULL, total TEXT NOT NULL, signature BLOB NOT NULL, PRIMARY KEY (domain, channel)
) WITHOUT ROWID
"""


class _Vouchers:
    """The newest voucher of each channel, on disk. Raises ConfigError for a file that is none of ours."""

    def __init__(self, path: Path, domain: bytes) -> None:
        self._domain, self._lock = domain, threading.RLock()
        self._db = open_database(path, _SCHEMA, "vouchers")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Nobody else reads or writes meanwhile. On an error nothing changes."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def newest(self, channel: int) -> SignedVoucher | None:
        query = "SELECT total, signature FROM vouchers WHERE domain = ? AND channel = ?"
        with self._lock:
            row = self._db.execute(query, (self._domain, channel)).fetchone()
        return SignedVoucher(Voucher(channel, int(row[0])), bytes(row[1])) if row else None

    def channels(self) -> list[int]:
        query = "SELECT channel FROM vouchers WHERE domain = ? ORDER BY channel"
        with self._lock:
            return [channel for (channel,) in self._db.execute(query, (self._domain,))]

    def put(self, signed: SignedVoucher) -> None:
        row = (self._domain, signed.voucher.channel, str(signed.voucher.total), signed.signature)
        self._db.execute("INSERT OR REPLACE INTO vouchers VALUES (?, ?, ?, ?)", row)

    def drop(self, channel: int) -> None:
        with self._lock:
            self._db.execute("DELETE FROM vouchers WHERE domain = ? AND channel = ?", (self._domain, channel))

    def close(self) -> None:
        self._db.close()


class OperatorBook:
    """The channels of one operator, and for each the voucher that it would show on chain.

    read: a channel as the chain has it, with zeros where there is none. recheck_s: the longest that it is believed without
    another look; a small part of a client's notice, so that no client is served for long after it left.
    """

    def __init__(self, path: Path, domain: bytes, operator: int, read: ReadChannel, recheck_s: float) -> None:
        self._vouchers, self._domain, self._operator = _Vouchers(path, domain), domain, operator
        self._read, self._recheck_s = read, recheck_s
        self._seen: dict[int, tuple[float, Channel]] = {}  # by channel: when it was read, and what it was
        self._gone: dict[int, float] = {}  # channels that the chain does not have: since when
        self._missed: dict[int, float] = {}  # numbers that are no channel to this operator: when that was read

    def accept(self, signed: SignedVoucher, price: int = 1, token: str | None = None) -> int:
        """Keep a voucher that adds `price` at least to the one before; what it adds. Raises VoucherRefused, and then keeps nothing.

        token: of the price; None: a channel in any token will do. Accept it before you answer the request, or after: whoever acts first
        risks this one request.
        """
        voucher = signed.voucher
        if time.monotonic() - self._missed.get(voucher.channel, -MISSED_S) < MISSED_S:
            self._refuse_channel(voucher.channel)
        known = self._seen.get(voucher.channel)
        seen_at, record = known or (time.monotonic(), self.look(voucher.channel))
        self._check_operator(voucher, record)
        # The signature before all else: strangers make nobody look again at a channel that is known.
        if not verify(self._domain, voucher, signed.signature, record.signer):
            raise VoucherRefused(
                f"the voucher of channel {voucher.channel} is not signed by its signer, {record.signer}",
                hint="sign it with the channel's signer, for this chain and contract; `zoo channel list` shows yours",
            )
        # A client may have left since, or added to it.
        if time.monotonic() - seen_at > self._recheck_s or voucher.total > record.deposit:
            record = self.look(voucher.channel)
        self._check(voucher, record, token)
        with self._vouchers.changing():
            before = self._vouchers.newest(voucher.channel)
            if before is None and known is not None:
                # Another process that shares the file may have closed the channel and dropped its voucher: an older one must not count.
                record = self.look(voucher.channel)
                self._check(voucher, record, token)
            owed = max(record.paid, before.voucher.total if before else 0)
            if voucher.total < owed + price:
                raise VoucherRefused(
                    f"the voucher of channel {voucher.channel} says {voucher.total}; {owed} is owed already, and the request costs {price}",
                    hint=f"sign a total of {owed + price} at least",
                )
            self._vouchers.put(signed)
        return voucher.total - owed

    def newest(self, channel: int) -> SignedVoucher | None:
        """The best voucher of a channel; None if there is none."""
        return self._vouchers.newest(channel)

    def owed(self, channel: int) -> int | None:
        """What a channel to this operator has signed for, or has paid already if that is more; None for any other channel."""
        if channel in self._missed:
            return None
        record = self._seen[channel][1] if channel in self._seen else self.look(channel)
        newest = self.newest(channel)
        return max(record.paid, newest.voucher.total if newest else 0) if record.operator == self._operator else None

    def channels(self) -> list[int]:
        """Those that it has a voucher of, by number."""
        return self._vouchers.channels()

    def left(self) -> list[int]:
        """Channels with a voucher whose client gave notice, as the chain has them now: close them before it is over.

        To be asked several times in `notice_s`. Forgets a channel that has been closed for as long: an RPC that lags, or a branch of the
        chain that is undone, must cost no voucher.
        """
        records, now = {channel: self.look(channel) for channel in self.channels()}, time.monotonic()
        self._gone = {
            channel: self._gone.get(channel, now) for channel, record in records.items() if not record.operator
        }
        for channel, since in list(self._gone.items()):
            if now - since > RECHECKS * self._recheck_s:
                self.forget(channel)
        return [channel for channel, record in records.items() if record.ends_at]

    def look(self, channel: int) -> Channel:
        """The channel as the chain has it now."""
        record = self._read(channel)
        if record.operator == self._operator:  # of others nothing is kept: anybody may name any number
            self._seen[channel] = time.monotonic(), record
            self._missed.pop(channel, None)
        else:
            self._seen.pop(channel, None)
            if len(self._missed) >= MOST_MISSED:
                self._missed.clear()
            self._missed[channel] = time.monotonic()
        return record

    def forget(self, channel: int) -> None:
        """Of a channel that is closed: its number never comes again."""
        self._vouchers.drop(channel)
        self._seen.pop(channel, None)

    def close(self) -> None:
        self._vouchers.close()

    def _check_operator(self, voucher: Voucher, record: Channel) -> None:
        if record.operator != self._operator:
            self._refuse_channel(voucher.channel)

    def _refuse_channel(self, number: int) -> None:
        raise VoucherRefused(
            f"channel {number} is not open to operator {self._operator}",
            hint="open a channel to this operator: `zoo channel open`",
        )

    def _check(self, voucher: Voucher, record: Channel, token: str | None) -> None:
        """Whether a channel may spend so much here."""
        self._check_operator(voucher, record)
        if token is not None and record.token.lower() != token.lower():
            raise VoucherRefused(
                f"channel {voucher.channel} pays in the token {record.token}, and the price is in {token}",
                hint="open a channel in the token of the price: `zoo channel open --token`",
            )
        if record.ends_at:
            raise VoucherRefused(
                f"the client of channel {voucher.channel} has given notice", hint="open another channel"
            )
        if voucher.total > record.deposit:
            raise VoucherRefused(
                f"the voucher of channel {voucher.channel} says {voucher.total}, and its deposit is {record.deposit}",
                hint=f"add to it first: `zoo channel add {voucher.channel}`",
            )


class ClientBook:
    """What a client has signed for each of its channels, and may still sign.

    key: of the channels' signer, 32 bytes. read: as of OperatorBook.
    """

    def __init__(self, path: Path, domain: bytes, key: bytes, read: ReadChannel) -> None:
        self._vouchers, self._domain, self._key = _Vouchers(path, domain), domain, key
        self._read = read
        self._seen: dict[int, Channel] = {}

    def pay(self, channel: int, amount: int, owed: int | None = None) -> SignedVoucher:
        """A voucher for `amount` more, in smallest units. Raises VoucherRefused where the deposit does not cover it.

        owed: what the operator says that the channel owes. Where that is less than what was signed for, it has not taken the newest
        voucher, and this one goes on from what it has.
        """
        if amount <= 0:
            raise VoucherRefused(f"a voucher for {amount} more pays for nothing", hint="pass an amount above zero")
        with self._vouchers.changing():
            signed_for, record = self.signed(channel), self._seen.get(channel) or self.look(channel)
            goes_on = signed_for if owed is None else min(signed_for, owed)
            if max(goes_on, record.paid) + amount > record.deposit:
                record = self.look(channel)
            before = max(goes_on, record.paid)
            if before + amount > record.deposit:
                raise VoucherRefused(
                    f"channel {channel} has {record.deposit}, of which {before} is signed for: {amount} more is too much",
                    hint=f"add to it: `zoo channel add {channel}`"
                    if record.deposit
                    else "`zoo channel list` shows yours",
                )
            voucher = Voucher(channel, before + amount)
            signed = SignedVoucher(voucher, sign(self._domain, voucher, self._key))
            if voucher.total > signed_for:
                self._vouchers.put(signed)
        return signed

    def signed(self, channel: int) -> int:
        """All that was signed for so far."""
        newest = self._vouchers.newest(channel)
        return newest.voucher.total if newest else 0

    def look(self, channel: int) -> Channel:
        """The channel as the chain has it now."""
        record = self._seen[channel] = self._read(channel)
        return record

    def channels(self) -> list[int]:
        """Those that it signed vouchers of, by number."""
        return self._vouchers.channels()

    def left(self, channel: int) -> int:
        """What may still be signed, by the channel as the chain has it now."""
        record = self.look(channel)
        return max(0, record.deposit - max(record.paid, self.signed(channel)))

    def close(self) -> None:
        self._vouchers.close()


def operator_book(path: Path, chain: Chain, operator: int) -> OperatorBook:
    """An operator's book over a network."""
    recheck_s = chain.params.notice_s / RECHECKS
    return OperatorBook(path, domain_at(chain), operator, lambda channel: chain.channels.channels(channel), recheck_s)


def client_book(path: Path, chain: Chain, key: bytes) -> ClientBook:
    """A client's book over a network."""
    return ClientBook(path, domain_at(chain), key, lambda channel: chain.channels.channels(channel))
