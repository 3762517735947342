"""Run files one after another as a notebook runs its cells, with `await` at the top level: `python notebook_cell.py FILE...`."""

import ast
import asyncio
import inspect
import sys
from pathlib import Path
from typing import Any

sys.path[0] = "."


async def run(paths: list[str]) -> None:
    shared: dict[str, Any] = {"__name__": "__main__"}
    for path in paths:
        cell = compile(Path(path).read_text(), path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(cell, shared)
        if inspect.iscoroutine(result):
            await result


asyncio.run(run(sys.argv[1:]))
