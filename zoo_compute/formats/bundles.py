"""Files that operators publish off chain: bundles of slot results, and checkpoint pointers. They are untrusted, so reading is strict.

No torch: clients, keepers and nodes all read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repops import commitments
from repops.fields import BadField, canonical_json, check_keys, parse_json

MAX_BUNDLE_BYTES = 256 * 1024
MAX_POINTER_BYTES = 8192  # a mask of 16,384 slots has 4,096 digits
_ROOTS = ("start_root", "segment_root", "end_root", "update_root")


class BadRecord(ValueError):
    """The bytes are not a valid record; the message says where and why."""


@dataclass(frozen=True)
class SlotResult:
    """One entry of a bundle. update: CID of the update's file; loss: at the first and the last inner step."""

    slot: int
    update: str
    start_root: bytes
    segment_root: bytes
    end_root: bytes
    update_root: bytes
    loss: tuple[float | None, float | None]
    seconds: float

    @property
    def root(self) -> bytes:
        return commitments.result_root(self.slot, self.start_root, self.segment_root, self.end_root, self.update_root)

    def to_dict(self) -> dict[str, Any]:
        roots = {name: getattr(self, name).hex() for name in _ROOTS}
        return {"slot": self.slot, "update": self.update, "loss": list(self.loss), "seconds": self.seconds, **roots}

    @classmethod
    def of_report(cls, report: Mapping[str, Any]) -> SlotResult:
        """The bundle entry of a shard report (node.compute.report). Raises BadRecord."""
        try:
            return _result({name: report[name] for name in _ENTRY}, "shard report")
        except BadField as error:
            raise BadRecord(str(error)) from error


_ENTRY = ("slot", "update", "loss", "seconds", *_ROOTS)


@dataclass(frozen=True)
class Bundle:
    """An operator's results of a round."""

    job: int
    round: int
    operator: int
    results: tuple[SlotResult, ...]

    @property
    def root(self) -> bytes:
        return round_root(self.results)

    def result(self, slot: int) -> SlotResult:
        return next(result for result in self.results if result.slot == slot)

    def to_bytes(self) -> bytes:
        """The canonical file, one raw block. Its results ascend by slot."""
        ordered = sorted(self.results, key=lambda result: result.slot)
        fields = {"version": 1, "job": self.job, "round": self.round, "operator": self.operator}
        data = canonical_json({**fields, "results": [result.to_dict() for result in ordered]})
        if len(data) > MAX_BUNDLE_BYTES:
            raise ValueError(f"a bundle of {len(ordered)} results has {len(data)} bytes, more than {MAX_BUNDLE_BYTES}")
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Bundle:
        """Raises BadRecord."""
        keys = ("version", "job", "round", "operator", "results")
        try:
            document = _object(data, keys, MAX_BUNDLE_BYTES, "bundle")
            if not isinstance(document["results"], list):
                raise BadField("bundle.results: expected a list")
            job, number, operator = (_number(document[key], f"bundle.{key}") for key in ("job", "round", "operator"))
            results = tuple(_result(entry, f"bundle.results[{i}]") for i, entry in enumerate(document["results"]))
        except BadField as error:
            raise BadRecord(str(error)) from error
        slots = [result.slot for result in results]
        if slots != sorted(set(slots)):
            raise BadRecord(f"bundle: slots must ascend, each once: {slots}")
        return cls(job, number, operator, results)


@dataclass(frozen=True)
class Pointer:
    """The file that a checkpoint's CID on chain names. round: the round it closed; mask: the slots whose updates it includes."""

    job: int
    round: int
    state: str
    root: bytes
    mask: int

    def to_bytes(self) -> bytes:
        fields = {"version": 1, "job": self.job, "round": self.round, "state": self.state}
        return canonical_json({**fields, "root": self.root.hex(), "mask": hex(self.mask)})

    @classmethod
    def from_bytes(cls, data: bytes) -> Pointer:
        """Raises BadRecord."""
        keys, where = ("version", "job", "round", "state", "root", "mask"), "checkpoint pointer"
        try:
            document = _object(data, keys, MAX_POINTER_BYTES, where)
            if not isinstance(document["state"], str) or not isinstance(document["mask"], str):
                raise BadField(f"{where}: expected text for state and mask")
            job, number = (_number(document[key], f"{where}.{key}") for key in ("job", "round"))
            pointer = cls(
                job, number, document["state"], _root(document["root"], f"{where}.root"), int(document["mask"], 16)
            )
        except ValueError as error:
            raise BadRecord(str(error)) from error
        if pointer.to_bytes() != data:
            raise BadRecord(f"{where}: not canonical")
        return pointer


def round_root(results: Sequence[SlotResult]) -> bytes:
    return commitments.round_root({result.slot: result.root for result in results})


def _object(data: bytes, keys: Sequence[str], most: int, where: str) -> dict[str, Any]:
    if len(data) > most:
        raise BadField(f"{where}: {len(data)} bytes exceed {most}")
    document = parse_json(data, where)
    if not isinstance(document, dict):
        raise BadField(f"{where}: expected an object")
    check_keys(document, keys, keys, where)
    if document["version"] != 1:
        raise BadField(f"{where}: expected version 1, got {document['version']!r}")
    return document


def _result(entry: object, where: str) -> SlotResult:
    if not isinstance(entry, Mapping):
        raise BadField(f"{where}: expected an object")
    check_keys(entry, _ENTRY, _ENTRY, where)
    loss = entry["loss"]
    if not isinstance(loss, list) or len(loss) != 2 or not all(x is None or _is_number(x) for x in loss):
        raise BadField(f"{where}.loss: expected two numbers, got {loss!r}")
    if not isinstance(entry["update"], str) or not _is_number(entry["seconds"]):
        raise BadField(f"{where}: update or seconds has the wrong type")
    roots = [_root(entry[name], f"{where}.{name}") for name in _ROOTS]
    slot = _number(entry["slot"], f"{where}.slot")
    return SlotResult(
        slot=slot,
        update=entry["update"],
        start_root=roots[0],
        segment_root=roots[1],
        end_root=roots[2],
        update_root=roots[3],
        loss=(loss[0], loss[1]),
        seconds=float(entry["seconds"]),
    )


def _root(value: object, where: str) -> bytes:
    if isinstance(value, str) and len(value) == 64 and value == value.lower():
        try:
            return bytes.fromhex(value)
        except ValueError:
            pass
    raise BadField(f"{where}: expected 64 lower-case hex digits, got {value!r}")


def _number(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**64:
        raise BadField(f"{where}: expected a whole number, got {value!r}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
