"""How few bytes does an update take, and how fast? The codec beside plain packings of the same tensors.

`codec_figures(state)` measures one update, for benchmarks/training/compression.py too. Alone, `benchmarks/training/codec.py [--json]` measures updates
of random tensors: 64 of each 4096 words at random places with one of two magnitudes a chunk, where nothing can be learnt, and
dense ones of int8 levels. Packings:

  ours       zoo_compute.codec, to bytes and back
  fixed      an index of 12 bits and a value of 2 for each word kept, and a chunk's magnitudes as bfloat16s (Templar's packing)
  zlib, lzma of the float32 words
  zlib, lzma of `fixed`
  entropy    what places, signs and levels take if all are as likely (no packing: a bound for who learns nothing)

Speeds are MB of float32 state a second of process time, the best of `repeats`.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import platform
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.lab.run_parameters import parameters_of
from repops.commitments import Array
from zoo_compute import codec

CHUNK = 4096


def codec_figures(state: Mapping[str, Array], *, repeats: int = 3) -> dict[str, Any]:
    """Bytes, ratio to float32, and MB/s of each packing of one update; of ours also whether it came back to the bit."""
    raw, shapes = sum(array.nbytes for array in state.values()), {name: array.shape for name, array in state.items()}
    data, encode_s = _timed(lambda: codec.encode(state), repeats)
    back, decode_s = _timed(lambda: codec.decode(data, shapes), repeats)
    words = b"".join(np.ascontiguousarray(array).tobytes() for array in state.values())
    fixed = fixed_packing(state)
    figures = {"ours": _row(raw, len(data), encode_s, decode_s)}
    for name, source in (("", words), (" of fixed", fixed)):
        figures["zlib" + name] = _peer(raw, source, lambda x: zlib.compress(x, 9), zlib.decompress, repeats)
        figures["lzma" + name] = _peer(raw, source, lambda x: lzma.compress(x, preset=6), lzma.decompress, 1)
    figures["fixed"] = {"bytes": len(fixed), "ratio": raw / len(fixed)}
    figures["entropy"] = {"bytes": entropy(state) / 8, "ratio": raw / max(entropy(state) / 8, 1)}
    exact = all(back[name].tobytes() == np.asarray(state[name]).tobytes() for name in state)
    return {"float32_bytes": raw, "exact": exact, "packings": figures}


def fixed_packing(state: Mapping[str, Array]) -> bytes:
    """Of each chunk: its magnitudes as bfloat16s, then 12 bits of index, one of sign and as many of level as it needs a word."""
    out = []
    for chunk in _chunks(state):
        places = np.flatnonzero(chunk)
        magnitudes, level = np.unique(chunk[places] & 0x7FFFFFFF, return_inverse=True)
        width = max(1, (len(magnitudes) - 1).bit_length())
        packed = places << width + 1 | (chunk[places] >> 31).astype(np.int64) << width | level
        bits = (packed[:, None] >> np.arange(12 + width, -1, -1) & 1).astype(np.uint8)
        out.append((magnitudes >> 16).astype("<u2").tobytes() + np.packbits(bits).tobytes())
    return b"".join(out)


def entropy(state: Mapping[str, Array]) -> float:
    """Bits of the places, signs and levels of every chunk where all are as likely, and 16 a magnitude."""
    total = 0.0
    for chunk in _chunks(state):
        kept = np.count_nonzero(chunk)
        magnitudes = len(np.unique(chunk[chunk != 0] & 0x7FFFFFFF))
        choices = math.lgamma(len(chunk) + 1) - math.lgamma(kept + 1) - math.lgamma(len(chunk) - kept + 1)
        total += choices / math.log(2) + kept * (1 + math.log2(max(magnitudes, 1))) + 16 * magnitudes
    return total


def _chunks(state: Mapping[str, Array]) -> list[Array]:
    flat = [np.ascontiguousarray(array).reshape(-1).view(np.uint32) for array in state.values()]
    return [part for words in flat for part in np.array_split(words, -(-words.size // CHUNK) or 1)]


def _peer(
    raw: int, plain: bytes, pack: Callable[[bytes], bytes], unpack: Callable[[bytes], bytes], repeats: int
) -> dict[str, float]:
    packed, pack_s = _timed(lambda: pack(plain), repeats)
    _, unpack_s = _timed(lambda: unpack(packed), repeats)
    return _row(raw, len(packed), pack_s, unpack_s)


def _row(raw: int, size: int, encode_s: float, decode_s: float) -> dict[str, float]:
    return {
        "bytes": size,
        "ratio": raw / size,
        "encode_mb_s": raw / encode_s / 1e6,
        "decode_mb_s": raw / decode_s / 1e6,
    }


def _timed(work: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """What it returns, and the shortest process time of so many runs."""
    result, best = work(), math.inf
    for _ in range(repeats):
        began = time.process_time()
        result = work()
        best = min(best, time.process_time() - began)
    return result, max(best, 1e-6)


def sparse_state(parameters: int, kept: int, seed: int) -> dict[str, Array]:
    """Tensors of 1,024 columns that keep so many words of a chunk, each one of two bfloat16s with a sign, at random."""
    draw = np.random.default_rng(seed)
    flat = np.zeros((max(parameters // CHUNK, 1), CHUNK), np.float32)
    for chunk in flat:
        places = draw.permutation(CHUNK)[:kept]
        magnitudes = np.sort(draw.uniform(1, 1.2, 2)) * 2.0 ** draw.integers(-8, -6)
        chunk[places] = magnitudes[draw.integers(0, 2, kept)] * draw.choice([-1, 1], kept)
    words = (flat.view(np.uint32) & 0xFFFF0000).view(np.float32).reshape(-1, 1024)
    return {f"tensor {at:03}": part for at, part in enumerate(np.array_split(words, max(len(words) // 1024, 1)))}


def int8_state(parameters: int, seed: int) -> dict[str, Array]:
    """As many words, each a level from -127 to 127 (normal, 35 wide) of a chunk's bfloat16."""
    draw = np.random.default_rng(seed)
    level = np.clip(np.rint(draw.normal(0, 35, (max(parameters // CHUNK, 1), CHUNK))), -127, 127)
    scale = draw.integers(128, 256, (len(level), 1)) * 2.0**-16
    return {"tensor": (level * scale + 0.0).astype(np.float32).reshape(-1, 1024)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Bytes and speed of an update's file")
    parser.add_argument("--parameters", type=int, default=4 * 2**20)
    parser.add_argument("--kept", type=int, default=64, help="words of each 4096 (default: 64)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    runs = []
    for seed in range(options.seeds):
        made = {
            "sparse": sparse_state(options.parameters, options.kept, seed),
            "int8": int8_state(options.parameters, seed),
        }
        runs.append({name: codec_figures(state, repeats=options.repeats) for name, state in made.items()})
    ours = [run["sparse"]["packings"]["ours"] for run in runs]
    result = {
        "compression_ratio": min(row["ratio"] for row in ours),
        "codec_mb_s": min(min(row["encode_mb_s"], row["decode_mb_s"]) for row in ours),
        "exact": all(run[name]["exact"] for run in runs for name in run),
        "parameters": parameters_of(options) | {"machine": platform.machine()},
        "runs": runs,
    }
    print(json.dumps(result) if options.json else table(result))
    return 0 if result["exact"] else 1


def table(result: Mapping[str, Any]) -> str:
    lines = [f"{'':<16}{'bytes':>12}{'ratio':>9}{'encode MB/s':>13}{'decode MB/s':>13}"]
    for name, figures in result["runs"][0].items():
        lines.append(f"{name}: {figures['float32_bytes']:,} bytes of float32, back to the bit: {figures['exact']}")
        for packing, row in figures["packings"].items():
            speeds = "".join(
                f"{row[key]:>13.0f}" if key in row else f"{'':>13}" for key in ("encode_mb_s", "decode_mb_s")
            )
            lines.append(f"  {packing:<14}{row['bytes']:>12,.0f}{row['ratio']:>9.1f}{speeds}")
    return "\n".join([*lines, json.dumps(result["parameters"])])


if __name__ == "__main__":
    sys.exit(main())
