"""Bandwidth receipts: what is signed for another operator's bytes, and which receipts are worth redeeming (docs/protocol/rewards.md).

A client's keeper signs, its gateway serves the receipt (GET /receipts/SERVER), and the server's keeper asks for it. Receipts of others
are untrusted: reading is strict, and the contract's every check is made here before gas is spent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError

from repops.fields import BadField, canonical_json, parse_json, read
from zoo_compute.spec.params import BPS, PAIR_BYTES, REWARD_CAP_BPS, REWARD_FLOW_BPS, SERVER_BYTES, Flow
from zoo_compute.store.peers import is_gateway, parse_gateway

if TYPE_CHECKING:
    from keepers.queue.received_bytes import Source
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.signer import TypedData, TypedSigner

MAX_BYTES = 1024  # of a receipt
LOOKS = 48  # of a keeper in an epoch: it counts, signs, and asks for receipts
LAST_LOOKS = 4  # of them in which it redeems
_SIGNATURE = re.compile(r"[0-9a-f]{130}")
_FIELDS = ("server", "client", "epoch", "total")


@dataclass(frozen=True)
class Receipt:
    """What `client` signs: the bytes that `server` sent it in an epoch so far. signature: r, s and v in hex."""

    server: int
    client: int
    epoch: int
    total: int
    signature: str = 130 * "0"

    def __post_init__(self) -> None:
        if not all(0 <= getattr(self, name) < 1 << 128 for name in _FIELDS):
            raise BadField("receipt: expected numbers of at most 128 bits")
        if not _SIGNATURE.fullmatch(self.signature):
            raise BadField("receipt: expected a signature in hex")

    @property
    def args(self) -> tuple[int, int, int, int, bytes]:
        """Of Rewards.redeem."""
        return self.server, self.client, self.epoch, self.total, bytes.fromhex(self.signature)

    def to_bytes(self) -> bytes:
        return canonical_json(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Receipt:
        """Raises BadField."""
        return read(cls, parse_json(data, "receipt"), "receipt")


def sign(chain: Chain, account: TypedSigner, receipt: Receipt) -> Receipt:
    return replace(receipt, signature=bytes(account.sign_typed_data(*_typed(chain, receipt)).signature).hex())


def is_signed_by(chain: Chain, key: str, receipt: Receipt) -> bool:
    """Whether the signature is this key's, as the contract checks it."""
    try:
        signer = Account.recover_message(
            encode_typed_data(*_typed(chain, receipt)), signature=bytes.fromhex(receipt.signature)
        )
    except (BadSignature, ValidationError, ValueError):
        return False
    return str(signer) == key


def _typed(chain: Chain, receipt: Receipt) -> TypedData:
    network = chain.network
    domain = {"name": "Zoo Rewards", "version": "1", "chainId": network.chain_id}
    return (
        {**domain, "verifyingContract": network.contracts["rewards"]},
        {"Receipt": [{"name": name, "type": "uint256"} for name in _FIELDS]},
        {name: getattr(receipt, name) for name in _FIELDS},
    )


# -- the client


def bytes_by_operator(received: Mapping[Source, int], endpoints: Mapping[int, str], mine: int) -> dict[int, int]:
    """What other operators sent, by operator.

    It counts where the operator that the gateway says it belongs to announced the gateway's URL on chain:
    neither a gateway that names another operator nor an operator that announces another one's gateway gets a byte signed.
    """
    announced = {operator: parse_gateway(url).geturl() for operator, url in endpoints.items() if is_gateway(url)}
    return {
        operator: count
        for (operator, url), count in received.items()
        if operator != mine and announced.get(operator) == url
    }


def add_within_link(totals: Mapping[int, int], received: Mapping[int, int], link: int) -> dict[int, int]:
    """The totals to sign, by server. Their sum stays within what my link carries; bytes beyond it are never signed for."""
    summed, left = dict(totals), link - sum(totals.values())
    for server, count in received.items():
        more = min(count, left)
        if more > 0:
            summed[server] = summed.get(server, 0) + more
            left -= more
    return summed


# -- the server


@dataclass(frozen=True)
class Candidate:
    """A client's receipt, and what the chain says about the pair and about the client."""

    receipt: Receipt
    redeemed: int  # the pair's last total
    signed: int  # by the client, over all servers
    violated: bool
    link: int  # bytes that the client's link carries

    @property
    def fresh(self) -> int:
        return self.receipt.total - self.redeemed


@dataclass(frozen=True)
class Served:
    """A server's bytes of the running epoch: by receipts, those that count, and what its link carries."""

    total: int
    counted: int
    link: int


@dataclass(frozen=True)
class RunningEpoch:
    """What the running epoch may pay an operator, from the chain so far. shares: of its jobs, each (weight, fees)."""

    budget: int
    weight: int  # of all verified compute
    shares: tuple[tuple[int, int], ...]
    beats: int  # of the operator
    total_beats: int
    others_bytes: int  # that others redeem, as far as one can tell

    def pays(self, counted: int) -> int:
        """For so many bytes: a share of the flow, within what compute and uptime leave of the room of the jobs' fees."""
        room = 0
        for weight, fees in self.shares:
            cap = fees * REWARD_CAP_BPS[Flow.COMPUTE] // BPS
            room += cap - min(cap, _share(self._flow(Flow.COMPUTE), weight, self.weight))
        room -= _share(self._flow(Flow.UPTIME), self.beats, self.total_beats)
        flow = _share(self._flow(Flow.BANDWIDTH), counted, self.others_bytes + counted)
        return max(0, min(flow, room))

    def _flow(self, flow: Flow) -> int:
        return self.budget * REWARD_FLOW_BPS[flow] // BPS


def _share(amount: int, part: int, whole: int) -> int:
    return amount * part // whole if part else 0


def worth_redeeming(
    candidates: Iterable[Candidate], served: Served, epoch: RunningEpoch, gas_zen: int
) -> Iterator[Receipt]:
    """The receipts that bring more than their gas, the largest first. None goes beyond a link: that is refused, or slashes."""
    for each in sorted(candidates, key=lambda candidate: candidate.fresh, reverse=True):
        total = each.receipt.total
        if each.violated or each.fresh <= 0 or each.signed + each.fresh > each.link:
            continue
        if served.total + each.fresh > served.link:
            continue
        more = min(min(total, PAIR_BYTES) - min(each.redeemed, PAIR_BYTES), SERVER_BYTES - served.counted)
        if epoch.pays(served.counted + more) - epoch.pays(served.counted) <= gas_zen:
            continue
        served = replace(served, total=served.total + each.fresh, counted=served.counted + more)
        yield each.receipt
