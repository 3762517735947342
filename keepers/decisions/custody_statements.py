"""What an operator says about a job off chain: its signatures as a custodian, and the checkpoint that it would post as the aggregator.

Its keeper writes it beside its store, its gateway serves it (GET /custody/JOB), and anyone hands the signatures in. Statements are
untrusted: reading is strict, and a signature counts only if it is the custodian's.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError

from repops.fields import BadField, canonical_json, parse_json, read
from zoo_compute.spec.params import AGGREGATOR_SEAT, MAX_AGGREGATORS
from zoo_compute.store.cid import digest_of
from zoo_compute.store.errors import BadCid

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.signer import TypedData, TypedSigner

MAX_BYTES = 64 * 1024
# Newest signatures of a statement: two for each turn that can be open to challenge, and more; of 16 aggregators those of nine turns, as
# what is older is on record.
KEPT = 160
START, INPUTS, CHECKPOINT = "start", "inputs", "checkpoint"
# By kind: the EIP-712 type, and its fields beside the job.
TYPES: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    START: ("Start", ()),
    INPUTS: ("Inputs", (("turn", "uint256"), ("seats", "uint256"))),
    CHECKPOINT: ("Checkpoint", (("turn", "uint256"), ("seat", "uint256"), ("root", "bytes32"), ("cid", "bytes32"))),
}
_WORD, _TWO_WORDS = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{128}")
_VALUES = {START: _WORD, INPUTS: _WORD, CHECKPOINT: _TWO_WORDS}


@dataclass(frozen=True)
class Signed:
    """One signature, `r` and `vs` (EIP-2098). value: of inputs the seats; of what the aggregator in `seat` computed its root, and its
    pointer as on chain.
    """

    kind: str
    turn: int
    value: str
    signature: str = 128 * "0"
    seat: int = 0

    def __post_init__(self) -> None:
        if self.kind not in TYPES or self.turn < 0 or self.seat < 0:
            raise BadField(f"signed: expected one of {', '.join(TYPES)} and a turn, got {self.kind!r}, {self.turn}")
        if not _VALUES[self.kind].fullmatch(self.value) or not _TWO_WORDS.fullmatch(self.signature):
            raise BadField("signed: expected a value and a signature in hex")

    @property
    def seats(self) -> int:
        return int(self.value, 16)

    @property
    def words(self) -> tuple[bytes, bytes]:
        return bytes.fromhex(self.signature[:64]), bytes.fromhex(self.signature[64:])


@dataclass(frozen=True)
class Proposal:
    """What the aggregator in a seat would post: its root, and its pointer's CID."""

    turn: int
    root: str
    pointer: str
    seat: int = AGGREGATOR_SEAT

    def __post_init__(self) -> None:
        if not _WORD.fullmatch(self.root):
            raise BadField("proposed: expected a root in hex")
        try:
            digest_of(self.pointer)
        except BadCid as error:
            raise BadField(f"proposed: {error}") from error

    @property
    def value(self) -> bytes:
        """What is signed of it."""
        return bytes.fromhex(self.root) + digest_of(self.pointer)


@dataclass(frozen=True)
class Statement:
    """Of one operator about one job. signed: of each kind, turn and seat one, the newest last; proposed: of each seat one."""

    job: int
    signed: tuple[Signed, ...] = ()
    proposed: tuple[Proposal, ...] = ()

    def of(self, kind: str, turn: int = 0, seat: int = 0) -> Signed | None:
        wanted = (kind, turn, seat)
        return next((each for each in self.signed if (each.kind, each.turn, each.seat) == wanted), None)

    def proposal(self, turn: int, seat: int) -> Proposal | None:
        return next((each for each in self.proposed if (each.turn, each.seat) == (turn, seat)), None)

    def proposing(self, proposal: Proposal) -> Statement:
        others = [each for each in self.proposed if each.turn == proposal.turn and each.seat != proposal.seat]
        return replace(self, proposed=(*others, proposal)[-MAX_AGGREGATORS:])

    def adding(self, signed: Signed) -> Statement:
        about = (signed.kind, signed.turn, signed.seat)
        others = [each for each in self.signed if (each.kind, each.turn, each.seat) != about]
        return replace(self, signed=(*others, signed)[-KEPT:])

    def to_bytes(self) -> bytes:
        return canonical_json(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Statement:
        """Raises BadField."""
        if len(data) > MAX_BYTES:
            raise BadField(f"statement: {len(data)} bytes exceed {MAX_BYTES}")
        return read(cls, parse_json(data, "statement"), "statement")


def sign(
    chain: Chain, account: TypedSigner, job: int, kind: str, turn: int = 0, value: bytes = bytes(32), seat: int = 0
) -> Signed:
    """The account's signature that it holds this."""
    unsigned = Signed(kind, turn, value.hex(), seat=seat)
    made = account.sign_typed_data(*_typed(chain, job, unsigned))
    return replace(unsigned, signature=f"{made.r:064x}{made.s | (made.v - 27) << 255:064x}")


def is_signed_by(chain: Chain, key: str, job: int, signed: Signed) -> bool:
    """Whether the signature is this key's, as the contract checks it."""
    r, vs = (int.from_bytes(word, "big") for word in signed.words)
    try:
        recovered = Account.recover_message(
            encode_typed_data(*_typed(chain, job, signed)), vrs=(27 + (vs >> 255), r, vs & (1 << 255) - 1)
        )
    except (BadSignature, ValidationError, ValueError):
        return False
    return str(recovered) == key


def _typed(chain: Chain, job: int, signed: Signed) -> TypedData:
    name, fields = TYPES[signed.kind]
    fields = (("job", "uint256"), *fields)
    network = chain.network
    domain = {"name": "Zoo Custody", "version": "1", "chainId": network.chain_id}
    value = bytes.fromhex(signed.value)
    values = {"job": job, "turn": signed.turn, "seats": signed.seats, "root": value[:32], "cid": value[32:]}
    values |= {"seat": signed.seat}
    return (
        {**domain, "verifyingContract": network.contracts["custody"]},
        {name: [{"name": field, "type": kind} for field, kind in fields]},
        {field: values[field] for field, _ in fields},
    )
