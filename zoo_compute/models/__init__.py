"""Built-in models: their sections of a job's file, checked without torch.

Each is an ordinary module: `architecture: gpt` names `gpt.build`, as `module: model.py:build` names yours;
`name: llama-160m` names an architecture with its sizes (`presets.MODELS`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from repops.fields import BadField, between, nearest

OPTIMIZERS = ("adamw", "sgd")
MAX_PARAMETERS = 2**37


@dataclass(frozen=True, kw_only=True)
class DecoderSection:
    """Keys of all built-in decoders. tied: the head is the token embedding.

    Text is bytes: ids from 256 on stay unused, unless the data is arrays of `tokens`.
    """

    layers: int
    heads: int
    width: int
    context: int
    vocab: int = 256
    tied: bool = True
    architecture: str = ""

    def __post_init__(self) -> None:
        between("model.vocab", self.vocab, 2, 2**20)
        between("model.context", self.context, 1, 2**16)
        between("model.layers", self.layers, 1, 512)
        between("model.heads", self.heads, 1, 512)
        between("model.width", self.width, 1, 2**16)
        self._check()
        if self.parameters > MAX_PARAMETERS:
            raise BadField(f"model: {self.parameters:,} parameters exceed {MAX_PARAMETERS:,}")

    def _check(self) -> None:
        """Checks of this architecture. Raises BadField."""

    @property
    def parameters(self) -> int:
        """Parameters of the module, counted without making it."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class GPTSection(DecoderSection):
    """`model:` with `architecture: gpt`, the default."""

    architecture: str = "gpt"

    def _check(self) -> None:
        if self.width % self.heads:
            raise BadField(f"model.width: {self.width} is no multiple of heads = {self.heads}")

    @property
    def parameters(self) -> int:
        width = self.width
        block = 12 * width * width + 13 * width  # qkv, projection, two of the MLP, their biases, two norms
        head = 0 if self.tied else self.vocab * width
        return (self.vocab + self.context) * width + self.layers * block + 2 * width + head


@dataclass(frozen=True, kw_only=True)
class LlamaSection(DecoderSection):
    """`model:` with `architecture: llama`. hidden: width of the MLP. kv_heads: heads of keys and values; by
    default as many as heads. theta: base of the rotary positions."""

    hidden: int
    kv_heads: int | None = None
    vocab: int = 32_000
    tied: bool = False
    theta: float = 10_000.0
    norm_epsilon: float = 1e-5
    architecture: str = "llama"

    def _check(self) -> None:
        between("model.hidden", self.hidden, 1, 2**18)
        between("model.theta", self.theta, 1.0, 1e9)
        between("model.norm_epsilon", self.norm_epsilon, 1e-12, 1.0)
        if self.width % (2 * self.heads):
            raise BadField(f"model.width: {self.width} is no multiple of twice heads = {self.heads}")
        if self.kv_heads is not None:
            between("model.kv_heads", self.kv_heads, 1, 512)
            if self.heads % self.kv_heads:
                raise BadField(f"model.kv_heads: {self.kv_heads} do not divide heads = {self.heads}")

    @property
    def parameters(self) -> int:
        width, keys = self.width, self.width // self.heads * (self.kv_heads or self.heads)
        layer = 2 * width * width + 2 * width * keys + 3 * width * self.hidden + 2 * width
        return (1 if self.tied else 2) * self.vocab * width + self.layers * layer + width


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


ARCHITECTURES: dict[str, type[DecoderSection]] = {"gpt": GPTSection, "llama": LlamaSection}
RULE = tuple(f.name for f in fields(RuleSection))
