"""An operator's process with a fixed time per inner step and given routes to other machines.

    python -m benchmarks.network.fixed_step_process --step-s S --log FILE --routes FILE keeper|worker ...     the rest is that of `keepers.processes.run`

A worker's steps are real; it sleeps for the rest of each step's time, to imitate a GPU that this machine lacks. FILE gets
one JSON line per event. Routes map each announced gateway to the address at which this operator reaches it
(benchmarks/network/utilisation.py).
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.network.event_log import event_writer
from keepers.processes import run

Tell = Callable[..., None]


def worker_tasks(step_s: float, tell: Tell) -> dict[str, Any]:
    """The bodies of training and of the tasks before it, logged, with steps of that time."""
    from node import tasks
    from node.compute import programs
    from node.hardware import time_margin
    from node.inputs.job_files import fetch_manifest

    advance = programs.Programs.advance
    steps = {"began": 0.0, "inner_s": 0.0, "paced": 0.0}

    def paced(self: Any, batch: Any) -> Any:
        began = time.time()
        steps["began"] = steps["began"] or began
        result = advance(self, batch)
        steps["inner_s"] += time.time() - began
        time.sleep(max(0.0, began + steps["paced"] * step_s - time.time()))
        return result

    programs.Programs.advance = paced  # type: ignore[method-assign]

    def logged(name: str, body: Any) -> Any:
        @functools.wraps(body)
        def do(request: dict[str, Any], store: Any, **options: Any) -> Any:
            began = time.time()
            answer = body(request, store, **options)
            tell(name, round=request["round"], began=began, ended=time.time())
            return answer

        return do

    @functools.wraps(tasks.run_shard)
    def train(request: dict[str, Any], store: Any, progress: Callable[[int, float], None]) -> Any:
        began, last = time.time(), 0.0
        steps.update(began=0.0, inner_s=0.0, paced=1.0)

        def after(step: int, loss: float) -> None:
            nonlocal last
            last = time.time()
            progress(step, loss)

        answer = tasks.run_shard(request, store, progress=after)
        place = {"round": request["round"], "slot": request["slot"], "computed_s": steps["inner_s"]}
        tell("train", **place, began=began, first=steps["began"], last=last, ended=time.time(), update=answer["update"])
        return answer

    @functools.wraps(tasks.prepare)
    def prepare(request: dict[str, Any], store: Any) -> Any:
        """Not paced, since auctions do not wait for it."""
        steps["paced"] = 0.0
        answer, manifest = tasks.prepare(request, store), fetch_manifest(store, request["manifest"])
        return {**answer, "slot_s": answer["slot_s"] + time_margin() * step_s * manifest.inner_steps}

    return {
        "work.prepare": prepare,
        "work.train": train,
        "work.advance": logged("advance", tasks.run_precompute),
        "work.aggregate": logged("aggregate", tasks.run_aggregation),
        "work.fetch": logged("fetch", tasks.run_fetching),
    }


def shaped_keeper(path: Path) -> None:
    """Make this process's keeper reach others' gateways over its own links, once these exist."""
    from keepers import keeper
    from keepers.peer_directory import PeerDirectory
    from keepers.processes import keeper_process

    class ShapedPeers(PeerDirectory):
        ways: Mapping[int, str] = {}

        def use(self, urls: list[str], endpoints: Mapping[int, str]) -> None:
            routes = json.loads(path.read_text()) if path.exists() else {}
            self.ways = {operator: routes[url] for operator, url in endpoints.items() if url in routes}
            super().use([routes[url] for url in urls if url in routes], self.ways)

    class ShapedKeeper(keeper.Keeper):
        def tick(self) -> dict[str, Any]:
            if isinstance(self.peers, ShapedPeers) and not self.peers.ways and path.exists():
                self.peers.refresh()
            return super().tick()

    keeper.PeerDirectory = ShapedPeers  # type: ignore[attr-defined]
    keeper_process.Keeper = ShapedKeeper  # type: ignore[attr-defined]


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.network.fixed_step_process", allow_abbrev=False)
    parser.add_argument("--step-s", type=float, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--routes", type=Path, required=True)
    options, of_process = parser.parse_known_args()
    if of_process[0] == "keeper":
        shaped_keeper(options.routes)
        return run.main(of_process)
    return run.main(of_process, worker_tasks(options.step_s, event_writer(options.log)))


if __name__ == "__main__":
    sys.exit(main())
