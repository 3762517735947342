"""How a round's updates make the next checkpoint, as a manifest says it: the rule, and the outer optimizer."""

from __future__ import annotations

from dataclasses import dataclass

from repops.fields import BadField, between, nearest
from zoo_compute.spec.params import MAX_AGGREGATORS, MAX_SLOTS

OUTER_KINDS = ("nesterov", "adamw")
NO_OUTER = "none"  # of a map: its checkpoint stays as it is
RULES = ("mean", "sent_mean", "clipped_mean", "median", "trimmed_mean", "krum", "geometric_median", "centred_clipping")
MIXINGS = ("none", "nearest", "buckets")
MIN_PART, MAX_PART, PART_SIZE = 2**6, 2**30, 2**28  # values of a part: all slots' rows together, which are float32


@dataclass(frozen=True)
class OuterOptimizer:
    """The outer optimiser: SGD with Nesterov momentum, or AdamW. Its gradient is the aggregated update.

    momentum: for AdamW, its first beta. Only AdamW uses the last three fields. kind `none`: of a map, which has no next checkpoint.
    """

    lr: float
    momentum: float
    kind: str = "nesterov"
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        between("outer.lr", self.lr, 1e-6, 10.0)
        between("outer.momentum", self.momentum, 0.0, 0.999)
        kinds = (*OUTER_KINDS, NO_OUTER)
        if self.kind not in kinds:
            raise BadField(f"outer.kind: unknown optimiser {self.kind!r}; {nearest(self.kind, kinds)}")
        between("outer.beta2", self.beta2, 0.0, 0.99999)
        between("outer.epsilon", self.epsilon, 1e-12, 1.0)
        between("outer.weight_decay", self.weight_decay, 0.0, 1.0)
        if self.kind == NO_OUTER and (self.lr, self.momentum) != (1.0, 0.0):
            raise BadField("outer: of kind none lr is 1 and momentum 0")
        if self.kind != "adamw" and (self.beta2, self.epsilon, self.weight_decay) != (0.999, 1e-8, 0.0):
            raise BadField("outer: beta2, epsilon and weight_decay are of kind adamw")


@dataclass(frozen=True)
class Aggregation:
    """How a round's updates are joined to one (docs/guides/aggregation.md).

    hostile: how many of the slots may be anything at all. mixing: what each row is replaced by before the rule. part_size: the
    most values that all slots' rows of a part of a tensor have (zoo_compute/training/parts.py). aggregators: operators' seats, each
    of which combines a share of the tensors (zoo_compute/training/shares.py).
    """

    rule: str = "mean"
    hostile: int = 0
    mixing: str = "none"
    part_size: int = PART_SIZE
    aggregators: int = 1

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise BadField(f"aggregation.rule: unknown rule {self.rule!r}; {nearest(self.rule, RULES)}")
        if self.mixing not in MIXINGS:
            raise BadField(f"aggregation.mixing: unknown mixing {self.mixing!r}; {nearest(self.mixing, MIXINGS)}")
        between("aggregation.hostile", self.hostile, 0, MAX_SLOTS // 2)
        between("aggregation.part_size", self.part_size, MIN_PART, MAX_PART)
        between("aggregation.aggregators", self.aggregators, 1, MAX_AGGREGATORS)
        if self.aggregators > 1 and not self.is_mean:
            raise BadField(
                f"aggregation.aggregators: {self.rule} compares whole updates, and each of several has a share; use rule mean"
            )
        if self.is_mean and (self.hostile or self.mixing != "none"):
            raise BadField("aggregation.rule: a mean supports neither `hostile` nor `mixing`; use trimmed_mean")

    @property
    def is_mean(self) -> bool:
        return self.rule in ("mean", "sent_mean")

    @property
    def is_coordinatewise(self) -> bool:
        """Whether the rule looks at each value by itself."""
        return self.rule in ("median", "trimmed_mean")


@dataclass(frozen=True)
class AggregationSpec:
    """How a round's updates make the next checkpoint."""

    slots: int
    outer: OuterOptimizer
    rule: Aggregation = Aggregation()

    def __post_init__(self) -> None:
        if self.slots <= 2 * self.rule.hostile:
            raise BadField(f"aggregation.hostile: {self.rule.hostile} of {self.slots} slots are not fewer than half")
