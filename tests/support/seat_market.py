"""A chain as a client of a service sees it, in memory: seats, channels, and what transactions were sent."""

from __future__ import annotations

from dataclasses import dataclass, field

from zoo_compute.chain.generated.bindings.channels import Channel
from zoo_compute.inference.channels import OpenChannel
from zoo_compute.inference.market import Place
from zoo_compute.inference.seats import Seat

NONE = "0x" + 40 * "0"
PLACE = Place(31_337, "0x" + 20 * "a1", "0x" + 20 * "a2", "0x" + 20 * "a3", window_s=600)
CLIENT = "0x" + 20 * "11"
NOW = 1_700_000_000


@dataclass
class FakeMarket:
    """The chain, as far as a client of a service sees it. Amounts move when channels are opened and added to."""

    place: Place = PLACE
    now: int = NOW
    listed: list[Seat] = field(default_factory=list)
    channels: dict[int, Channel] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    looks: int = 0

    def seats(self) -> list[Seat]:
        self.looks += 1
        return list(self.listed)

    def time(self) -> int:
        return self.now

    def mine(self) -> list[OpenChannel]:
        return [
            OpenChannel(
                number,
                each.client,
                each.operator,
                each.token,
                each.signer,
                each.deposit,
                each.paid,
                each.ends_at or None,
            )
            for number, each in self.channels.items()
        ]

    def read(self, channel: int) -> Channel:
        return self.channels.get(channel) or Channel(NONE, 0, NONE, NONE, 0, 0, 0)

    def open(self, operator: int, signer: str, amount: int) -> int:
        self.sent.append(f"open {operator} {amount}")
        number = 1 + max(self.channels, default=0)
        self.channels[number] = Channel(CLIENT, operator, self.place.zen, signer, amount, 0, 0)
        return number

    def add(self, channel: int, amount: int) -> None:
        self.sent.append(f"add {channel} {amount}")
        record = self.channels[channel]
        self.channels[channel] = record._replace(deposit=record.deposit + amount)

    def leave(self, channel: int) -> None:
        self.sent.append(f"leave {channel}")
        self.channels[channel] = self.channels[channel]._replace(ends_at=self.now + 1_000)

    def close(self, channel: int) -> None:
        """As its operator."""
        del self.channels[channel]
