"""The custody of a job, as the chain has it: what was asked for, who was drawn, who signed what, and what was paid (docs/protocol/custody.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from eth_utils.address import to_checksum_address

from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.snapshot import job_events
from zoo_compute.spec import bits
from zoo_compute.spec.custodians import Committee, CustodyStatus, Member, Progress, Record, Request, Role
from zoo_compute.spec.custody import reserve_after_help
from zoo_compute.spec.params import AGGREGATOR_SEAT, MAX_CUSTODIANS, custodians_of

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.events import Event
    from zoo_compute.chain.views import JobView

SIGNED_READ = 4  # newest turns, of which it is read when a majority signed first
_TURN_BITS = 24


@dataclass(frozen=True)
class CustodyView:
    """All of a job's custody at one block.

    records: by turn; `signed_at` is known of the newest ones. roles: of all operators that ever offered. paid: by operator.
    """

    request: Request
    progress: Progress
    escrow: int
    committees: Mapping[int, Committee] = field(default_factory=dict)  # by version
    records: Mapping[int, Record] = field(default_factory=dict)
    roles: Mapping[int, Role] = field(default_factory=dict)
    paid: Mapping[int, int] = field(default_factory=dict)
    start_signers: int = 0  # bitmap of places

    @property
    def committee(self) -> Committee:
        """The present one; empty before the first draw."""
        return self.committees.get(self.progress.version, ())

    @property
    def holders(self) -> Mapping[int, Member]:
        """The custodians, by place."""
        return {index: member for index, member in enumerate(self.committee) if member.operator}

    def place_of(self, operator: int) -> int | None:
        return next((index for index, member in self.holders.items() if member.operator == operator), None)

    def signatures_of(self, operator: int) -> int:
        """How many of its signatures a majority's records have."""
        return sum(
            (record.inputs >> index & 1) + (record.checkpoint >> index & 1)
            for record in self.records.values()
            for index, member in enumerate(self.committees.get(record.version, ()))
            if member.operator == operator
        )

    def signers_of(self, turn: int, seat: int) -> dict[int, int]:
        """By place of the record's committee: the operators that answer for a claim of this turn, with their reserve. As
        `Custody.signer_of` has them.
        """
        record = self.records.get(turn, Record(turn))
        is_in_mask = record.mask >> seat & 1
        signers = record.inputs * is_in_mask
        if seat >= AGGREGATOR_SEAT:
            signers = record.shares[seat - AGGREGATOR_SEAT] if record.shares else record.checkpoint
        committee = self.committees.get(record.version, ())
        signed = {index: member.operator for index, member in enumerate(committee) if signers >> index & 1}
        return {index: operator for index, operator in signed.items() if self.roles.get(operator, Role()).reserve}

    def was_helped(self, operator: int) -> bool:
        """Whether an operator lost what it costs that others answer for it. It loses that no second time."""
        return self.roles.get(operator, Role()).reserve <= reserve_after_help(self.request.reserve)

    def record_of(self, turn: int) -> Record:
        """A turn's record; of one that has none yet, with the present committee."""
        record = self.records.get(turn, Record(turn))
        is_fixed = record.signed_at or record.inputs or record.checkpoint
        return record if is_fixed else replace(record, version=self.progress.version)


def words_of(committee: Iterable[Member]) -> list[tuple[int, int]]:
    """A committee as callers pass it."""
    return [(m.operator << _TURN_BITS | m.from_turn if m.operator else 0, int(m.key, 16)) for m in committee]


def member_of(word: int, key: int) -> Member:
    from_turn = word & bits.full(_TURN_BITS)
    return Member(word >> _TURN_BITS, from_turn, to_checksum_address(key.to_bytes(20, "big")))


def read_custody(chain: Chain, view: JobView) -> CustodyView | None:
    """The custody of a job at the block of its view; None if nobody asked for custodians."""
    events = [event for event in job_events(chain, view.job, chain.head(view.block)) if event.contract == "custody"]
    if not events:
        return None
    offered = sorted({event.args["operator"] for event in events if event.name == "CustodyOffered"})
    history = _History(events, view.terms.aggregators, custodians_of(view.terms.policy))
    newest = sorted(history.records)[-SIGNED_READ:]
    reads = [
        *(Read("custody", name, (view.job,)) for name in ("requests", "progress", "escrows")),
        *(Read("custody", "roles", (view.job, operator)) for operator in offered),
        *(Read("custody", "records", (view.job, turn)) for turn in newest),
    ]
    request, progress, escrow, *rest = read_all(chain, view.block, reads)
    roles = {operator: _role(role) for operator, role in zip(offered, rest[: len(offered)], strict=True)}
    now = {
        turn: replace(Record(**record), shares=history.records[turn].shares)
        for turn, record in zip(newest, rest[len(offered) :], strict=True)
    }
    return CustodyView(
        request=Request(**request),
        progress=Progress(**{**progress, "started": bool(progress["started"])}),
        escrow=escrow,
        committees=history.committees,
        records=history.records | {turn: record for turn, record in now.items() if record.turn == turn},
        roles={operator: role for operator, role in roles.items() if role != Role()},
        paid=history.paid,
        start_signers=history.start_signers,
    )


def _role(values: Mapping[str, Any]) -> Role:
    return Role(values["reserve"], CustodyStatus(values["status"]), values["index"])


class _History:
    """What a job's events say: every committee, every turn's record, and what each operator was paid."""

    def __init__(self, events: Sequence[Event], aggregators: int, custodians: int) -> None:
        self._aggregators, self._least = aggregators, (custodians + 1) // 2
        self.committees: dict[int, Committee] = {}
        self.records: dict[int, Record] = {}
        self.paid: dict[int, int] = {}
        self.start_signers = 0
        self._counted = 0
        for event in events:
            self._follow(event.name, event.args)

    def _follow(self, name: str, args: Mapping[str, Any]) -> None:
        if name == "CommitteeChanged":
            self.committees[args["version"]] = tuple(member_of(each["word"], each["key"]) for each in args["committee"])
        elif name == "StartSigned":
            self.start_signers = args["signers"]
        elif name == "InputsSigned":
            record = self._record(args["turn"])
            self.records[record.turn] = replace(
                record, mask=args["mask"], inputs=args["inputs"], answered=args["answered"]
            )
        elif name == "CheckpointSigned":
            record = self._record(args["turn"])
            self.records[record.turn] = self._with_signers(record, args["seat"] - AGGREGATOR_SEAT, args["signers"])
        elif name == "CustodiansPaid":
            self._pay(args["turns"], args["fee"])

    def _record(self, turn: int) -> Record:
        record = self.records.get(turn, Record(turn))
        is_fixed = record.inputs or record.checkpoint
        return record if is_fixed else replace(record, version=max(self.committees, default=0))

    def _with_signers(self, record: Record, share: int, signers: int) -> Record:
        if self._aggregators == 1:
            return replace(record, checkpoint=record.checkpoint | signers)
        shares = list(record.shares or (0,) * self._aggregators)
        if not shares[share] and signers.bit_count() < self._least:
            return record  # its aggregator was short of them, and posted nothing
        shares[share] |= signers
        common = bits.full(MAX_CUSTODIANS)
        for each in shares:
            common &= each or common
        return replace(record, checkpoint=common, shares=tuple(shares))

    def _pay(self, turns: int, fee: int) -> None:
        for turn in range(self._counted, self._counted + turns):
            record = self.records.get(turn, Record())
            for index, member in enumerate(self.committees.get(record.version, ())):
                times = (record.inputs >> index & 1) + (record.checkpoint >> index & 1)
                if times:
                    self.paid[member.operator] = self.paid.get(member.operator, 0) + fee * times
        self._counted += turns


def summary(custody: CustodyView | None, view: JobView) -> dict[str, Any] | None:
    """For `--json`: who holds what, with money in the token's smallest units; None if nobody asked for custodians."""
    if custody is None:
        return None
    places = [
        {
            "place": index,
            "operator": member.operator or None,
            "reserve": str(custody.roles.get(member.operator, Role()).reserve),
            "paid": str(custody.paid.get(member.operator, 0)),
            "from_turn": member.from_turn,
        }
        for index, member in enumerate(custody.committee)
    ]
    turns = [
        {
            "turn": turn,
            "seats": list(bits.slots_in(record.mask)),
            "inputs": _operators(custody, record, record.inputs),
            "checkpoint": _operators(custody, record, record.checkpoint),
        }
        for turn, record in sorted(custody.records.items())
    ]
    return {
        "custodians": custody.progress.custodians,
        "majority": custody.progress.least,
        "offers": custody.progress.offers,
        "vacant": custody.progress.vacant.bit_count(),
        "started": custody.progress.started,
        "fee": str(custody.request.fee),
        "reserve": str(custody.request.reserve),
        "escrow": str(custody.escrow),
        "paid": str(sum(custody.paid.values())),
        "counted": custody.progress.counted,
        "places": places,
        "turns": turns,
    }


def _operators(custody: CustodyView, record: Record, signers: int) -> list[int]:
    committee = custody.committees.get(record.version, ())
    return [member.operator for index, member in enumerate(committee) if signers >> index & 1]
