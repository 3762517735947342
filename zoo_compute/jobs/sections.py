"""The sections of a job's file, every key checked. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from repops.fields import BadField, between, nearest, read
from zoo_compute.arguments import checks_arguments
from zoo_compute.config_keys import check_values
from zoo_compute.formats.aggregation import PART_SIZE, Aggregation, OuterOptimizer
from zoo_compute.formats.manifest import Compression, as_job_errors, check_redundancy
from zoo_compute.jobs.clocks import Clocks
from zoo_compute.jobs.keys import KEYS
from zoo_compute.jobs.requirements import RequirementsSection
from zoo_compute.models import RULE, GPTSection
from zoo_compute.spec.params import DEFAULT_AUDIT_BPS, MAX_ROUNDS
from zoo_compute.training.schedules import CONSTANT

ROBUST_SLOTS = range(4, 65)  # of a job that trims its updates by default: fewer cannot outvote one, more cost too much
MEANS = ("mean", "sent_mean")
ROBUST_RULES = (
    "trimmed_mean",
    "median",
    "krum",
    "geometric_median",
    "centred_clipping",
)  # `clipped_mean` bounds sizes alone
# What `transformers` calls keys of `training:`.
OTHER_NAMES = {
    "max_grad_norm": "clip_norm",
    "gradient_accumulation_steps": "accumulate",
    "per_device_train_batch_size": "batch_size",
    "lr": "learning_rate",
}
MAPPED_BATCHES = 10  # of a slot and round of a map, at most, unless a job says otherwise
COLDEST = 1e-3  # temperature: float32 logits that are divided by less overflow
LONGEST_SEGMENT = 10  # steps, unless a job says otherwise: a dispute replays one segment


@dataclass(frozen=True)
class DataSection:
    """`data:` text files or directories, .jsonl, .parquet or .csv files, or one .npz or .safetensors file of arrays. Paths are
    relative to the configuration.

    dataset: instead of a path, the name or number of a dataset of the network (`zoo dataset list`), or OWNER/NAME@REVISION of
    Hugging Face's hub. split, subset, column: which texts of a table. tokenizer: a folder, a file or a name of the hub; without
    one, text is bytes. heldout: examples not trained on. skip: examples that earlier jobs trained on. context: tokens per example
    of text, if the model does not set it. arrays: from Python, instead of a path.
    """

    path: str = ""
    paths: list[str] = field(default_factory=list)
    heldout: int = 128
    skip: int = 0
    context: int | None = None
    arrays: dict | None = None
    dataset: str | int | None = None
    split: str = ""
    subset: str = ""
    column: str = ""
    tokenizer: str = ""

    def __post_init__(self) -> None:
        check_values("data", self, KEYS["data"])
        if self.dataset is not None and (self.path or self.paths or self.arrays is not None):
            raise BadField("data: dataset excludes path, paths and arrays; set one of them")
        if (self.on_network is not None or self.arrays is not None) and (self.split or self.subset or self.column):
            raise BadField("data: split, subset and column are of files and of the hub's datasets")

    @property
    def on_hub(self) -> str | None:
        """OWNER/NAME@REVISION. Names of the network have no slash."""
        return self.dataset if isinstance(self.dataset, str) and "/" in self.dataset else None

    @property
    def on_network(self) -> str | int | None:
        """The name or number of a dataset of the network."""
        return None if self.on_hub else self.dataset


@dataclass(frozen=True)
class TrainingSection:
    """`training:` rounds, batch, outer optimiser; and the inner optimiser of built-in models.

    clip_norm: maximum global L2 norm of gradients; 0 turns clipping off. warmup_steps: in every round, the learning rate
    of inner step h (from 0) is multiplied by min(1, (h + 1) / warmup_steps). lr_scheduler_type: a schedule over the steps of all
    rounds, as `transformers` has it; `warmup_steps` are then its first ones. accumulate: number of parts of a batch, whose
    gradients are averaged. carry_rounds: private state (the optimiser's and the compression residual) starts at zero every
    so many rounds; in between it is kept while the slot's operator stays the same. delay: with 1, a round's slots start
    from the checkpoint before the newest, so that nobody waits for the exchange of updates. The last six keys are for
    built-in models; your own module brings its optimizer.
    """

    batch_size: int
    inner_steps: int
    rounds: int
    slots: int
    quorum: int | None = None  # two thirds of the slots, rounded up
    segment_steps: int | None = None  # a quarter of the inner steps, rounded up, and at most LONGEST_SEGMENT
    warmup_steps: int = 0
    clip_norm: float = 0.0
    accumulate: int = 1
    outer_learning_rate: float = 0.7
    outer_momentum: float = 0.9
    carry_rounds: int = 1
    delay: int = 0
    outer_optimizer: str = "nesterov"
    outer_beta2: float = 0.999
    outer_epsilon: float = 1e-8
    outer_weight_decay: float = 0.0
    seed: int = 0
    lr_scheduler_type: str = CONSTANT
    learning_rate: float | None = None
    optimizer: str | None = None
    beta1: float | None = None
    beta2: float | None = None
    epsilon: float | None = None
    weight_decay: float | None = None

    def __post_init__(self) -> None:
        check_values("training", self, KEYS["training"])
        if self.quorum is not None:
            between("training.quorum", self.quorum, 1, self.slots)
        if self.segment_steps is not None:
            between("training.segment_steps", self.segment_steps, 1, self.inner_steps)
        if self.is_scheduled and self.warmup_steps > self.steps:
            raise BadField(f"training.warmup_steps: {self.warmup_steps:,} exceed the job's {self.steps:,} steps")
        if self.batch_size % self.accumulate:
            raise BadField(f"training.accumulate: {self.accumulate} parts do not divide batch_size = {self.batch_size}")

    @property
    def outer(self) -> OuterOptimizer:
        return OuterOptimizer(
            lr=self.outer_learning_rate,
            momentum=self.outer_momentum,
            kind=self.outer_optimizer,
            beta2=self.outer_beta2,
            epsilon=self.outer_epsilon,
            weight_decay=self.outer_weight_decay,
        )

    @property
    def rule(self) -> dict[str, Any]:
        """The optimiser keys that are set."""
        keys = {name: getattr(self, name) for name in RULE}
        return {name: value for name, value in keys.items() if value is not None}

    @property
    def steps(self) -> int:
        """Inner steps of a slot in all rounds."""
        return self.rounds * self.inner_steps

    @property
    def is_scheduled(self) -> bool:
        return self.lr_scheduler_type != CONSTANT

    @property
    def rates(self) -> tuple[float, ...] | None:
        """Factors of the learning rate by inner step of a round; the last one stays. None without warmup, or with a schedule."""
        if self.is_scheduled:
            return None
        return tuple((step + 1) / self.warmup_steps for step in range(self.warmup_steps)) or None


@dataclass(frozen=True)
class MapSection:
    """`map:` instead of `training:` how the items of `data:` are divided. Each goes through the module once, and nothing is learned.

    inner_steps: the most batches of a slot and round. A round is what is delivered, and done again, at once. new_tokens: the items are
    prompts of a causal model, which generates so many tokens from each; a slot's round is then one batch of whole texts.
    """

    batch_size: int
    slots: int
    inner_steps: int | None = None
    segment_steps: int | None = None
    seed: int = 0
    new_tokens: int | None = None
    temperature: float | None = None

    def __post_init__(self) -> None:
        check_values("map", self, KEYS["map"])
        if self.new_tokens is not None and self.inner_steps is not None:
            raise BadField("map.inner_steps: prompts and new_tokens set the steps of a slot's round; leave it out")
        if self.new_tokens is None and self.temperature is not None:
            raise BadField("map.temperature: a map without new_tokens generates no text; set both, or leave it out")
        if 0.0 < (self.temperature or 0.0) < COLDEST:
            raise BadField(f"map.temperature: expected 0, or {COLDEST} and more, got {self.temperature:g}")
        if self.segment_steps is not None and self.new_tokens is None:
            between("map.segment_steps", self.segment_steps, 1, self.most_batches)

    @property
    def most_batches(self) -> int:
        """Of a slot and round."""
        return MAPPED_BATCHES if self.inner_steps is None else self.inner_steps

    def rounds_of(self, items: int) -> TrainingSection:
        """Rounds of equal size, as few as possible, for so many items; the last one repeats the first items where these do not fill it."""
        batches = -(-items // (self.slots * self.batch_size))
        rounds = -(-batches // self.most_batches)
        if rounds > MAX_ROUNDS:
            raise BadField(
                f"map: {items:,} items make {rounds:,} rounds, at most {MAX_ROUNDS:,}; raise batch_size, inner_steps or slots"
            )
        steps = -(-batches // rounds)
        segment = None if self.segment_steps is None else min(self.segment_steps, steps)
        return TrainingSection(
            self.batch_size, steps, rounds, self.slots, quorum=self.slots, segment_steps=segment, seed=self.seed
        )


@dataclass(frozen=True)
class AggregationSection:
    """`aggregation:` how updates are combined.

    rule: from 4 to 64 slots whose updates are whole, and with one aggregator, `trimmed_mean` with `mixing: nearest`, which one
    hostile slot does not ruin; otherwise `mean`. hostile: number of tolerated hostile slots; (slots - 1) // 4 and from four slots on at least one, or
    0 for means.
    """

    rule: str | None = None
    hostile: int | None = None
    mixing: str | None = None
    part_size: int = PART_SIZE
    aggregators: int = 1

    def __post_init__(self) -> None:
        check_values("aggregation", self, KEYS["aggregation"])

    def of(self, slots: int, compression: Compression) -> Aggregation:
        """For a job with so many slots. A rule of ranks needs every element of every slot in one place, and work as slots^2."""
        is_whole = compression.keep is None and not compression.sends_signs
        can_trim = slots in ROBUST_SLOTS and is_whole and self.aggregators == 1
        rule = self.rule or ("trimmed_mean" if can_trim else "mean")
        mixing = self.mixing or ("nearest" if self.rule is None and can_trim else "none")
        hostile = self.hostile
        if hostile is None:
            hostile = 0 if rule in MEANS else max((slots - 1) // 4, int(slots >= 4))
        return Aggregation(rule, hostile, mixing, self.part_size, self.aggregators)


def default_policy(aggregation: Aggregation) -> str:
    """What a job does about a false update, unless it says: nothing where its rule bounds what one does, else the round again."""
    return "tolerate" if aggregation.rule in ROBUST_RULES and aggregation.hostile else "roll back"


@dataclass(frozen=True)
class MarketSection:
    """`market:` prices per slot-round, per round for the aggregator, and of each custodian per GiB and round, as decimal text of
    whole tokens.

    token: ZEN, or the address of another token. decimals: of that token, needed only without a network (for a quote).
    """

    reserve: str | float | None = None
    max_price: str | float | None = None
    aggregator_reserve: str | float | None = None
    aggregator_max_price: str | float | None = None
    custody_price: str | float | None = None
    token: str = "ZEN"
    decimals: int | None = None

    def __post_init__(self) -> None:
        check_values("market", self, KEYS["market"])


@dataclass(frozen=True)
class LimitsSection:
    """`limits:` maximum seconds of a slot, an aggregation and a re-execution; how far training runs ahead of final claims.

    Seconds that are not set follow from the job's work (zoo_compute/jobs/clocks.py).
    depth: turns whose claims may still be open to challenge. With more, fewer rounds wait for challenge windows, and locks
    are larger. policy: for rounds built on a worker's false claim: `tolerate` them, or `roll back` and repeat them. Unless set,
    `tolerate` where the aggregation bounds what one hostile slot does, else `roll back`.
    audit_bps: of 10,000 slot-rounds and aggregations, how many are drawn for an audit that you pay. With more, lies are found
    sooner and operators lock less.
    """

    slot_s: int | None = None
    aggregate_s: int | None = None
    reexecute_s: int | None = None
    depth: int = 4
    policy: str | None = None
    audit_bps: int = DEFAULT_AUDIT_BPS

    def __post_init__(self) -> None:
        check_values("limits", self, KEYS["limits"])

    def clocks(self, wanted: Clocks) -> Clocks:
        """The file's values; `wanted` for those it does not set."""
        own_values = (self.slot_s, self.aggregate_s, self.reexecute_s)
        return Clocks(*(want if own is None else own for own, want in zip(own_values, wanted, strict=True)))


@checks_arguments
@dataclass(frozen=True)
class CheckpointConfig:
    """`checkpoint:` which checkpoints are kept, where, and on how many stores.

    Every round, that is every `inner_steps` steps, ends with a checkpoint. `interval`, in steps of a slot, sets which of
    them are kept after the job: one every `interval` steps, rounded up to whole rounds, and always the last. 0 keeps all.
    A quote prints the result (`checkpoint_every_steps`). `redundancy`: 1 or 2 copies, which the job's own nodes keep; or 3, 5, 7 or
    9 custodians, who are drawn by stake and paid `market.custody_price` to hold what every round commits.
    """

    interval: int = 0
    storage: str = "ipfs"
    redundancy: int = 2

    def __post_init__(self) -> None:
        with as_job_errors():
            between("checkpoint.interval", self.interval, 0, 10**10)
            check_redundancy("checkpoint.redundancy", self.redundancy)
            if self.storage != "ipfs":
                raise BadField(f"checkpoint.storage: expected 'ipfs' (embedded or a daemon), got {self.storage!r}")

    def every_rounds(self, inner_steps: int) -> int:
        """n, if the checkpoint of every n-th round is kept."""
        return min(MAX_ROUNDS, max(1, -(-self.interval // inner_steps)))


SECTIONS: dict[str, type] = {
    "model": GPTSection,
    "data": DataSection,
    "training": TrainingSection,
    "map": MapSection,
    "compression": Compression,
    "aggregation": AggregationSection,
    "market": MarketSection,
    "limits": LimitsSection,
    "checkpoint": CheckpointConfig,
    "requirements": RequirementsSection,
}
BUDGET = "budget_max"  # beside the sections


def read_section(name: str, section: object) -> Any:
    """Read one section. An error for a misplaced key names its section."""
    return read(SECTIONS[name], own_keys(name, section), name)


def keys_of(name: str, section: Any) -> Any:
    """A section's keys: empty if it is absent, the fields if it is an object."""
    if section is None and name in SECTIONS:
        return {}
    return vars(section) if name in SECTIONS and isinstance(section, SECTIONS[name]) else section


def own_keys(name: str, section: object) -> Mapping[str, Any]:
    """The section's keys. Refuses keys of other sections."""
    section = keys_of(name, section)
    if not isinstance(section, Mapping):
        raise BadField(f"{name}: expected a mapping, got {section!r}")
    own = {f.name for f in fields(SECTIONS[name])}
    for key in section:
        homes = [other for other, cls in SECTIONS.items() if key in {f.name for f in fields(cls)}]
        if name == "training" and key in OTHER_NAMES:
            raise BadField(f"training: unknown key {key!r}; write {OTHER_NAMES[key]!r}")
        if key not in own and homes:
            raise BadField(f"{name}: unknown key {key!r}; it belongs to {homes[0]!r}")
    return section


def check_sections(sections: object) -> Mapping[str, Any]:
    """A configuration file's sections, none unknown or missing. Raises BadField."""
    if not isinstance(sections, Mapping):
        raise BadField(f"expected the sections {', '.join(SECTIONS)}, got {sections!r}")
    for key in sections:
        if key not in (*SECTIONS, BUDGET):
            raise BadField(f"unknown section {key!r}; {nearest(str(key), [*SECTIONS, BUDGET])}")
    for key in ("model", "training"):
        if key not in sections and not (key == "training" and sections.get("map") is not None):
            raise BadField(f"missing section {key!r}")
    return sections
