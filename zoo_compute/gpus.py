"""GPU names and the class each registers as (docs/protocol/numbers.md). Used both for an operator's `--gpu-type` and for the
name that a node reads from its own device."""

from __future__ import annotations

import difflib
import re

from zoo_compute.errors import UserError
from zoo_compute.spec.params import GPU_CLASSES, MAX_VRAM_GB, GpuClass

CLASSES = tuple(GPU_CLASSES.values())
CONSUMER, PROFESSIONAL, DATACENTER, APPLE = CLASSES
TIERS = {"none": 0, "bronze": 1, "silver": 2, "gold": 3}  # numbers of a declared machine and its SLA
PERIODS = 24  # of an epoch: hours, where an epoch is a day

# Words in product names that are not part of the model: makers, memory, bus, edition.
_NOISE_WORDS = re.compile(
    r"nvidia|amd|intel|geforce|radeon|instinct|tesla|apple|\d+(g|gb|gib)|hbm\d?e?|pcie|sxm\d?|nvl|oam|gpu|laptop|mobile"
    r"|generation|ada|blackwell|workstation|server|edition|max|q|sff|lp|mig"
)
# The rest of the name, without spaces. A datacenter card with less memory than the class requires is not listed as datacenter.
_FAMILIES: tuple[tuple[str, GpuClass], ...] = (
    (r"m[1-9](pro|max|ultra)?|silicon", APPLE),
    (
        r"(a100|a800|h20|h100|h200|h800|gh200|b100|b200|b300|gb200|gb300|l40s?)(pcie|sxm\d?|nvl)?|mi(210|250x?|300[xa]?|3[25]5x?|350x?)",
        DATACENTER,
    ),
    (
        r"(rtx)?a[2456][05]00|rtx[456][05]00|rtx[456]000pro|rtxpro\d{4}|quadro\w*|t4g?|l4|a10[gm]?|a16|a30|a40|v100\w*|p100|mi100"
        r"|(pro)?w[67][89]00",
        PROFESSIONAL,
    ),
    (r"(rtx|gtx)?(10|16|20|30|40|50)[5-9]0(ti|super|d)*|rx\d{4}(xtx?|gre)?|arc[ab]\d{3}|titan\w*", CONSUMER),
)
EXAMPLES = (
    "rtx3060", "rtx3090", "rtx4080", "rtx4090", "rtx5090", "rx7900xtx", "a4000", "a6000", "l4", "t4", "v100", "a100", "h100", "h200", "l40s",
    "mi300x", "m1", "m2", "m3", "m4", "m4max",
)  # fmt: skip


def class_of(gpu: str) -> GpuClass:
    """The class of a GPU's name, such as `rtx4090` or `NVIDIA A100-SXM4-80GB`. Raises UserError with the nearest known name."""
    words = re.sub(r"[^a-z0-9]+", " ", gpu.lower()).split()
    model = "".join(word for word in words if not _NOISE_WORDS.fullmatch(word))
    for plain in (model, *_shortened(model)):
        for pattern, family in _FAMILIES:
            if re.fullmatch(pattern, plain):
                return family
    near = difflib.get_close_matches(model, EXAMPLES, 1, cutoff=0.5)
    raise UserError(
        f"unknown GPU {gpu!r}",
        hint=(f"did you mean {near[0]!r}? " if near else f"known are for example {', '.join(EXAMPLES[:6])}; ")
        + "for any other card choose a class: --gpu-class consumer|professional|datacenter|apple",
    )


def _shortened(model: str) -> list[str]:
    """Names written in one word with their maker, `Ada` or memory: `geforcertx4090`, `rtx6000ada`, `a100sxm480gb`."""
    plain = re.sub(r"^(nvidia|amd|intel|geforce|radeon|instinct|tesla|apple(?=m\d))+", "", model)
    plain = re.sub(r"(ada|laptop|laptopgpu)$", "", plain)
    return [plain, re.sub(r"(16|24|32|40|48|64|80|94|96|141|192)gb$", "", plain)]


def fitting(gpu_class: GpuClass, vram_gb: int) -> GpuClass | None:
    """`gpu_class`, or the best lower class that this much memory allows; None if it is too small for all."""
    if gpu_class is APPLE:
        return APPLE if vram_gb >= APPLE.least_vram_gb else None
    below = [c for c in (DATACENTER, PROFESSIONAL, CONSUMER) if c.id <= gpu_class.id]
    return next((c for c in below if vram_gb >= c.least_vram_gb), None)


def class_named(name: str) -> GpuClass:
    """`consumer`, `professional`, `datacenter` or `apple`. Raises UserError."""
    for gpu_class in CLASSES:
        if name.lower() in (gpu_class.name, gpu_class.name.partition(" ")[0], str(gpu_class.id)):
            return gpu_class
    raise UserError(f"unknown class {name!r}", hint="classes are consumer, professional, datacenter, apple")


def parse_memory(text: str) -> int:
    """Whole gigabytes in `24GB`, `24`, `24GiB` or `16384MB`, rounded down. Raises UserError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(gb|gib|g|mb|mib|m|tb|tib)?\s*", text.lower())
    if not match:
        raise UserError(f"memory should be a size such as 24GB, not {text!r}")
    scale = {"m": 1 / 1024, "t": 1024}.get((match[2] or "g")[0], 1)
    gigabytes = int(float(match[1]) * scale)
    if not 1 <= gigabytes <= MAX_VRAM_GB:
        raise UserError(f"memory should be between 1 GB and {MAX_VRAM_GB} GB, not {text!r}")
    return gigabytes


def check_memory(gpu_class: GpuClass, vram_gb: int) -> None:
    """Raise UserError if the class needs more memory, before the contract reverts."""
    if vram_gb < gpu_class.least_vram_gb:
        fitting = [c.name for c in CLASSES if c.least_vram_gb <= vram_gb and c is not APPLE]
        raise UserError(
            f"a {gpu_class.name} node needs at least {gpu_class.least_vram_gb} GB of memory, not {vram_gb} GB",
            hint=f"with {vram_gb} GB it can register as {' or '.join(fitting)}"
            if fitting
            else "this GPU is too small for the network",
        )


def registered_card(gpu_type: str | None, gpu_class: str | None, memory: str) -> tuple[GpuClass, int]:
    """The class and the memory in GB of a card named by its model or by its class. Raises UserError."""
    if (gpu_type is None) == (gpu_class is None):
        raise UserError("give --gpu-type NAME, or --gpu-class CLASS for a card that is not listed")
    card_class = class_of(gpu_type) if gpu_type else class_named(gpu_class or "")
    vram_gb = parse_memory(memory)
    check_memory(card_class, vram_gb)
    return card_class, vram_gb


def parse_hours(text: str) -> list[int]:
    """The periods in text such as `8-17,22`, ascending, without duplicates. Empty text has none. Raises UserError."""
    hours: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        span = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", part)
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (1, 0)
        if not first <= last < PERIODS:
            raise UserError(f"--hours: {part!r} is not an hour or a range of hours", hint="write 0-23, or 8-17,22")
        hours |= set(range(first, last + 1))
    return sorted(hours)


def format_hours(hours: list[int]) -> str:
    """Periods as text, with ranges: `hours 8-17, 22`."""
    spans: list[list[int]] = []
    for hour in hours:
        if spans and spans[-1][1] == hour - 1:
            spans[-1][1] = hour
        else:
            spans.append([hour, hour])
    text = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return f"hours {text}" if text else "no hours"
