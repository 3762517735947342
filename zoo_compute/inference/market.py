"""What a client of a service needs of the chain: seats, the protocol's time, and its own channels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from zoo_compute.inference import channels
from zoo_compute.inference.channels import OpenChannel
from zoo_compute.inference.seats import Seat, list_seats
from zoo_compute.spec import params

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.generated.bindings.channels import Channel
    from zoo_compute.chain.sender import Sender

TIMES = 4  # that the protocol's time is read in a receipt's window


@dataclass(frozen=True)
class Place:
    """Which network it is. serving, channels: contracts; zen: the token that locks are in; window_s: of receipts."""

    chain_id: int
    serving: str
    channels: str
    zen: str
    window_s: int

    @classmethod
    def of(cls, chain: Chain) -> Place:
        at, preset = chain.network.contracts, chain.params
        window_s = params.window_s(preset, preset.receipt_s, 1)
        return cls(chain.network.chain_id, at["serving"], at["channels"], at["zen"], window_s)


class Market(Protocol):
    """Amounts are smallest units of ZEN. Methods raise ChainErrors."""

    place: Place

    def seats(self) -> list[Seat]:
        """All of the service, as the chain has them now."""

    def time(self) -> int:
        """The protocol's, to some seconds."""

    def mine(self) -> list[OpenChannel]:
        """The client's channels, to all operators."""

    def read(self, channel: int) -> Channel:
        """With zeros where there is none."""

    def open(self, operator: int, signer: str, amount: int) -> int:
        """The number of a new channel."""

    def add(self, channel: int, amount: int) -> None: ...

    def leave(self, channel: int) -> None: ...


@dataclass
class ChainMarket:
    """Over a network. service: its CID. clock: seconds that only grow."""

    chain: Chain
    sender: Sender
    service: str
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _time: tuple[float, int] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.place = Place.of(self.chain)

    def seats(self) -> list[Seat]:
        return list_seats(self.chain, self.service)

    def time(self) -> int:
        known = self._time
        if known is None or self.clock() - known[0] > self.place.window_s / TIMES:
            known = self._time = self.clock(), self.chain.time()
        return known[1] + int(self.clock() - known[0])

    def mine(self) -> list[OpenChannel]:
        return channels.list_channels(self.chain, client=self.sender.address)

    def read(self, channel: int) -> Any:
        return self.chain.channels.channels(channel)

    def open(self, operator: int, signer: str, amount: int) -> int:
        receipt = channels.open_channel(self.sender, operator, self.place.zen, signer, amount, self.say)
        return int(receipt.event("ChannelOpened").args["channel"])

    def add(self, channel: int, amount: int) -> None:
        channels.add(self.sender, channel, amount)

    def leave(self, channel: int) -> None:
        self.sender.send(self.chain.channels.leave(channel))
