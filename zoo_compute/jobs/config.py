"""`ComputeJob`: a job as its submitter describes it, read from YAML or JSON, every key checked. No torch.

It makes the `Manifest` (zoo_compute.formats.manifest) that the network runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from repops.commitments import Array
from repops.fields import BadField
from repops.profile import Profile
from zoo_compute.amounts import CREDITS, Token
from zoo_compute.arguments import checks_arguments
from zoo_compute.errors import UserError
from zoo_compute.formats.aggregation import NO_OUTER, Aggregation, OuterOptimizer
from zoo_compute.formats.lineage import Parents
from zoo_compute.formats.manifest import (
    Compression,
    DataFile,
    HeldoutFile,
    JobError,
    Manifest,
    ProgramFile,
    StateFile,
    as_job_errors,
)
from zoo_compute.jobs.clocks import SHORTEST_CLOCKS, clocks_of
from zoo_compute.jobs.config_file import read_file
from zoo_compute.jobs.custody import CustodyTerms, custody_terms
from zoo_compute.jobs.generation import Generation, generation_of
from zoo_compute.jobs.model_source import ModelSource, read_model
from zoo_compute.jobs.prices import PartialPrices, Prices, complete_prices, read_prices, token_of
from zoo_compute.jobs.requirements import RequirementsSection
from zoo_compute.jobs.sections import (
    BUDGET,
    LONGEST_SEGMENT,
    SECTIONS,
    AggregationSection,
    CheckpointConfig,
    DataSection,
    LimitsSection,
    MapSection,
    MarketSection,
    TrainingSection,
    check_sections,
    default_policy,
    own_keys,
    read_section,
)
from zoo_compute.jobs.stored_data import array_of_items, data_paths, examples_of, lines_of, rows_of, stored_arrays
from zoo_compute.jobs.traced_step import StepOptions, TracedStep, load_program, trace_items, trace_module
from zoo_compute.spec.params import escrow_of
from zoo_compute.training.examples import (
    INPUTS,
    TARGETS,
    TEXT,
    TOKENS,
    Examples,
    batch_of,
)
from zoo_compute.training.held_bytes import round_bytes
from zoo_compute.training.rounds import with_residuals

__all__ = [
    "CheckpointConfig",
    "Compression",
    "ComputeJob",
    "DataFile",
    "HeldoutFile",
    "JobError",
    "Manifest",
    "OuterOptimizer",
    "Prices",
    "ProgramFile",
    "StateFile",
]


@checks_arguments
@dataclass
class ComputeJob:
    """A job: four plain values, and optionally the other sections of a job's file (SECTIONS), of which `map` is instead of `training`.

    model_config: a built-in architecture and its sizes; or `transformers`, a causal model's folder, name on the hub, or object;
    or `module`, a function `FILE.py:NAME` that returns (module, loss, optimizer), and its arguments; or the objects `module`,
    `loss` and `optimizer`; or `program`, a file.
    budget_max: the maximum escrow in the job's token (ZEN), as text. Prices missing in `market` follow from it or from the work.
    """

    model_config: dict[str, Any]
    data_config: dict[str, Any]
    training_config: dict[str, Any] = field(default_factory=dict)
    budget_max: str | int | float | None = None
    market_config: dict[str, Any] | None = None
    limits_config: dict[str, Any] | None = None
    aggregation_config: dict[str, Any] | None = None
    checkpoint_config: dict[str, Any] | CheckpointConfig | None = None
    requirements_config: dict[str, Any] | None = None
    compression_config: dict[str, Any] | Compression | None = None
    map_config: dict[str, Any] | None = None
    directory: Path = field(default_factory=Path)

    def __post_init__(self) -> None:
        with as_job_errors():
            self.data: DataSection = read_section("data", self.data_config)
            self.fetched: Examples | None = None
            self.map: MapSection | None = read_section("map", self.map_config) if self.map_config is not None else None
            trains = None if self.map else read_section("training", self.training_config)
            self.model: ModelSource = self._model({} if trains is None else trains.rule)
            self.training: TrainingSection = trains or self._mapped(self.map)
            self.market: MarketSection = read_section("market", self.market_config)
            self.compression: Compression = read_section("compression", self.compression_config)
            self.limits: LimitsSection = read_section("limits", self.limits_config)
            self.aggregation: AggregationSection = read_section("aggregation", self.aggregation_config)
            self.checkpoint: CheckpointConfig = read_section("checkpoint", self.checkpoint_config)
            self.requirements: RequirementsSection = read_section("requirements", self.requirements_config)
            self.known_token: Token | None = token_of(self.market)
        self.outline()  # checks every range now, before any data is read
        if self.known_token is not None:
            _ = self._partial_prices

    def _mapped(self, section: MapSection | None) -> TrainingSection:
        """What the items of a map make of its section."""
        assert section is not None
        for name in ("training", "compression", "aggregation"):
            if getattr(self, _field(name)):
                raise BadField(f"{name}: a map has none, since nothing is learned; leave it out")
        return self.generation.training if self.generation else section.rounds_of(len(self.items))

    @cached_property
    def generation(self) -> Generation | None:
        """The prompts of a map that generates; None for other jobs. Raises JobError."""
        if self.map is None or self.map.new_tokens is None:
            return None
        with as_job_errors():
            return generation_of(self.map, self.data, self.arrays, self.model, self.directory)

    @cached_property
    def items(self) -> Array | list[str]:
        """The items of a map, in their order: the rows of an array, or lines of text. Raises JobError."""
        if self.generation is not None:
            return self.generation.items
        with as_job_errors():
            return lines_of(self.data, self.directory) if self.arrays is None else array_of_items(self.arrays)

    @property
    def examples_wanted(self) -> int:
        """Examples needed to see none twice."""
        return self.training.rounds * self.examples_per_round

    @property
    def examples_per_round(self) -> int:
        return self.training.slots * self.training.inner_steps * self.training.batch_size

    @property
    def context(self) -> int:
        """Tokens per example of text. Raises JobError."""
        tokens = self.model.check_context(self.data.context)
        if not tokens and self.model.program:
            tokens = self.traced.batch[INPUTS].shape[-1]
        if not tokens:
            raise JobError(
                "data.context: missing",
                hint="set the tokens per example of text (other data comes as arrays"
                + (", whose shapes are known after `zoo dataset fetch`)" if self.data.on_network is not None else ")"),
            )
        return tokens

    def bring(self, arrays: Examples) -> None:
        """Set the fetched and checked arrays of `data.dataset`. From then on they count like a file of these arrays."""
        self.fetched = arrays
        for derived in ("stored", "traced", "prices"):
            self.__dict__.pop(derived, None)

    @property
    def arrays(self) -> Examples | None:
        """The data if it is arrays; None for text. Raises JobError."""
        return None if self.stored is None or TEXT in self.stored else self.stored

    @property
    def text(self) -> bytes | list[Path]:
        """The data if it is text: the bytes, or files and folders. Raises JobError."""
        if self.stored is None:
            return self.data_paths()
        return self.stored[TEXT].tobytes()

    @cached_property
    def stored(self) -> Examples | None:
        """The data's arrays; None for text files, and for a dataset that is not fetched."""
        if self.data.on_network is not None:
            return self.fetched
        with as_job_errors():
            return stored_arrays(self.data, self.directory)

    @cached_property
    def traced(self) -> TracedStep:
        """The step's program and the initial weights. Runs the submitter's module, once. Raises JobError."""
        with as_job_errors():
            traced = self._traced()
            return replace(traced, graph=with_residuals(traced.graph)) if self.outline().keeps_residuals else traced

    def _traced(self) -> TracedStep:
        training = self.training
        if self.model.program:
            if training.is_scheduled:
                raise JobError("training.lr_scheduler_type: a program file has its own rates; give the module instead")
            return load_program(self.directory / Path(self.model.program).expanduser())
        model, seed, place = self.model, training.seed, self.directory
        if self.map is not None:
            like = rows_of([], self.context) if isinstance(self.items, list) else self.items
            return trace_items(
                model, like, training.batch_size, training.inner_steps,
                seed=seed, directory=place, generation=self.generation,
            )  # fmt: skip
        return trace_module(model, self._sample(), StepOptions.of(training), seed=seed, directory=place)

    @property
    def profile(self) -> Profile:
        """Costs of one inner step."""
        return self.traced.profile

    @property
    def flops(self) -> int:
        """FLOPs of one slot-round."""
        return self.profile.flops * self.training.inner_steps

    @property
    def token(self) -> Token:
        """The payment token. Raises JobError if its decimals are unknown without a chain."""
        if self.known_token is None:
            what = "dollars" if self.market.token == CREDITS else "decimals"
            raise JobError(
                f"market.token: the {what} of {self.market.token} are unknown without its chain",
                hint="give the network (--network FILE), or of a coin set market.decimals, such as 6",
            )
        return self.known_token

    def use_token(self, token: Token) -> None:
        """Set the token as read from the chain. Raises JobError if the file disagrees."""
        if self.market.decimals not in (None, token.decimals):
            raise JobError(
                f"market.decimals: {token.symbol} at {token.address} has {token.decimals}, not {self.market.decimals}"
            )
        self.known_token = token
        self.__dict__.pop("_partial_prices", None)
        self.__dict__.pop("prices", None)
        _ = self._partial_prices

    @cached_property
    def prices(self) -> Prices:
        """In the smallest unit of `token`. Traces the module if the file sets no reserve. Raises JobError."""
        with as_job_errors():
            return complete_prices(self._partial_prices, self.token, lambda: self.flops)

    @cached_property
    def _partial_prices(self) -> PartialPrices:
        with as_job_errors():
            return read_prices(self.market, self.budget_max, self.token, self.outline())

    @property
    def escrow(self) -> int:
        """The amount that posting takes. Traces nothing if the file or the budget sets the maximum prices."""
        training, partial = self.training, self._partial_prices
        prices = self.prices if None in (partial.max_price, partial.aggregator_max_price) else partial
        assert prices.max_price is not None
        assert prices.aggregator_max_price is not None
        aggregators = self.aggregation.aggregators
        return escrow_of(training.rounds, training.slots, prices.max_price, prices.aggregator_max_price, aggregators)

    @property
    def custody(self) -> CustodyTerms | None:
        """What the job offers custodians; None if it has none. Traces the module. Raises JobError."""
        manifest = self.outline()
        if not manifest.custodians:
            return None
        size = round_bytes(self.traced.graph, manifest)
        with as_job_errors():
            return custody_terms(manifest.custodians, self.market.custody_price, self.token, size, manifest.rounds)

    @property
    def most(self) -> int:
        """What posting takes at most: the escrow, and what custodians cost."""
        custody = self.custody
        return self.escrow + (custody.cost if custody else 0)

    def data_paths(self) -> list[Path]:
        """The files and directories of `data:`. Relative paths start at the configuration's directory."""
        if self.data.on_network is not None:
            raise JobError(
                f"data.dataset: {self.data.dataset!r} was not fetched", hint="`Client.bring(job)` fetches it"
            )
        paths = data_paths(self.data, self.directory)
        if not paths:
            raise JobError("data: missing; set `path`, `paths` or `dataset`")
        return paths

    def _sample(self) -> tuple[Array, Array]:
        """Inputs and targets of one step, with the right shapes and dtypes."""
        size = self.training.batch_size
        if self.arrays is None:
            first: Examples = {TOKENS: np.zeros((1, self.context + 1), np.int32)}
        else:
            with as_job_errors():
                first = examples_of(self.arrays)
        batch = batch_of(first, np.zeros(size, np.int64), self.training.accumulate)
        return batch[INPUTS], batch[TARGETS]

    def outline(self, step: Profile | None = None) -> Manifest:
        """The manifest before its files exist: real numbers, placeholder content addresses.

        step: profile of the traced module. Without it, clocks that `limits` does not set are the shortest, and a step has one FLOP.
        """
        cid, root = "b" + "a" * 58, "0" * 64
        program = ProgramFile(cid, root, step.flops if step else 1)
        data = DataFile(cid, root, examples=1, pieces=cid)
        heldout = None if self.map else HeldoutFile(cid)
        return self.manifest(program, StateFile(cid, root), data, heldout, step=step)

    def manifest(
        self,
        program: ProgramFile,
        state: StateFile,
        data: DataFile,
        heldout: HeldoutFile | None,
        parents: Parents | None = None,
        *,
        step: Profile | None,
    ) -> Manifest:
        """The job's manifest, after its files are stored. step: as for `outline`."""
        training, limits = self.training, self.limits
        sizes = training.inner_steps, training.slots, training.carry_rounds
        clocks = limits.clocks(clocks_of(step, *sizes) if step else SHORTEST_CLOCKS)
        aggregation = Aggregation() if self.map else self.aggregation.of(training.slots, self.compression)
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
            outer=OuterOptimizer(1.0, 0.0, NO_OUTER) if self.map else training.outer,
            aggregation=aggregation,
            compression=self.compression,
            carry=training.carry_rounds,
            delay=training.delay,
            **clocks._asdict(),
            redundancy=self.checkpoint.redundancy,
            depth=limits.depth,
            policy=limits.policy or default_policy(aggregation),
            audit_bps=limits.audit_bps,
            keep_every=self.checkpoint.every_rounds(training.inner_steps),
            parents=parents,
        )

    @classmethod
    def from_file(cls, path: str | Path) -> ComputeJob:
        """Read a YAML or JSON configuration. Raises JobError, naming the file, and the line of the key that is wrong."""
        file = read_file(Path(path))
        try:
            return cls.from_dict(file.content, directory=file.path.parent)
        except UserError as error:
            raise file.locate(error) from error

    @classmethod
    def from_dict(cls, sections: object, *, directory: Path | None = None) -> ComputeJob:
        """From the sections of a configuration file. Raises JobError."""
        with as_job_errors():
            said = check_sections(sections)
        arguments = {"data_config": {}} | {_field(name): said[name] for name in SECTIONS if said.get(name) is not None}
        return cls(**arguments, budget_max=said.get(BUDGET), directory=directory or Path())

    @property
    def sections(self) -> dict[str, Any]:
        """The sections of a file that describes this job."""
        said = {name: getattr(self, _field(name)) for name in SECTIONS} | {BUDGET: self.budget_max}
        return {name: section for name, section in said.items() if section is not None and section != {}}

    def _model(self, rule: Mapping[str, Any]) -> ModelSource:
        section: Mapping[str, Any] = self.model_config
        if not isinstance(section, Mapping) or not section.keys() & {"module", "program", "transformers"}:
            section = own_keys("model", section)
        return read_model(section, rule, self.directory, trains=self.map is None)


def _field(section: str) -> str:
    """The name of ComputeJob's argument for a section of a file."""
    return f"{section}_config"
