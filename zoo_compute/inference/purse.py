"""A client's channels to the operators that it asks: opened when first needed, topped up, and paid from by vouchers."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from coincurve import PrivateKey

from zoo_compute.amounts import ZEN
from zoo_compute.atomic import check_private
from zoo_compute.errors import ConfigError, Refusal, UserError
from zoo_compute.inference.books import ClientBook
from zoo_compute.serving.vouchers import SignedVoucher, domain_of

if TYPE_CHECKING:
    from zoo_compute.chain.generated.bindings.channels import Channel
    from zoo_compute.inference.channels import OpenChannel
    from zoo_compute.inference.market import Market

KEY_FILE, BOOK = "vouchers.key", "vouchers.sqlite"
_KEY = re.compile(r"[0-9a-f]{64}")


class Purse:
    """deposit: in smallest units; what a channel is opened with, and what is added when it is nearly spent. Threads can share it, if each
    operator is paid by one at a time.
    """

    def __init__(self, market: Market, home: Path, deposit: int, say: Callable[[str], None]) -> None:
        key = hot_key(home / KEY_FILE)
        self._market, self._deposit, self._say = market, deposit, say
        self.signer = address_of(key)
        domain = domain_of(market.place.chain_id, market.place.channels)
        self._book = ClientBook(home / BOOK, domain, key, market.read)
        self._lock = threading.RLock()
        self._channels: dict[int, int] | None = None  # by operator
        self._seen: dict[int, Channel] = {}  # by number
        self._owed: dict[int, int] = {}  # by operator: what it said last, or what it has if it took nothing since

    def prepare(self, operator: int, cost: int) -> None:
        """Have a channel to an operator that covers `cost`: opened or topped up if need be, by a transaction.

        Raises UserError where the deposit is less than one request costs, NotFunded, Refusal.
        """
        if cost > self._deposit:
            raise UserError(
                f"a request costs {ZEN.format(cost)}, and the deposit of a channel is {ZEN.format(self._deposit)}",
                hint="raise the deposit, or ask for fewer tokens",
            )
        with self._lock:
            channel = self._known().get(operator)
            if channel is None:
                self._say(f"opening a channel to operator {operator} with {ZEN.format(self._deposit)}")
                self._known()[operator] = self._market.open(operator, self.signer, self._deposit)
            elif self._left(operator, channel) < cost:
                self._say(f"adding {ZEN.format(self._deposit)} to channel {channel}, to operator {operator}")
                self._market.add(channel, self._deposit)
                self._seen[channel] = self._book.look(channel)

    def pay(self, operator: int, cost: int) -> SignedVoucher:
        """A voucher for `cost` more. Raises VoucherRefused."""
        channel = self._known()[operator]
        return self._book.pay(channel, cost, self._owed.get(operator))

    def heard(self, operator: int, owed: int | None) -> bool:
        """An operator says what its channel owes; whether that is another amount than was assumed.

        A lower amount is to its own loss, and of a higher one than was signed for nothing follows.
        """
        if owed is None:
            return False
        assumed = self._owed.get(operator, self.signed(operator))
        self._owed[operator] = owed
        return owed != assumed

    def look(self, operator: int) -> None:
        """Forget a channel that the operator has closed, or that was left: the next request opens another one."""
        with self._lock:
            channel = self._known().get(operator)
            if channel is None:
                return
            record = self._seen[channel] = self._book.look(channel)
            if record.operator != operator or record.ends_at:
                del self._known()[operator]
                self._owed.pop(operator, None)

    def signed(self, operator: int) -> int:
        """All that was signed for to an operator, in smallest units."""
        channel = self._known().get(operator)
        return 0 if channel is None else self._book.signed(channel)

    def owed(self, operator: int) -> int:
        """What the operator's next voucher goes on from."""
        return min(self.signed(operator), self._owed.get(operator, self.signed(operator)))

    def leave(self) -> list[int]:
        """Give notice for all channels; their numbers. Each operator closes its own, or `zoo channel refund` does after the notice."""
        left = []
        with self._lock:
            for channel in sorted(self._known().values()):
                try:
                    self._market.leave(channel)
                except Refusal:  # it was closed or left meanwhile
                    continue
                left.append(channel)
            self._channels = {}
        return left

    def close(self) -> None:
        self._book.close()

    def _left(self, operator: int, channel: int) -> int:
        """As the chain had it when it was read last: that is never more than there is, as long as the channel is open."""
        record = self._seen.get(channel)
        if record is None:
            record = self._seen[channel] = self._book.look(channel)
        return record.deposit - max(record.paid, self.owed(operator))

    def _known(self) -> dict[int, int]:
        """By operator the channel whose vouchers this key signs, without those that were left; of several the newest."""
        if self._channels is None:
            self._channels = {each.operator: each.number for each in self._market.mine() if self._is_mine(each)}
        return self._channels

    def _is_mine(self, channel: OpenChannel) -> bool:
        is_open = channel.ends_at is None and channel.token == self._market.place.zen
        return is_open and channel.signer == self.signer


def hot_key(path: Path) -> bytes:
    """The key that signs vouchers, made at first. It spends the deposits on their operators, and can do nothing else. Raises ConfigError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        make_file(path, PrivateKey().secret.hex().encode())
    check_private(path)
    text = path.read_text(encoding="ascii", errors="replace").strip()
    if not _KEY.fullmatch(text):
        raise ConfigError(
            f"{path}: expected a key of 64 hex digits", hint="restore it from a backup: it signs your vouchers"
        )
    return bytes.fromhex(text)


def address_of(key: bytes) -> str:
    """The address of a private key, with its checksum."""
    from eth_account import Account

    return str(Account.from_key(key).address)


def make_file(path: Path, content: bytes) -> None:
    """Written whole, or not at all; one that another process made meanwhile stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
