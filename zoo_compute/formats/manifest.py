"""The manifest: the canonical JSON file that fixes a job (docs/protocol/files.md). No torch.

Its SHA-256 is its address: equal jobs have equal bytes, and every party reads the same program, data order and
hyper-parameters from it. The program of a step is a separate file; a round's programs follow from it (`training.rounds`).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import numpy as np

from repops.commitments import Array
from repops.fields import BadField, between, canonical_json, nearest, parse_json, read
from repops.merkle import sha256
from zoo_compute.documentation import address
from zoo_compute.errors import UserError
from zoo_compute.formats.aggregation import NO_OUTER, Aggregation, AggregationSpec, OuterOptimizer
from zoo_compute.formats.lineage import Parents
from zoo_compute.spec.params import (
    BPS,
    CUSTODIANS_AT,
    DEFAULT_AUDIT_BPS,
    MAX_CUSTODIANS,
    MAX_DEPTH,
    MAX_FLOPS,
    MAX_ROUNDS,
    MAX_SECONDS,
    MAX_SLOTS,
    MIN_AUDIT_BPS,
    MIN_CUSTODIANS,
    POLICY_CARRIES,
    POLICY_DELAYED,
    POLICY_ROLL_BACK,
    POLICY_TOLERATE,
)

POLICIES = {"tolerate": POLICY_TOLERATE, "roll back": POLICY_ROLL_BACK}  # as `Terms.policy` has them
REDUNDANCIES = (1, 2, *range(MIN_CUSTODIANS, MAX_CUSTODIANS + 1, 2))
MAX_MANIFEST_BYTES = 256 * 1024  # one raw block, so that its CID can be rebuilt from 32 bytes on chain
MAX_CARRY = 1024
EXACT = 32  # bits of a compression that does not quantise
SIGNS = 1  # bits of a compression that sends the signs of random elements
MAX_CHUNK = 4096  # elements of a chunk: an index there is 12 bits of a key (zoo_compute.training.compression)
_SECTION = re.compile(r"\b(model|data|training|compression|aggregation|market|limits|checkpoint|requirements)[.:]")
_CID = re.compile(r"b[a-z2-7]{58}")
_ROOT = re.compile(r"[0-9a-f]{64}")


class JobError(UserError, BadField):
    """A manifest or a job's configuration is wrong: the message names the key, its value and what was expected."""

    @property
    def see(self) -> str:
        """The reference of job files, at the section of the key."""
        section = _SECTION.search(str(self))
        return address("reference/job-file", section[1] if section else "")


@contextmanager
def as_job_errors() -> Iterator[None]:
    """Turn a BadField or UserError into a JobError."""
    try:
        yield
    except JobError:
        raise
    except UserError as error:
        raise JobError(str(error), hint=error.hint) from error
    except BadField as error:
        raise JobError(str(error)) from error


def _check_cid(where: str, cid: str) -> None:
    if not _CID.fullmatch(cid):
        raise BadField(f"{where}: expected a CIDv1 in base32, got {cid!r}")


def _check_root(where: str, root: str) -> None:
    if not _ROOT.fullmatch(root):
        raise BadField(f"{where}: expected 64 lower-case hex digits, got {root!r}")


@dataclass(frozen=True)
class ProgramFile:
    """The program of an inner step. root: its program root (repops.encoding); flops: the exact count of one step."""

    cid: str
    root: str
    flops: int

    def __post_init__(self) -> None:
        _check_cid("program.cid", self.cid)
        _check_root("program.root", self.root)
        if not 1 <= self.flops <= MAX_FLOPS:
            raise BadField(f"program.flops: expected 1 to 2^96 - 1, got {self.flops}")


@dataclass(frozen=True)
class StateFile:
    """The initial checkpoint; `root` is its state root."""

    cid: str
    root: str

    def __post_init__(self) -> None:
        _check_cid("state.cid", self.cid)
        _check_root("state.root", self.root)


@dataclass(frozen=True)
class DataFile:
    """The shuffled examples: one or more named arrays whose first axis counts them.

    root: their state root; pieces: the file of the roots of their pieces (repops.pieces).
    """

    cid: str
    root: str
    examples: int
    pieces: str

    def __post_init__(self) -> None:
        _check_cid("data.cid", self.cid)
        _check_root("data.root", self.root)
        _check_cid("data.pieces", self.pieces)
        between("data.examples", self.examples, 1, 2**40)


@dataclass(frozen=True)
class HeldoutFile:
    cid: str

    def __post_init__(self) -> None:
        _check_cid("heldout.cid", self.cid)


@dataclass(frozen=True)
class Compression:
    """Lossy compression of updates: of each chunk of a tensor, send the `keep` largest elements in `bits` bits each.

    keep: elements of a `chunk`; None for all. bits: 2 to 8, including the sign; 32 sends float32; 1 sends the signs of random
    elements instead, on average `keep`, and one magnitude. decay: factor of the unsent rest, which is added to the next round's
    change if private state is carried over (Manifest.carry).
    """

    chunk: int = 4096
    keep: int | None = None
    bits: int = EXACT
    decay: float = 1.0

    def __post_init__(self) -> None:
        between("compression.chunk", self.chunk, 16, MAX_CHUNK)
        if self.keep is not None:
            between("compression.keep", self.keep, 1, self.chunk)
        if self.bits != EXACT and not SIGNS <= self.bits <= 8:
            raise BadField(f"compression.bits: expected {SIGNS} to 8, or {EXACT} for plain float32, got {self.bits}")
        between("compression.decay", self.decay, 0.0, 1.0)

    @property
    def sends_signs(self) -> bool:
        """Whether only the signs of random elements are sent."""
        return self.bits == SIGNS

    @property
    def fraction(self) -> float:
        """The part of a chunk's elements that is sent."""
        return (self.keep or self.chunk) / self.chunk

    @property
    def is_lossy(self) -> bool:
        """Whether a decoded update can differ from the slot's exact change."""
        return self.bits != EXACT or self.keep not in (None, self.chunk)


def check_redundancy(where: str, redundancy: int) -> None:
    """Raises BadField."""
    if redundancy not in REDUNDANCIES:
        copies, custodians = "1 or 2 (copies that the job's own nodes keep)", "3, 5, 7 or 9 (custodians, who are paid)"
        raise BadField(f"{where}: expected {copies}, or {custodians}, got {redundancy}")


@dataclass(frozen=True)
class Manifest:
    """The complete definition of a job. Construct it, or read it with `from_bytes`; both check every field."""

    program: ProgramFile
    batch_size: int  # examples of an inner step
    rounds: int
    slots: int
    quorum: int
    inner_steps: int
    segment_steps: int
    seed: int
    state: StateFile
    data: DataFile
    heldout: HeldoutFile | None  # None of a map
    outer: OuterOptimizer
    slot_s: int
    aggregate_s: int
    reexecute_s: int
    redundancy: int
    accumulate: int = 1  # parts of a step's batch, along a leading axis
    keep_every: int = 1  # rounds between checkpoints that are stored after the job; the last always is
    depth: int = 4  # turns that may have claims that are not final
    compression: Compression = Compression()
    carry: int = 1  # rounds that a slot's private state lives while the same operator holds the slot
    delay: int = 0  # 1: slots start from the checkpoint before the newest, so that they never wait for an aggregation
    audit_bps: int = DEFAULT_AUDIT_BPS  # how many of 10,000 slot-rounds and aggregations are drawn for a paid audit
    policy: str = "tolerate"  # what happens to later rounds when a worker is convicted: a key of POLICIES
    aggregation: Aggregation = field(default_factory=Aggregation)
    parents: Parents | None = None  # only of a job that starts from merged branches
    version: int = 1

    def __post_init__(self) -> None:
        with as_job_errors():
            if self.version != 1:
                raise BadField(f"manifest.version: this release reads version 1, got {self.version}")
            between("manifest.batch_size", self.batch_size, 1, 2**16)
            between("manifest.accumulate", self.accumulate, 1, self.batch_size)
            if self.batch_size % self.accumulate:
                raise BadField(f"manifest.accumulate: {self.accumulate} parts do not divide {self.batch_size} examples")
            between("manifest.rounds", self.rounds, 1, MAX_ROUNDS)
            between("manifest.slots", self.slots, 1, MAX_SLOTS)
            between("manifest.quorum", self.quorum, 1, self.slots)
            between("manifest.inner_steps", self.inner_steps, 1, 10**6)
            between("manifest.segment_steps", self.segment_steps, 1, self.inner_steps)
            between("manifest.seed", self.seed, 0, 2**63 - 1)
            check_redundancy("manifest.redundancy", self.redundancy)
            between("manifest.keep_every", self.keep_every, 1, MAX_ROUNDS)
            between("manifest.carry", self.carry, 1, MAX_CARRY)
            between("manifest.depth", self.depth, 1, MAX_DEPTH)
            between("manifest.delay", self.delay, 0, 1)
            between("manifest.audit_bps", self.audit_bps, MIN_AUDIT_BPS, BPS)
            if self.policy not in POLICIES:
                raise BadField(f"manifest.policy: unknown policy {self.policy!r}; {nearest(self.policy, POLICIES)}")
            for name in ("slot_s", "aggregate_s", "reexecute_s"):
                between(f"manifest.{name}", getattr(self, name), 1, MAX_SECONDS)
            if self.compression.sends_signs and self.carry > 1:
                raise BadField(
                    f"compression.bits: {SIGNS} leaves nothing to carry on; use carry_rounds 1, got {self.carry}"
                )
            if self.aggregators > 1 and not self.custodians:
                raise BadField(
                    f"aggregation.aggregators: several need custodians; use checkpoint redundancy {MIN_CUSTODIANS} or more"
                )
            if self.aggregators > 1 and self.outer.kind == "adamw":
                raise BadField(
                    "aggregation.aggregators: adamw counts rounds once for all tensors; use outer kind nesterov"
                )
            if self.is_map != (self.heldout is None):
                raise BadField("manifest.heldout: expected a file, or null of a map (outer kind none)")
            if self.is_map:
                self._check_map()
            assert self.aggregation_spec  # its constructor checks that the rule has enough slots

    def _check_map(self) -> None:
        """A map gives every item's outputs, as they are: no slot may be absent, and nothing changes its update. Raises BadField."""
        wanted = {
            "quorum": self.slots,
            "carry": 1,
            "delay": 0,
            "accumulate": 1,
            "policy": "roll back",
            "compression": Compression(),
            "aggregation": Aggregation(),
            "parents": None,
        }
        for name, value in wanted.items():
            if getattr(self, name) != value:
                raise BadField(f"manifest.{name}: a map has {value!r}, got {getattr(self, name)!r}")

    @property
    def is_map(self) -> bool:
        """Whether the job maps a module over items, instead of training it: its results are its updates."""
        return self.outer.kind == NO_OUTER

    @property
    def program_root(self) -> bytes:
        return bytes.fromhex(self.program.root)

    @property
    def state_root(self) -> bytes:
        return bytes.fromhex(self.state.root)

    @property
    def data_root(self) -> bytes:
        return bytes.fromhex(self.data.root)

    @property
    def keeps_residuals(self) -> bool:
        """Whether a slot's private state contains residuals: the part of its updates that compression did not send."""
        return self.carry > 1 and self.compression.is_lossy

    @property
    def custodians(self) -> int:
        """How many operators are drawn and paid to hold what the job commits; fewer than 3 copies are nobody's duty."""
        return self.redundancy if self.redundancy >= MIN_CUSTODIANS else 0

    @property
    def policy_bits(self) -> int:
        """`Terms.policy`: the policy, the delay, whether state is carried over, and the custodians, as the contracts encode them."""
        bits = POLICIES[self.policy] | self.delay * POLICY_DELAYED | (self.carry > 1) * POLICY_CARRIES
        return bits | self.custodians << CUSTODIANS_AT

    @property
    def aggregators(self) -> int:
        return self.aggregation.aggregators

    @property
    def aggregation_spec(self) -> AggregationSpec:
        return AggregationSpec(self.slots, self.outer, self.aggregation)

    @property
    def flops(self) -> int:
        """FLOPs of one slot-round."""
        return self.program.flops * self.inner_steps

    @property
    def digest(self) -> bytes:
        """SHA-256 of the file: what the chain stores, and the digest in its CID."""
        return sha256(self.to_bytes())

    def segments(self) -> list[int]:
        """The steps at which a slot commits to its state: 0, k, 2k, ..., H."""
        return [*range(0, self.inner_steps, self.segment_steps), self.inner_steps]

    def examples_for(self, round: int, slot: int, step: int) -> Array:
        """Indices of the batch of inner step `step` (from 0) of slot `slot` in round `round`."""
        if not (0 <= round < self.rounds and 0 <= slot < self.slots and 0 <= step < self.inner_steps):
            raise JobError(f"no data for round {round}, slot {slot}, step {step} of this job")
        first = ((round * self.slots + slot) * self.inner_steps + step) * self.batch_size
        return (first + np.arange(self.batch_size, dtype=np.int64)) % self.data.examples

    def draw_seed(self, round: int, slot: int) -> int:
        """The random seed of a slot-round (for dropout), a signed 32-bit integer: the state's `seed` at the first step."""
        digest = sha256(b"seed" + self.digest + struct.pack("<II", round, slot))
        return int.from_bytes(digest[:4], "little", signed=True)

    def to_bytes(self) -> bytes:
        """The canonical file; it has the key `parents` only if the job has parents."""
        document = asdict(self)
        if self.parents is None:
            del document["parents"]
        return canonical_json(document)

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Read a manifest. Raises JobError unless the bytes are the canonical file of a valid one."""
        with as_job_errors():
            if len(data) > MAX_MANIFEST_BYTES:
                raise BadField(f"manifest: {len(data)} bytes exceed {MAX_MANIFEST_BYTES}")
            manifest = read(cls, parse_json(data, "manifest"), "manifest")
            if manifest.to_bytes() != data:
                raise BadField("manifest: not canonical JSON (sorted keys, no spaces, every key given)")
        return manifest
