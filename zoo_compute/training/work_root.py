"""A job's work, as the referee checks it: its programs and the shape of a slot-round (docs/protocol/referee.md).

`Terms.work_root` commits to it. It follows from the manifest and the program file alone.
"""

from __future__ import annotations

from repops import encoding
from repops.graph import BadProgram, Graph
from zoo_compute.formats.manifest import JobError, Manifest
from zoo_compute.spec.frames import Work
from zoo_compute.training.rounds import aggregation_programs, update_program


def work_of(manifest: Manifest, step: Graph) -> Work:
    """The work of a job. step: its program. Raises JobError if its updates cannot be aggregated by a program."""
    try:
        aggregations = aggregation_programs(step, manifest.aggregation_spec)
    except BadProgram as error:
        raise JobError(
            f"{len(step.exchanged):,} tensors of {manifest.slots} slots cannot be aggregated: {error}",
            hint="use fewer slots, another `aggregation.part_size`, or a module with smaller tensors",
        ) from error
    return Work(
        programs=(
            manifest.program_root,
            encoding.root(update_program(step, manifest.compression)),
            *map(encoding.root, aggregations),
        ),
        inner_steps=manifest.inner_steps,
        segment_steps=manifest.segment_steps,
        rows=manifest.batch_size,
        carry=manifest.carry,
    )
