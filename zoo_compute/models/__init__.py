"""Built-in models, and what a job's file says about them, checked without torch.

Each is a module like a submitter's own: `architecture: gpt` names `gpt.build`, as `module: model.py:build` names yours.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from repops.fields import BadField, between, nearest

OPTIMIZERS = ("adamw", "sgd")
MAX_PARAMETERS = 2**34


@dataclass(frozen=True)
class GPTSection:
    """`model:` with `architecture: gpt`; `tied`: the head is the token embedding."""

    layers: int
    heads: int
    width: int
    context: int
    vocab: int = 256
    tied: bool = True
    architecture: str = "gpt"

    def __post_init__(self) -> None:
        between("model.vocab", self.vocab, 2, 2**20)
        between("model.context", self.context, 1, 2**16)
        between("model.layers", self.layers, 1, 512)
        between("model.heads", self.heads, 1, 512)
        between("model.width", self.width, 1, 2**16)
        if self.width % self.heads:
            raise BadField(f"model.width: {self.width} is no multiple of heads = {self.heads}")
        if self.parameters > MAX_PARAMETERS:
            raise BadField(f"model: {self.parameters:,} parameters exceed {MAX_PARAMETERS:,}")

    @property
    def parameters(self) -> int:
        width = self.width
        block = 12 * width * width + 13 * width  # qkv, projection, two of the MLP, their biases, two norms
        head = 0 if self.tied else self.vocab * width
        return (self.vocab + self.context) * width + self.layers * block + 2 * width + head


@dataclass(frozen=True)
class RuleSection:
    """The keys of `training:` that make a built-in model's optimiser: AdamW, or plain SGD without the last four."""

    learning_rate: float
    optimizer: str = "adamw"
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise BadField(
                f"training.optimizer: unknown optimizer {self.optimizer!r}; {nearest(self.optimizer, OPTIMIZERS)}"
            )
        between("training.learning_rate", self.learning_rate, 1e-12, 1e3)
        between("training.beta1", self.beta1, 0.0, 0.999999)
        between("training.beta2", self.beta2, 0.0, 0.999999)
        between("training.epsilon", self.epsilon, 1e-30, 1.0)
        between("training.weight_decay", self.weight_decay, 0.0, 100.0)
        if self.optimizer == "sgd" and self.weight_decay:
            raise BadField("training.weight_decay: the built-in sgd has none; use adamw, or a module of your own")


ARCHITECTURES: dict[str, type[GPTSection]] = {"gpt": GPTSection}
RULE = tuple(f.name for f in fields(RuleSection))
