"""What a commitment holds: slot results, their bundle and the round root. No torch: keepers use it too."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from node.errors import BadInputs
from repops import commitments
from repops.fields import BadField, canonical_json, check_keys, parse_json

MAX_BUNDLE_BYTES = 256 * 1024
_ROOTS = ("start_root", "segment_root", "end_root", "update_root")


@dataclass(frozen=True)
class SlotResult:
    """One entry of a bundle. update: CID of the update's file; loss: of the first and the last inner step."""

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


@dataclass(frozen=True)
class Bundle:
    """What an operator committed for a round."""

    job: int
    round: int
    operator: int
    results: tuple[SlotResult, ...]

    @property
    def root(self) -> bytes:
        return round_root(self.results)

    def result(self, slot: int) -> SlotResult:
        return next(result for result in self.results if result.slot == slot)


def result_of(report: Mapping[str, Any]) -> SlotResult:
    """The bundle entry of a shard report (node.reporter)."""
    entry = {name: report[name] for name in ("slot", "update", "loss", "seconds", *_ROOTS)}
    return _result(entry, "shard report")


def round_root(results: Sequence[SlotResult]) -> bytes:
    return commitments.round_root({result.slot: result.root for result in results})


def bundle_bytes(job: int, round: int, operator: int, results: Sequence[SlotResult]) -> bytes:
    """The bundle's canonical file, one raw block. Its results ascend by slot."""
    ordered = sorted(results, key=lambda result: result.slot)
    data = canonical_json(
        {
            "version": 1,
            "job": job,
            "round": round,
            "operator": operator,
            "results": [result.to_dict() for result in ordered],
        }
    )
    if len(data) > MAX_BUNDLE_BYTES:
        raise ValueError(f"a bundle of {len(ordered)} results has {len(data)} bytes, more than {MAX_BUNDLE_BYTES}")
    return data


def parse_bundle(data: bytes) -> Bundle:
    """Read a bundle that strangers wrote. Raises BadInputs."""
    try:
        if len(data) > MAX_BUNDLE_BYTES:
            raise BadField(f"bundle: {len(data)} bytes exceed {MAX_BUNDLE_BYTES}")
        given = parse_json(data, "bundle")
        keys = ("version", "job", "round", "operator", "results")
        if not isinstance(given, dict):
            raise BadField("bundle: expected an object")
        check_keys(given, keys, keys, "bundle")
        if given["version"] != 1 or not isinstance(given["results"], list):
            raise BadField("bundle: expected version 1 and a list of results")
        job, number, operator = (_number(given[key], f"bundle.{key}") for key in ("job", "round", "operator"))
        results = tuple(_result(entry, f"bundle.results[{i}]") for i, entry in enumerate(given["results"]))
    except BadField as error:
        raise BadInputs(str(error)) from error
    slots = [result.slot for result in results]
    if slots != sorted(set(slots)):
        raise BadInputs(f"bundle: slots must ascend, each once: {slots}")
    return Bundle(job, number, operator, results)


def verify_bundle(
    bundle: Bundle, *, job: int, round: int, operator: int, slots: Collection[int], root: bytes, start_root: bytes
) -> None:
    """Raises BadInputs unless the bundle is what the chain says was committed."""
    found = (bundle.job, bundle.round, bundle.operator)
    if found != (job, round, operator):
        raise BadInputs(f"bundle: is of job, round, operator {found}, expected {(job, round, operator)}")
    if {result.slot for result in bundle.results} != set(slots):
        raise BadInputs(f"bundle: holds slots {[r.slot for r in bundle.results]}, committed were {sorted(slots)}")
    if bundle.root != root:
        raise BadInputs(f"bundle: its results make the root {bundle.root.hex()}, committed was {root.hex()}")
    for result in bundle.results:
        if result.start_root != start_root:
            raise BadInputs(f"bundle: slot {result.slot} starts from {result.start_root.hex()}, not {start_root.hex()}")


def _result(entry: object, where: str) -> SlotResult:
    if not isinstance(entry, Mapping):
        raise BadField(f"{where}: expected an object")
    keys = ("slot", "update", "loss", "seconds", *_ROOTS)
    check_keys(entry, keys, keys, where)
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
