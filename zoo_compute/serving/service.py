"""The file of a service: which model answers, by which programs (docs/guides/serving.md). Canonical JSON; its CID names the service.

A program is one step; its state has the model's tensors and `asked`, what each of its steps is given for each of `rows` texts.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from repops.commitments import state_root_of
from repops.fields import BadField, between, canonical_json, parse_json, read
from zoo_compute.models.decoding_inputs import ASKED as ASKED
from zoo_compute.spec.params import MAX_STEPS

OUTPUTS = "outputs"  # the one that holds the answer
COMPLETIONS, EMBEDDINGS = KINDS = ("completions", "embeddings")
BYTES = "bytes"  # a tokenizer: each byte of UTF-8 is a token
MAX_SERVICE_BYTES = 256 * 1024  # one raw block, so that its CID can be rebuilt from 32 bytes on chain
MAX_ROWS = 64
_CID = re.compile(r"b[a-z2-7]{58}")
_ROOT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class ServedProgram:
    """rows: texts that a run of it answers together; root: its program root."""

    rows: int
    cid: str
    root: str

    def __post_init__(self) -> None:
        between("programs.rows", self.rows, 1, MAX_ROWS)
        _check(_CID, "programs.cid", self.cid)
        _check(_ROOT, "programs.root", self.root)


@dataclass(frozen=True)
class Service:
    """A model that is served.

    model: the name that requests use. context: positions of a text, its new tokens included. vocabulary: tokens; every one below it.
    end: the token that ends a text; None: none does. tokenizer: `bytes`, or the CID of a `tokenizer.json`.
    weights: the CID of the model's tensors; roots: their roots by name. programs: in ascending order of rows. temperature: at which
    they sample; 0: the likeliest token.
    """

    kind: str
    model: str
    context: int
    vocabulary: int
    end: int | None
    tokenizer: str
    weights: str
    roots: dict[str, str]
    programs: tuple[ServedProgram, ...]
    temperature: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadField(f"kind: expected {' or '.join(KINDS)}, got {self.kind!r}")
        if not self.model or len(self.model) > 128:
            raise BadField(f"model: expected a name of 1 to 128 characters, got {self.model!r}")
        between("context", self.context, 1, MAX_STEPS)
        between("vocabulary", self.vocabulary, 1, 2**31 - 1)
        if self.end is not None:
            between("end", self.end, 0, self.vocabulary - 1)
        if self.tokenizer != BYTES:
            _check(_CID, "tokenizer", self.tokenizer)
        between("temperature", self.temperature, 0, 100)
        _check(_CID, "weights", self.weights)
        for name, root in self.roots.items():
            _check(_ROOT, f"roots.{name}", root)
        if not self.roots or ASKED in self.roots:
            raise BadField(f"roots: expected the model's tensors, and none named {ASKED!r}")
        rows = [program.rows for program in self.programs]
        if not rows or rows != sorted(set(rows)):
            raise BadField(f"programs: expected one or more, in ascending order of rows, got rows {rows}")

    def program_for(self, texts: int) -> ServedProgram:
        """The smallest one that answers so many texts together. Raises BadField."""
        for program in self.programs:
            if program.rows >= texts:
                return program
        raise BadField(f"{texts} texts in one request; {self.model} answers at most {self.programs[-1].rows}")

    def start_root(self, asked: bytes) -> bytes:
        """The state root that a question starts from. asked: the root of its tensor."""
        return state_root_of({**{name: bytes.fromhex(root) for name, root in self.roots.items()}, ASKED: asked})

    def to_bytes(self) -> bytes:
        return canonical_json({**asdict(self), "programs": [asdict(program) for program in self.programs]})

    @classmethod
    def from_bytes(cls, data: bytes) -> Service:
        """Raises BadField for anything but the canonical file of a service."""
        if len(data) > MAX_SERVICE_BYTES:
            raise BadField(f"service: {len(data):,} bytes, at most {MAX_SERVICE_BYTES:,}")
        raw: Any = parse_json(data, "service")
        service = read(cls, raw, "service")
        if service.to_bytes() != data:
            raise BadField("service: not in canonical form")
        return service


def _check(pattern: re.Pattern[str], where: str, text: str) -> None:
    if not pattern.fullmatch(text):
        what = "a CIDv1 in base32" if pattern is _CID else "64 lower-case hex digits"
        raise BadField(f"{where}: expected {what}, got {text!r}")
