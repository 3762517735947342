"""What a program is, as data: architecture, optimiser, batch size. No torch: a client reads and checks it.

`program_root` is what a job commits to on chain; `profile` is exact before anyone bids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from repops.commitments import LIST, sha256
from repops.fields import BadField, between, canonical_json, nearest, parse_json, read

MAX_PARAMETERS = 2**34
OPTIMIZERS = ("adamw", "sgd")


@dataclass(frozen=True)
class GPTConfig:
    """A decoder with learned positions, pre-LayerNorm and GELU; `tied`: the head is the token embedding."""

    vocab: int
    context: int
    layers: int
    heads: int
    width: int
    tied: bool = True
    name: str = "gpt"

    def __post_init__(self) -> None:
        between("architecture.vocab", self.vocab, 2, 2**20)
        between("architecture.context", self.context, 1, 2**16)
        between("architecture.layers", self.layers, 1, 512)
        between("architecture.heads", self.heads, 1, 512)
        between("architecture.width", self.width, 1, 2**16)
        if self.width % self.heads:
            raise BadField(f"architecture.width: {self.width} is no multiple of heads = {self.heads}")
        if self.parameters > MAX_PARAMETERS:
            raise BadField(f"architecture: {self.parameters:,} parameters exceed {MAX_PARAMETERS:,}")

    @property
    def parameters(self) -> int:
        width = self.width
        block = 12 * width * width + 13 * width  # qkv, projection, two of the MLP, their biases, two norms
        head = 0 if self.tied else self.vocab * width
        return (self.vocab + self.context) * width + self.layers * block + 2 * width + head

    def flops_per_token(self) -> int:
        """Multiply-adds count two; forward and backward (three times forward)."""
        matmuls = 12 * self.layers * self.width**2 + self.vocab * self.width
        attention = 2 * self.layers * self.context * self.width
        return 6 * (matmuls + attention)


ARCHITECTURES: dict[str, type[GPTConfig]] = {"gpt": GPTConfig}


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with decoupled decay (matrices only) and bias correction, or plain SGD, where betas and epsilon are unused.

    warmup_steps: the rate of inner step h (from 0) is learning_rate * min(1, (h + 1) / warmup_steps); 0 turns it off.
    clip_norm: gradients are scaled to this global L2 norm at most; 0 turns it off.
    """

    name: str
    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    warmup_steps: int = 0
    clip_norm: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in OPTIMIZERS:
            raise BadField(f"optimizer.name: unknown optimizer {self.name!r}; {nearest(self.name, OPTIMIZERS)}")
        between("optimizer.learning_rate", self.learning_rate, 1e-12, 1e3)
        between("optimizer.beta1", self.beta1, 0.0, 0.999999)
        between("optimizer.beta2", self.beta2, 0.0, 0.999999)
        between("optimizer.epsilon", self.epsilon, 1e-30, 1.0)
        between("optimizer.weight_decay", self.weight_decay, 0.0, 100.0)
        between("optimizer.warmup_steps", self.warmup_steps, 0, 10**6)
        between("optimizer.clip_norm", self.clip_norm, 0.0, 1e6)


@dataclass(frozen=True)
class Profile:
    """Costs of one step: flops, parameters and state_bytes (with moments) exact, activation_bytes estimated."""

    flops: int
    parameters: int
    state_bytes: int
    activation_bytes: int


@dataclass(frozen=True)
class ProgramSpec:
    """A training step as data. Construct through `from_dict` or `from_json`, which check every key."""

    architecture: dict[str, Any]
    optimizer: dict[str, Any]
    batch_size: int
    version: int = 1

    def __post_init__(self) -> None:
        if self.version != 1:
            raise BadField(f"program.version: this release reads version 1, got {self.version}")
        between("program.batch_size", self.batch_size, 1, 2**16)
        # Stored complete and typed, so that equal programs have equal bytes however they were written.
        object.__setattr__(self, "architecture", asdict(self.model))
        object.__setattr__(self, "optimizer", asdict(self.rule))

    @property
    def model(self) -> GPTConfig:
        name = self.architecture.get("name", "gpt")
        if name not in ARCHITECTURES:
            raise BadField(f"architecture.name: unknown {name!r}; {nearest(str(name), ARCHITECTURES)}")
        return read(ARCHITECTURES[name], self.architecture, "architecture")

    @property
    def rule(self) -> OptimizerConfig:
        return read(OptimizerConfig, self.optimizer, "optimizer")

    @property
    def root(self) -> bytes:
        return sha256(LIST + b"program" + self.to_json())

    @property
    def profile(self) -> Profile:
        model = self.model
        tokens = self.batch_size * model.context
        copies = 3 if self.rule.name == "adamw" else 1
        per_token = model.layers * (34 * model.width + 5 * model.heads * model.context // 2) + 3 * model.vocab
        return Profile(
            flops=model.flops_per_token() * tokens,
            parameters=model.parameters,
            state_bytes=4 * copies * model.parameters + 8,
            activation_bytes=4 * tokens * per_token,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_json(self) -> bytes:
        return canonical_json(self.to_dict())

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> ProgramSpec:
        return read(cls, given, "program")

    @classmethod
    def from_json(cls, data: bytes) -> ProgramSpec:
        return cls.from_dict(parse_json(data, "program"))
