"""`make demo-render`: a network on this machine renders a picture, and convicts an operator that lies about one pixel.

    python -m scripts.demo_render [--scene FILE] [--json] [--folder DIR]

The picture is then compared, bit for bit, with one that this process computes alone. Progress goes to stderr, the report to stdout, all files
to the run's folder. Ctrl-C ends every process.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from keepers.processes.local_network import LocalNetwork, OperatorPlan
from scripts.demo import stage
from scripts.demo.report import peers_of
from scripts.demo.stage import Spectator, command_of, parser_of, say
from scripts.demo_render import pixel
from scripts.demo_render.pixel import Pixel
from tests.support.liars.commands import lying_worker
from zoo_compute.chain.views import JobState, JobView
from zoo_compute.errors import ZooError
from zoo_compute.rendering.layout import Layout
from zoo_compute.rendering.pictures import Picture
from zoo_compute.spec.params import ZEN
from zoo_compute.store import BlockStore

HERE = Path(__file__).resolve().parent
LAYOUT, SLOTS = Layout.of(512, 288, (12, 12), 16, 24), 2
# In the second round the liar turns one bit of the blue of one pixel, on the rim of the ring: from then on it is far too bright.
LIAR, LIE = "alpha", Pixel(LAYOUT, SLOTS, round=1, x=314, y=104, channel=2, bit=30)
PLANS = (
    OperatorPlan(LIAR, price="0.80", capacity=1, worker_command=lying_worker(**LIE.options)),
    OperatorPlan("beta", price="0.90", capacity=1),
    OperatorPlan("gamma", price="1.00", capacity=1),  # wins no slot, and takes over the liar's
    OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50"),
    OperatorPlan("epsilon", roles=("verifier",), sample_rate=1.0, ask_zen=100 * ZEN),
)
SUBMITTER = "submitter"
LONGEST_S = 600


class Demo:
    """One run, from an empty folder to its report."""

    def __init__(self, folder: Path, scene: Path) -> None:
        self.folder, self.scene = folder, scene
        self.network = LocalNetwork(folder, PLANS)
        self.own: Future[tuple[bytes, Picture]] | None = None

    def run(self) -> dict[str, Any]:
        began = time.monotonic()
        say(
            "starting the chain and five operators (three providers, an aggregator, a verifier); devnet preset, all on CPU"
        )
        with self.network, ThreadPoolExecutor(1) as own:
            view = self.render(own)
            return self.report(view, began)

    def render(self, own: ThreadPoolExecutor) -> JobView:
        """`zoo render`, from an account of its own, until it has written the picture. own: computes the same while claims become final."""
        self.network.devnet.account(SUBMITTER, zen=100 * ZEN)
        frames, size = f"{LAYOUT.first}:{LAYOUT.last}", f"{LAYOUT.width}x{LAYOUT.height}"
        samples = LAYOUT.passes * LAYOUT.pass_samples
        words = ["render", str(self.scene), "--frames", frames, "--size", size, "--samples", str(samples)]
        say(f"   zoo {' '.join(words)} --out {self.folder / 'frames'}")
        words += ["--out", str(self.folder / "frames"), "--job", str(HERE / "job.yaml"), "--json"]
        words += ["--slots", str(SLOTS), "--store", str(self.network.submitter_store)]
        home, log = self.folder / SUBMITTER / "home", self.folder / SUBMITTER / "log"
        command = command_of(self.network, words, SUBMITTER, home, log=log, output=log.with_name("render.json"))
        spectator, tasks = Spectator(self.network), self.network.devnet.chain.tasks
        deadline, view = time.monotonic() + LONGEST_S, None
        while command.poll() is None or view is None:
            if command.poll() or time.monotonic() > deadline:
                raise ZooError("zoo render failed, or took too long", hint=f"see {log}")
            self.network.poll()
            if tasks.job_count():
                view, _, _ = spectator.look(1)
            if view is not None and view.state == JobState.ENDED and self.own is None:
                say("   rendering the same picture in this process")
                store = BlockStore(self.folder / "reader", peers_of(self.network))
                self.own = own.submit(pixel.computed, view, store, LAYOUT)
            time.sleep(0.3)
        if command.returncode:
            raise ZooError("zoo render failed", hint=f"see {log}")
        return spectator.look(1)[0]

    def report(self, view: JobView, began: float) -> dict[str, Any]:
        picture = self.folder / "frames" / f"{LAYOUT.first:06d}.png"
        assert self.own is not None, "a job whose picture is final has ended"
        own, light = self.own.result()
        (self.folder / "own.png").write_bytes(own)
        proof = pixel.proof_of(self.network.devnet.chain, view, self.network.operators, LIE)
        if proof is not None:
            (self.folder / "lie.png").write_bytes(pixel.zoomed(light, LIE, proof))
        result: dict[str, Any] = {
            "job": view.job,
            "convicted": proof is not None and proof.operator == LIAR,
            "pictures_equal": picture.read_bytes() == own,
            "done_again": [each.round for each in view.rollbacks],
            "lie": None if proof is None else proof.to_dict(),
            "picture": str(picture),
            "own_picture": str(self.folder / "own.png"),
            "lie_picture": None if proof is None else str(self.folder / "lie.png"),
            "seconds": round(time.monotonic() - began, 1),
        }
        (self.folder / stage.REPORT).write_text(json.dumps(result, indent=2) + "\n")
        return result | {"text": pixel.as_text(result)}


def main() -> int:
    parser = parser_of("demo-render", (__doc__ or "").split("\n")[0])
    parser.add_argument("--scene", type=Path, default=HERE / "scene.py", help="a scene of your own")
    arguments = parser.parse_args()
    reports: list[dict[str, Any]] = []

    def play(folder: Path) -> dict[str, Any]:
        reports.append(Demo(folder, arguments.scene.resolve()).run())
        return reports[0]

    code = stage.run("demo-render", arguments, play)
    return code or int(not (reports[0]["convicted"] and reports[0]["pictures_equal"]))


if __name__ == "__main__":
    sys.exit(main())
