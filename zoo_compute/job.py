"""A job as its submitter writes it down: `ComputeJob`, read from YAML or JSON, every key checked. No torch.

What the network runs is the `Manifest` (zoo_compute.manifest) that it makes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from repops.commitments import Array
from repops.fields import BadField, nearest
from repops.profile import Profile
from zoo_compute.amounts import format_amount, parse_amount
from zoo_compute.clocks import SHORTEST, clocks_of
from zoo_compute.data import ARRAY_SUFFIXES, INPUTS, TARGETS, TOKENS, Examples, batch_of, prepare_arrays, read_arrays
from zoo_compute.errors import UserError
from zoo_compute.manifest import (
    Compression,
    DataFile,
    HeldoutFile,
    JobError,
    Manifest,
    Outer,
    ProgramFile,
    StateFile,
    refusals_told,
)
from zoo_compute.modules import ModelSource, Rule, Traced, load_program, read_model, trace_module
from zoo_compute.parents import Parents
from zoo_compute.rounds import with_residuals
from zoo_compute.sections import (
    LONGEST_SEGMENT,
    SECTIONS,
    AggregationSection,
    CheckpointConfig,
    DataSection,
    LimitsSection,
    MarketSection,
    TrainingSection,
    own_keys,
    read_config,
    read_section,
)
from zoo_compute.spec.params import MAX_PRICE, MAX_ROUNDS, escrow_of

__all__ = [
    "CheckpointConfig",
    "Compression",
    "ComputeJob",
    "DataFile",
    "HeldoutFile",
    "JobError",
    "Manifest",
    "Outer",
    "Prices",
    "ProgramFile",
    "StateFile",
]

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


class Prices(NamedTuple):
    """In the token's smallest unit; the first two per slot-round, the others per round."""

    reserve: int
    max_price: int
    aggregator_reserve: int
    aggregator_max_price: int


@dataclass
class ComputeJob:
    """A job as its submitter describes it: four plain values, and optionally market, limits and checkpoint.

    model_config: a built-in architecture and its sizes; or `module`, a function `FILE.py:NAME` that returns (module, loss,
    optimizer), and what it takes; or `module`, `loss` and `optimizer` themselves; or `program`, a file.
    budget_max: the most ZEN the job may put in escrow, as decimal text; prices that `market` lacks follow from it.
    """

    model_config: dict[str, Any]
    data_config: dict[str, Any]
    training_config: dict[str, Any]
    budget_max: str | int | float | None = None
    market_config: dict[str, Any] | None = None
    limits_config: dict[str, Any] | None = None
    aggregation_config: dict[str, Any] | None = None
    checkpoint_config: dict[str, Any] | CheckpointConfig | None = None
    compression_config: dict[str, Any] | None = None
    directory: Path = field(default_factory=Path)

    def __post_init__(self) -> None:
        with refusals_told():
            self.data: DataSection = read_section("data", self.data_config)
            self.training: TrainingSection = read_section("training", self.training_config)
            self.model: ModelSource = self._model()
            self.market: MarketSection = read_section("market", self.market_config)
            self.compression: Compression = read_section("compression", self.compression_config)
            self.limits: LimitsSection = read_section("limits", self.limits_config)
            self.aggregation: AggregationSection = read_section("aggregation", self.aggregation_config)
            given = self.checkpoint_config
            self.checkpoint = given if isinstance(given, CheckpointConfig) else read_section("checkpoint", given)
            self.checkpoint.every_rounds(self.training.inner_steps)
            if self.market.token != "ZEN" and not _ADDRESS.fullmatch(self.market.token):
                raise BadField(f"market.token: expected 'ZEN' or an address, got {self.market.token!r}")
        self.outline()  # checks every range now, before any data is read
        with refusals_told():
            self.prices: Prices = self._prices()

    @property
    def examples_wanted(self) -> int:
        """Examples for a run in which none is seen twice."""
        return self.training.rounds * self.examples_of_a_round

    @property
    def examples_of_a_round(self) -> int:
        return self.training.slots * self.training.inner_steps * self.training.batch_size

    @property
    def context(self) -> int:
        """Tokens an example of text has. Raises JobError."""
        found = self.data.context or self.model.context
        if not found and self.model.program:
            found = self.traced.batch[INPUTS].shape[-1]
        if not found:
            raise JobError(
                "data.context: missing",
                hint="how many tokens has an example of text? (data of other kinds comes as arrays)",
            )
        return found

    @cached_property
    def arrays(self) -> Examples | None:
        """The data where it comes as arrays; None for text. Raises JobError."""
        if self.data.arrays is not None:
            return {name: np.asarray(array) for name, array in self.data.arrays.items()}
        paths = [path for path in self.data_paths() if path.suffix in ARRAY_SUFFIXES] if self._paths else []
        if not paths:
            return None
        if len(self._paths) > 1:
            raise JobError(f"data: {paths[0].name} holds arrays and stands alone")
        try:
            return read_arrays(paths[0])
        except ValueError as error:
            raise JobError(f"data: {error}") from error

    @cached_property
    def traced(self) -> Traced:
        """The step's program, and the initial weights; the submitter's module runs here, once. Raises JobError."""
        with refusals_told():
            traced = self._traced()
            return replace(traced, graph=with_residuals(traced.graph)) if self.outline().keeps_residuals else traced

    def _traced(self) -> Traced:
        training = self.training
        if self.model.program:
            return load_program(self.directory / Path(self.model.program).expanduser())
        rule = Rule(training.clip_norm or None, training.rates, training.accumulate)
        return trace_module(self.model, self._sample(), rule, seed=training.seed, directory=self.directory)

    @property
    def profile(self) -> Profile:
        """Costs of one inner step."""
        return self.traced.profile

    @property
    def flops(self) -> int:
        """Of one slot-round."""
        return self.profile.flops * self.training.inner_steps

    @property
    def escrow(self) -> int:
        """What posting pulls."""
        prices, training = self.prices, self.training
        return escrow_of(training.rounds, training.slots, prices.max_price, prices.aggregator_max_price)

    def data_paths(self) -> list[Path]:
        """The files and directories of `data:`, relative ones from the configuration's directory."""
        if not self._paths:
            raise JobError("data: name what to train on with `path` or `paths`")
        return [self.directory / Path(path).expanduser() for path in self._paths]

    @property
    def _paths(self) -> list[str]:
        return [*([self.data.path] if self.data.path else []), *self.data.paths]

    def _sample(self) -> tuple[Array, Array]:
        """Inputs and targets of one step, of the right shapes and dtypes."""
        size = self.training.batch_size
        if self.arrays is None:
            first: Examples = {TOKENS: np.zeros((1, self.context + 1), np.int32)}
        else:
            try:
                first = prepare_arrays(self.arrays, 0, heldout=1).examples
            except ValueError as error:
                raise JobError(f"data: {error}") from error
        batch = batch_of(first, np.zeros(size, np.int64), self.training.accumulate)
        return batch[INPUTS], batch[TARGETS]

    def outline(self, step: Profile | None = None) -> Manifest:
        """The manifest before its files exist: its numbers are those of the real one, its content addresses are not.

        step: of the traced module; without it, clocks that `limits` does not name are the shortest.
        """
        cid, root = "b" + "a" * 58, "0" * 64
        files = ProgramFile(cid, root, flops=1), StateFile(cid, root), DataFile(cid, root, examples=1), HeldoutFile(cid)
        return self.manifest(*files, step=step)

    def manifest(
        self,
        program: ProgramFile,
        state: StateFile,
        data: DataFile,
        heldout: HeldoutFile,
        parents: Parents | None = None,
        *,
        step: Profile | None,
    ) -> Manifest:
        """The job's manifest, once its files are stored. step: as for `outline`."""
        training, limits = self.training, self.limits
        sizes = training.inner_steps, training.slots, training.carry_rounds
        clocks = limits.clocks(clocks_of(step, *sizes) if step else SHORTEST)
        return Manifest(
            program=program,
            batch_size=training.batch_size,
            accumulate=training.accumulate,
            rounds=training.rounds,
            slots=training.slots,
            quorum=-(-2 * training.slots // 3) if training.quorum is None else training.quorum,
            inner_steps=training.inner_steps,
            segment_steps=training.segment_steps or min(LONGEST_SEGMENT, -(-training.inner_steps // 4)),
            seed=training.seed,
            state=state,
            data=data,
            heldout=heldout,
            outer=training.outer,
            aggregation=self.aggregation.of(training.slots),
            compression=self.compression,
            carry=training.carry_rounds,
            delay=training.delay,
            **clocks._asdict(),
            redundancy=self.checkpoint.redundancy,
            depth=limits.depth,
            policy=limits.policy,
            keep_every=min(MAX_ROUNDS, self.checkpoint.every_rounds(training.inner_steps)),
            parents=parents,
        )

    @classmethod
    def from_file(cls, path: str | Path) -> ComputeJob:
        """Read a YAML or JSON configuration. Raises JobError, naming the file."""
        path = Path(path)
        given = read_config(path)
        try:
            return cls.from_dict(given, directory=path.parent)
        except UserError as error:
            raise JobError(f"{path}: {error}", hint=error.hint) from error

    @classmethod
    def from_dict(cls, given: object, *, directory: Path | None = None) -> ComputeJob:
        """From the sections of a configuration file."""
        with refusals_told():
            if not isinstance(given, Mapping):
                raise BadField(f"expected the sections {', '.join(SECTIONS)}, got {given!r}")
            for key in given:
                if key not in SECTIONS and key != "budget_max":
                    raise BadField(f"unknown section {key!r}; {nearest(str(key), [*SECTIONS, 'budget_max'])}")
            for key in ("model", "training"):
                if key not in given:
                    raise BadField(f"missing section {key!r}")
        return cls(
            given["model"],
            given.get("data") or {},
            given["training"],
            given.get("budget_max"),
            market_config=given.get("market"),
            limits_config=given.get("limits"),
            aggregation_config=given.get("aggregation"),
            checkpoint_config=given.get("checkpoint"),
            compression_config=given.get("compression"),
            directory=directory or Path(),
        )

    def _model(self) -> ModelSource:
        given: Mapping[str, Any] = self.model_config
        if not isinstance(given, Mapping) or not given.keys() & {"module", "program"}:
            given = own_keys("model", given)
        return read_model(given, self.training.rule)

    def _prices(self) -> Prices:
        market, training = self.market, self.training
        budget = None if self.budget_max is None else parse_amount(self.budget_max, what="budget_max")
        if market.max_price is not None:
            most = parse_amount(market.max_price, what="market.max_price")
        elif budget is not None:
            most = budget // (training.rounds * (training.slots + 1))
        else:
            raise JobError(
                "market.max_price: missing",
                hint="give a budget to derive it from (--max-budget, or budget_max in the file), or market.max_price",
            )
        reserve = most if market.reserve is None else parse_amount(market.reserve, what="market.reserve")
        given = market.aggregator_max_price
        most_a = most if given is None else parse_amount(given, what="market.aggregator_max_price")
        given = market.aggregator_reserve
        reserve_a = min(reserve, most_a) if given is None else parse_amount(given, what="market.aggregator_reserve")
        for name, low, high in (("", reserve, most), ("aggregator_", reserve_a, most_a)):
            if not 1 <= low <= high <= MAX_PRICE:
                raise JobError(f"market.{name}reserve: expected more than 0 and at most {name}max_price")
        prices = Prices(reserve, most, reserve_a, most_a)
        escrow = escrow_of(training.rounds, training.slots, most, most_a)
        if budget is not None and escrow > budget:
            raise JobError(
                f"budget_max: the job needs {format_amount(escrow)} in escrow, the budget is {format_amount(budget)}",
                hint="lower market.max_price, market.aggregator_max_price, training.rounds or training.slots",
            )
        return prices
