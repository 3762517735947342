"""Values that `zoo node register` needs and no option sets: from the machine, from a person, or by default."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import click

from zoo_compute import gpus
from zoo_compute import paths as places
from zoo_compute.amounts import format_amount
from zoo_compute.cli.context import Settings, read_passphrase
from zoo_compute.errors import ConfigError, UserError
from zoo_compute.operators.machine import Card, cpu_substitute, detect_cards, registration_class
from zoo_compute.spec.params import GpuClass

FIRST_ACCOUNT = "default"


@dataclass(frozen=True)
class Machine:
    """The card to register. device: of its workers, if there are several cards."""

    gpu: GpuClass
    vram_gb: int
    device: str = ""


class Choices:
    """The options. A missing one is asked for in a terminal, else its default applies."""

    def __init__(self, options: Mapping[str, str], settings: Settings, *, yes: bool) -> None:
        self.options = options
        self.yes = yes
        self.is_interactive = sys.stdin.isatty() and not yes and not settings.as_json

    def text(self, option: str, question: str, default: str, check: Callable[[str], object] = str) -> str:
        """The option, the answer, or the default. If `check` refuses an answer, ask again; if it refuses an option, raise."""
        if option in self.options:
            check(self.options[option])
            return self.options[option]
        while self.is_interactive:
            answer = str(click.prompt(question, default=default, show_default=bool(default), err=True)).strip()
            try:
                check(answer)
                return answer
            except UserError as error:
                click.echo(f"{error}" + (f" ({error.hint})" if error.hint else ""), err=True)
        return default

    def confirm(self, question: str, *, default: bool = True) -> bool:
        return bool(click.confirm(question, default=default, err=True)) if self.is_interactive else default


# -- before anything: network file and account


def check_ready(settings: Settings, choices: Choices) -> None:
    """Require a network file and an account; in a terminal, offer to create one. Raises ConfigError with the commands to run first."""
    wanting: dict[str, ConfigError] = {}
    try:
        settings.network()
    except ConfigError as error:
        wanting[
            "put the network's file at ~/.zoo/network.json (`zoo devnet` in another terminal starts one to try)"
        ] = error
    try:
        if not settings.keyless() and (wanting or not settings.hosted()):
            settings.keystore()
    except ConfigError as error:
        if (
            not wanting
            and not places.accounts()
            and choices.confirm("You have no account yet. Create one now?", default=choices.is_interactive)
        ):
            _create_account(settings)
            return
        wanting["`zoo account create`" if not places.accounts() else error.hint] = error
    if wanting:
        hint = f"first {', then '.join(wanting)}; then run this again"
        raise ConfigError("; ".join(map(str, wanting.values())), hint=hint)


def _create_account(settings: Settings) -> None:
    from zoo_compute.chain import keystore

    path = places.new_keystore(FIRST_ACCOUNT)
    address = keystore.create(path, read_passphrase(f"the new account {FIRST_ACCOUNT}", confirm=True))
    settings.say(f"{address}: key file {path}; keep a copy of it and of the passphrase: nobody can restore either")


# -- the machine


def machine_from_options(choices: Choices) -> Machine | None:
    """The card that the options name; None if it is to be detected. Raises UserError."""
    options = choices.options
    if "gpu_type" in options and "gpu_class" in options:
        raise click.UsageError("give --gpu-type NAME, or --gpu-class CLASS for a card that is not listed, not both")
    if not options.keys() & {"gpu_type", "gpu_class"}:
        if "memory" in options:
            gpus.parse_memory(options["memory"])
        return None
    gpu_class: GpuClass = (
        gpus.class_of(options["gpu_type"]) if "gpu_type" in options else gpus.class_named(options["gpu_class"])
    )
    if "memory" not in options:
        memory = _memory_of(gpu_class)
        gpus.check_memory(gpu_class, memory)
        return Machine(gpu_class, memory)
    return Machine(*gpus.registered_card(options.get("gpu_type"), options.get("gpu_class"), options["memory"]))


def _memory_of(gpu_class: GpuClass) -> int:
    """Memory of the only card of this machine. Raises UserError."""
    memories = {card.memory_gb for card in detect_cards()}
    if len(memories) != 1:
        raise UserError(
            f"cannot tell how much memory your {gpu_class.name} card has", hint="give --memory, such as 24GB"
        )
    return memories.pop()


def detected_machine(settings: Settings, choices: Choices) -> Machine:
    """This machine's card, confirmed in a terminal. Raises UserError if no class accepts it."""
    here = detect_cards()
    fitting = [(card, classes) for card in here if (classes := registration_class(card)) is not None]
    if not fitting:
        return _without_gpu(settings, choices, here)
    card, (gpu_class, vram_gb) = fitting[_which(choices, [card for card, _ in fitting])]
    settings.say(f"card: {card}")
    if len(fitting) > 1:
        settings.say(
            f"this node uses {card.device}; one folder serves one card (docs/guides/operating.md, Several cards)"
        )
    if not card.has_kernels:
        maker = {"amd": "AMD", "apple": "Apple"}[card.maker]
        settings.say(f"this release has no kernels for {maker} GPUs: programs run on this machine's CPU, much slower")
    if settings.network().preset != "devnet" and not choices.is_interactive and not choices.yes:
        raise UserError(
            f"no terminal to confirm that you stake {format_amount(settings.network().params.min_stake)} for {card}",
            hint="confirm with --yes, or name the card: --gpu-type NAME --memory SIZE (and --deposit ZEN)",
        )
    name = choices.text(
        "gpu_class",
        "class (consumer, professional, datacenter, apple)",
        gpu_class.name.partition(" ")[0],
        gpus.class_named,
    )
    memory = choices.text("memory", "memory of the card in GB", str(vram_gb), gpus.parse_memory)
    chosen, size = gpus.class_named(name), gpus.parse_memory(memory)
    gpus.check_memory(chosen, size)
    return Machine(chosen, size, card.device if len(here) > 1 else "")


def _which(choices: Choices, here: list[Card]) -> int:
    if len(here) == 1 or not choices.is_interactive:
        return 0
    for number, card in enumerate(here):
        click.echo(f"  {number}: {card}", err=True)
    return int(click.prompt("which card", default=0, type=click.IntRange(0, len(here) - 1), err=True))


def _without_gpu(settings: Settings, choices: Choices, here: list[Card]) -> Machine:
    message = f"no class accepts {', '.join(map(str, here))}" if here else "this machine has no GPU that a driver lists"
    if settings.network().preset != "devnet":
        raise UserError(
            f"{message}; on this network an operator needs one with 8 GB or more",
            hint="without one you can train (`zoo train`), check others' work (`zoo verify JOB`), or try a node on a devnet "
            "(`zoo devnet`); if your card was not detected, name it: --gpu-type NAME --memory SIZE",
        )
    settings.say(f"{message}: using the CPU, which a devnet allows")
    gpu_class, size = cpu_substitute()
    return Machine(gpu_class, gpus.parse_memory(choices.options.get("memory", str(size))))
