"""The typed binding of a contract, as Python source: one method a function, one NamedTuple a struct."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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

from scripts.generate.compiled import CONTRACTS, SOURCES, Compiled

WIDTH = 120


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


def emit_struct(name: str, struct: StructT) -> Iterator[str]:
    yield f"class {name}(NamedTuple):"
    yield f'    """Struct `{name}`."""'
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


def structs_of(compiled: Compiled) -> dict[str, str]:
    """The source of each struct that a contract's functions take or return."""
    structs: dict[str, StructT] = {}
    methods_of(compiled, structs)
    return {name: "\n".join(emit_struct(name, struct)) for name, struct in structs.items()}


def shared_structs(compiled: list[Compiled]) -> dict[str, str]:
    """Structs that several contracts have alike."""
    sources = Counter((name, source) for each in compiled for name, source in structs_of(each).items())
    return {name: source for (name, source), contracts in sorted(sources.items()) if contracts > 1}


def shared_module(shared: dict[str, str]) -> str:
    """The source of `bindings/structs.py`."""
    head = ['"""Structs of several contracts. Generated by `make generate`: do not edit."""', ""]
    head += ["from __future__ import annotations", ""]
    text = "\n\n\n".join(shared.values())
    if "Sequence[" in text:
        head.append("from collections.abc import Sequence")
    return "\n".join([*head, "from typing import NamedTuple", "", "", text, ""])


def methods_of(compiled: Compiled, structs: dict[str, StructT]) -> list[str]:
    """The lines of a binding's methods; adds the structs they name to `structs`."""
    methods: list[str] = []
    functions = compiled.data.annotated_vyper_module._metadata["type"].exposed_functions
    for function in functions:
        if function.name == "__default__":  # takes coin: a plain transfer, not a call
            continue
        methods += ["", *emit_function(compiled, function, structs)]
    return methods


def binding(compiled: Compiled, shared: dict[str, str]) -> str:
    """The source of a contract's binding."""
    methods = methods_of(compiled, {})
    structs = structs_of(compiled)
    common = sorted(name for name, source in structs.items() if shared.get(name) == source)
    body: list[str] = []
    for name, source in structs.items():
        if name not in common:
            body += [source, "", ""]
    body.append(f"class {compiled.name}(Binding):")
    body += emit_docstring(contract_notice(compiled.source), "    ")
    body += ["", f'    NAME = "{compiled.name}"', *methods]
    text = "\n".join(body)
    return "\n".join([*emit_header(compiled.name, text, common), "", "", text, ""])


def emit_header(name: str, text: str, structs: Sequence[str]) -> Iterator[str]:
    """structs: imported from `structs.py`, and exported again."""
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
    if structs:
        yield ""
    yield from (f"from .structs import {name} as {name}" for name in structs)


def index() -> str:
    """The source of `bindings/__init__.py`."""
    lines = ['"""Typed bindings of the contracts. Generated by `make generate`: do not edit."""', ""]
    lines += ["from zoo_compute.chain.artifacts import abi", ""]
    lines += [f"from .{module_of(name)} import {name}" for name in sorted(CONTRACTS, key=module_of)]
    lines += ["", "__all__ = ["]
    lines += [f'    "{name}",' for name in sorted([*CONTRACTS, "abi"])]
    lines += ["]", ""]
    return "\n".join(lines)
