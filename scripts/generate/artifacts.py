"""Compile the contracts into `zoo_compute/chain/generated/artifacts` and generate their typed bindings.

python -m scripts.generate artifacts           write what changed
python -m scripts.generate artifacts --check    exit 1 when something committed is stale or a contract too large
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vyper.compiler.input_bundle import FilesystemInputBundle
from vyper.compiler.output import build_abi_output
from vyper.compiler.phases import CompilerData
from vyper.semantics.types import (
    AddressT,
    BoolT,
    BytesM_T,
    BytesT,
    DArrayT,
    IntegerT,
    SArrayT,
    StringT,
    StructT,
    TupleT,
)

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "contracts"
ARTIFACTS = ROOT / "zoo_compute" / "chain" / "generated" / "artifacts"
BINDINGS = ROOT / "zoo_compute" / "chain" / "generated" / "bindings"
# In the order of deployment.
CONTRACTS = (
    "ZenToken",
    "Timelock",
    "Treasury",
    "NodeRegistry",
    "TaskRegistry",
    "Rewards",
    "Datasets",
    "Auction",
    "Settlement",
    "Audits",
    "Availability",
    "Admissions",
    "OpExecutor",
    "ConsistencyProofs",
    "Evidence",
    "Referee",
)
WIDTH = 120
CODE_LIMIT = 24_576  # EIP-170, bytes of deployed code
TIMING_MARGIN = 1_024  # room that every contract keeps below it for the next change


@dataclass(frozen=True)
class Compiled:
    """A compiled contract: the input of its artifact and its binding."""

    name: str
    source: str
    data: CompilerData

    @property
    def deployed_bytes(self) -> int:
        """Bytes on chain: the runtime code and the immutables after it."""
        module = self.data.annotated_vyper_module._metadata["type"]
        return len(self.data.bytecode_runtime) + int(module.immutable_section_bytes)

    def artifact(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "abi": build_abi_output(self.data),
            "bytecode": "0x" + self.data.bytecode.hex(),
            "deployed_bytes": self.deployed_bytes,
            # Covers the contract and everything it imports.
            "source_sha256": self.data.integrity_sum,
        }


def compile_contract(name: str) -> Compiled:
    """Compile one contract of `contracts/` with the installed vyper."""
    bundle = FilesystemInputBundle([Path(sysconfig.get_paths()["purelib"]), SOURCES])
    source = bundle.load_file(SOURCES / f"{name}.vy")
    return Compiled(name, source.source_code, CompilerData(source, bundle))


# --- bindings


def module_of(name: str) -> str:
    """`NodeRegistry` -> `node_registry`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def struct_name(struct: StructT) -> str:
    """The Python name of a struct: its own, unless a binding uses that name otherwise."""
    name: str = struct.name
    return f"{name}Struct" if name in ("Binding", "Call") else name


def annotation(typ: Any, structs: dict[str, StructT]) -> str:
    """The Python type of a Vyper type; adds the structs it contains to `structs`."""
    if isinstance(typ, StructT):
        for member in typ.members.values():
            annotation(member, structs)
        structs[struct_name(typ)] = typ
        return struct_name(typ)
    if isinstance(typ, (DArrayT, SArrayT)):
        return f"Sequence[{annotation(typ.value_type, structs)}]"
    if isinstance(typ, TupleT):
        return f"tuple[{', '.join(annotation(member, structs) for member in typ.member_types)}]"
    if isinstance(typ, BoolT):
        return "bool"
    if isinstance(typ, (AddressT, StringT)):
        return "str"
    if isinstance(typ, (BytesM_T, BytesT)):
        return "bytes"
    if isinstance(typ, IntegerT):
        return "int"
    return "int"  # a flag


def comment_above(source: str, pattern: str) -> list[str]:
    """The comment lines right above the first line that matches `pattern`."""
    lines = source.splitlines()
    at = next((i for i, line in enumerate(lines) if re.match(pattern, line.strip())), 0)
    above: list[str] = []
    while at > 0 and lines[at - 1].strip().startswith("#"):
        at -= 1
        above.insert(0, lines[at].strip().lstrip("# "))
    return above


def getter_comment(function: Any) -> str:
    """The comment above the variable of a getter, in the contract or the module of ours that declares it."""
    module = function.decl_node.module_node
    if not Path(module.resolved_path).is_relative_to(SOURCES):
        return ""
    source = module.full_source_code
    return " ".join(comment_above(source, rf"{function.name}: public\("))


def parameter_names(function: Any) -> list[str]:
    """Names of the parameters; those of a mapping's getter come from the comment `key -> key -> what` above it."""
    names = [argument.name for argument in function.arguments]
    if names and names[0] == "arg0":
        keys = [key.strip() for key in getter_comment(function).split("->")][: len(names)]
        if len(keys) == len(names) and all(key.isidentifier() for key in keys):
            return keys
    return names


def docstring(function: Any) -> list[str]:
    """The lines of a function's NatSpec as a Python docstring; of a getter, the comment above the variable."""
    doc = getattr(function.decl_node, "doc_string", None)
    if doc is None:
        comment = getter_comment(function)
        return [f"{comment or f'The contract variable `{function.name}`'}".rstrip(".") + "."]
    text = re.sub(r"\s+", " ", doc.value.strip())
    fields = [field for field in re.split(r"\s*@(?=notice|dev|param|return)", text) if field]
    lines: list[str] = []
    for field in fields:
        tag, _, rest = field.partition(" ")
        if tag == "param":
            parameter, _, meaning = rest.partition(" ")
            lines.append(f"{parameter}: {meaning}")
        elif tag == "return":
            lines.append(f"Returns: {rest}")
        else:
            lines.append(rest if tag in ("notice", "dev") else field)
    return lines


def emit_docstring(lines: list[str], indent: str) -> Iterator[str]:
    wrapped = [textwrap.wrap(line, WIDTH - len(indent) - 6, break_on_hyphens=False) for line in lines]
    flat = [line for block in wrapped for line in block]
    if len(flat) == 1:
        yield f'{indent}"""{flat[0]}"""'
        return
    head = len(wrapped[0])
    yield f'{indent}"""{flat[0]}'
    yield from (f"{indent}{line}" for line in flat[1:head])
    if flat[head:]:
        yield ""
    yield from (f"{indent}{line}" for line in flat[head:])
    yield f'{indent}"""'


def emit_signature(head: str, parameters: list[str], result: str) -> Iterator[str]:
    one_line = f"    def {head}({', '.join(parameters)}) -> {result}:"
    if len(one_line) <= WIDTH:
        yield one_line
        return
    inner = f"        {', '.join(parameters)}"
    yield f"    def {head}("
    if len(inner) <= WIDTH:
        yield inner
    else:
        yield from (f"        {parameter}," for parameter in parameters)
    yield f"    ) -> {result}:"


def converted(typ: Any, expression: str, result: str) -> str:
    """An expression that converts a decoded value to its annotated type, nested structs included."""
    if not isinstance(typ, StructT):
        return expression
    inner = [
        f"{name}={converted(member, f'{expression}[{at}]', struct_name(member))}"
        for at, (name, member) in enumerate(typ.members.items())
        if isinstance(member, StructT)
    ]
    return f"{result}(*{expression})" + (f"._replace({', '.join(inner)})" if inner else "")


def emit_function(compiled: Compiled, function: Any, structs: dict[str, StructT]) -> Iterator[str]:
    names = parameter_names(function)
    parameters = ["self"]
    for name, argument in zip(names, function.arguments, strict=True):
        parameters.append(f"{name}: {annotation(argument.typ, structs)}")
    args = f"({', '.join(names)}{',' if len(names) == 1 else ''})"
    doc = list(emit_docstring(docstring(function), " " * 8))
    if function.mutability.value not in ("view", "pure"):
        yield from emit_signature(function.name, parameters, "Call")
        yield from doc
        yield from wrapped_call("return self._call", [f'"{function.name}"', args])
        return
    result = annotation(function.return_type, structs)
    parameters.append("block: BlockIdentifier | None = None")
    yield from emit_signature(function.name, parameters, result)
    yield from doc
    yield from wrapped_call(
        f"values: {'Any' if isinstance(function.return_type, StructT) else result} = self._view",
        [f'"{function.name}"', args, "block"],
    )
    yield f"        return {converted(function.return_type, 'values', result)}"


def wrapped_call(head: str, arguments: list[str]) -> Iterator[str]:
    line = f"        {head}({', '.join(arguments)})"
    if len(line) <= WIDTH:
        yield line
        return
    yield f"        {head}("
    yield f"            {', '.join(arguments)}"
    yield "        )"


def emit_struct(name: str, struct: StructT, compiled: Compiled) -> Iterator[str]:
    yield f"class {name}(NamedTuple):"
    yield f'    """Struct `{name}` of {compiled.name}."""'
    yield ""
    for member, typ in struct.members.items():
        shadows = "  # type: ignore[assignment]" if hasattr(tuple, member) else ""
        yield f"    {member}: {annotation(typ, {})}{shadows}"


def contract_notice(source: str) -> list[str]:
    doc = source.split('"""')[1]
    return docstring_fields(doc)


def docstring_fields(doc: str) -> list[str]:
    text = re.sub(r"\s+", " ", doc.strip())
    fields = [field for field in re.split(r"\s*@(?=title|license|notice|dev)", text) if field]
    return [field.partition(" ")[2] for field in fields if field.startswith("notice")]


def binding(compiled: Compiled) -> str:
    """The source of a contract's binding."""
    structs: dict[str, StructT] = {}
    methods: list[str] = []
    functions = compiled.data.annotated_vyper_module._metadata["type"].exposed_functions
    for function in functions:
        if function.name == "__default__":  # takes coin: a plain transfer, not a call
            continue
        methods += ["", *emit_function(compiled, function, structs)]
    body: list[str] = []
    for name, struct in structs.items():
        body += [*emit_struct(name, struct, compiled), "", ""]
    body.append(f"class {compiled.name}(Binding):")
    body += emit_docstring(contract_notice(compiled.source), "    ")
    body += ["", f'    NAME = "{compiled.name}"', *methods]
    text = "\n".join(body)
    return "\n".join([*emit_header(compiled.name, text), "", "", text, ""])


def emit_header(name: str, text: str) -> Iterator[str]:
    yield f'"""Binding of {name}. Generated by `make generate`: do not edit."""'
    yield ""
    yield "from __future__ import annotations"
    yield ""
    standard = []
    if "Sequence[" in text:
        standard.append("from collections.abc import Sequence")
    typing = [each for each in ("Any", "NamedTuple") if re.search(rf"\b{each}\b", text)]
    if typing:
        standard.append(f"from typing import {', '.join(typing)}")
    if standard:
        yield from standard
        yield ""
    if "BlockIdentifier" in text:
        yield "from web3.types import BlockIdentifier"
        yield ""
    names = "Binding, Call" if "-> Call" in text else "Binding"
    yield f"from zoo_compute.chain.call import {names}"


def index() -> str:
    """The source of `bindings/__init__.py`."""
    lines = ['"""Typed bindings of the contracts. Generated by `make generate`: do not edit."""', ""]
    lines += ["from zoo_compute.chain.artifacts import abi", ""]
    lines += [f"from .{module_of(name)} import {name}" for name in sorted(CONTRACTS, key=module_of)]
    lines += ["", "__all__ = ["]
    lines += [f'    "{name}",' for name in sorted([*CONTRACTS, "abi"])]
    lines += ["]", ""]
    return "\n".join(lines)


# --- files


def outputs(compiled: list[Compiled]) -> dict[Path, str]:
    """The text of every generated file, by path."""
    files = {BINDINGS / "__init__.py": index()}
    for each in compiled:
        artifact = json.dumps(each.artifact(), sort_keys=True, indent=1) + "\n"
        files[ARTIFACTS / f"{each.name}.json"] = artifact
        files[BINDINGS / f"{module_of(each.name)}.py"] = binding(each)
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when something is stale")
    check: bool = parser.parse_args().check
    compiled = [compile_contract(name) for name in CONTRACTS]
    sizes = {each.name: each.deployed_bytes for each in compiled}
    too_big = [f"{name} ({size:,})" for name, size in sizes.items() if size > CODE_LIMIT - TIMING_MARGIN]
    if too_big:
        print(f"larger than {CODE_LIMIT:,} - {TIMING_MARGIN:,} bytes: {', '.join(too_big)}", file=sys.stderr)
    files = outputs(compiled)
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if check:
        for path in stale:
            print(f"stale: {path.relative_to(ROOT)}", file=sys.stderr)
        if stale:
            print("run: python -m scripts.generate artifacts", file=sys.stderr)
        return int(bool(stale or too_big))
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path])
    for name, size in sizes.items():
        print(f"{name:14} {size:6,} bytes, {CODE_LIMIT - size:6,} left")
    print(f"{len(stale)} of {len(files)} files written")
    return int(bool(too_big))


if __name__ == "__main__":
    sys.exit(main())
