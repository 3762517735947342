"""`zoo render SCENE`: render a scene's frames on the network, and write them as they become final."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.cli.context import Settings, pass_settings
from zoo_compute.cli.map import fetch_rounds
from zoo_compute.cli.posting import posted, posting_options
from zoo_compute.cli.quote import show_quote
from zoo_compute.cli.sending import Sending

if TYPE_CHECKING:
    from zoo_compute.client.job import Job
    from zoo_compute.client.outputs import KeptRounds
    from zoo_compute.rendering.frames import FramesFolder

KEPT = "rounds"  # folder of rounds inside --out, until all frames are done


class Numbers(click.ParamType):
    """Two whole numbers, such as 1:48. alone: one number means both."""

    def __init__(self, name: str, between: str, *, alone: bool) -> None:
        self.name, self._between, self._alone = name, between, alone

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        numbers = str(value).split(self._between)
        if not all(re.fullmatch(r"[0-9]{1,9}", each) for each in numbers) or len(numbers) not in (
            (1, 2) if self._alone else (2,)
        ):
            self.fail(f"expected {self.name}, got {value!r}", param, ctx)
        return int(numbers[0]), int(numbers[-1])


@click.command(cls=Sending)
@click.argument("scene", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--frames",
    type=Numbers("FIRST:LAST", ":", alone=True),
    default="1",
    show_default=True,
    metavar="FIRST:LAST",
    help="Frames to render, such as 1:48, or one.",
)
@click.option(
    "--size",
    type=Numbers("WIDTHxHEIGHT", "x", alone=False),
    default="640x360",
    show_default=True,
    metavar="WIDTHxHEIGHT",
    help="Size of a frame in pixels; both are multiples of 8.",
)
@click.option("--samples", type=int, default=16, show_default=True, help="Samples of each pixel: more give less noise.")
@click.option(
    "--fps", type=int, default=24, show_default=True, help="Frames of a second: of the scene's time, and of the film."
)
@click.option(
    "--slots",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Parts of a round, which operators render at once.",
)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder to write the frames to."
)
@click.option(
    "--job",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Job file with other sections, such as market, limits or requirements.",
)
@click.option("--dry-run", is_flag=True, help="Print what it would cost at most, and post nothing.")
@posting_options
@pass_settings
def render(
    settings: Settings, /, scene: Path, frames: tuple[int, int], size: tuple[int, int], samples: int, fps: int, slots: int, out: Path,
    file: Path | None, dry_run: bool, **options: Any,
) -> None:  # fmt: skip
    """Render the frames of the scene in SCENE, a file of torch functions, and write them as PNG.

    A frame is there as soon as its first pass is final, grainy at first. With ffmpeg there is a film at the end. Ctrl-C leaves the job running.
    If interrupted, rerun the command: it goes on, and neither posts nor fetches twice.
    """
    from zoo_compute.jobs.loading import plan_job
    from zoo_compute.rendering.frames import FramesFolder
    from zoo_compute.rendering.layout import Layout
    from zoo_compute.rendering.path_tracer.scene import Scene
    from zoo_compute.rendering.plan import data_of, sections_of

    layout = Layout.of(*size, frames, samples, fps)
    Scene.load(scene)  # refused now, and not after a passphrase and minutes
    folder, data, sections = FramesFolder(out, scene, layout), data_of(layout), sections_of(scene, layout, slots)
    if dry_run:
        show_quote(settings, plan_job(file, options["max_budget"], data, **sections))
        return
    with posted(settings, file, data, resumes=True, **options, **sections) as made:
        if settings.prints():
            settings.emit(made.facts, str(made.job.id))
            return
        collect(settings, made.job, folder, made.facts)


def collect(settings: Settings, job: Job, folder: FramesFolder, facts: dict[str, Any]) -> None:
    """Fetch rounds as they become final, and draw their frames. Raises UserError if the job ends without them."""
    from zoo_compute.client.outputs import KeptRounds

    folder.begin()
    kept = KeptRounds(folder.path / KEPT, job.id)
    for round_ in range(kept.count()):
        draw(folder, kept, round_)
    rounds = fetch_rounds(settings, job, kept, lambda round_: draw(folder, kept, round_))
    kept.remove(rounds)
    film, frames = folder.film(), folder.layout.frames
    if film is None:
        settings.say("ffmpeg is not installed: the frames are there, and no film of them")
    written = f"{folder.file(frames[0])}" + (f" to {folder.file(frames[-1]).name}" if len(frames) > 1 else "")
    settings.emit(
        {**facts, "out": str(folder.path), "frames": len(frames), "film": None if film is None else str(film)},
        [f"{written}, verified against the chain", *([f"{film}"] if film else [])],
    )


def draw(folder: FramesFolder, kept: KeptRounds, round_: int) -> None:
    """Draw the frames that a round is about, from it and the rounds before it."""
    import numpy as np

    from repops.graph import OUTPUTS

    size = len(kept.read(0)[OUTPUTS])  # items of a round: the last one may have fewer
    for frame in folder.layout.frames_of(round_ * size, len(kept.read(round_)[OUTPUTS])):
        items = folder.layout.items_of(frame)
        first = items.start // size
        rows = np.concatenate([kept.read(each)[OUTPUTS] for each in range(first, round_ + 1)])
        folder.draw(frame, rows[items.start - first * size :][: len(items)])
