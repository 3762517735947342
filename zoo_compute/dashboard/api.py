"""The JSON API: every view a page shows, with a schema generated from the records of views.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zoo_compute.dashboard.read_network import LIMIT, MOST, STATES
from zoo_compute.dashboard.reading import Reader
from zoo_compute.dashboard.views import (
    DisputeDetail,
    DisputeList,
    JobDetail,
    JobList,
    NetworkView,
    OperatorDetail,
    OperatorList,
)

LARGEST = 2**53  # numbers that every reader of JSON keeps


@dataclass(frozen=True)
class Refused:
    """An answer with a status of 400 or more."""

    error: str
    hint: str = ""


ANSWERS: dict[str, type] = {
    "/api/network": NetworkView,
    "/api/jobs": JobList,
    "/api/jobs/{job}": JobDetail,
    "/api/operators": OperatorList,
    "/api/operators/{operator}": OperatorDetail,
    "/api/disputes": DisputeList,
    "/api/disputes/{name}": DisputeDetail,
}


def routes(reader: Reader) -> list[Route]:
    answers: dict[str, Callable[[Request], Any]] = {
        "/api/network": lambda request: reader.network(),
        "/api/jobs": lambda request: reader.jobs(*wanted_jobs(request)),
        "/api/jobs/{job}": lambda request: there(reader.job(number(request, "job")), "job"),
        "/api/operators": lambda request: reader.operators(wanted(request, "after", 0), limit(request)),
        "/api/operators/{operator}": lambda request: there(reader.operator(number(request, "operator")), "operator"),
        "/api/disputes": lambda request: reader.disputes(request.query_params.get("open") == "1", limit(request)),
        "/api/disputes/{name}": lambda request: there(reader.dispute(request.path_params["name"]), "dispute"),
    }
    made = [Route(path, _answering(path, answer), methods=["GET"]) for path, answer in answers.items()]
    return [*made, Route("/api/schema.json", lambda request: JSONResponse(schema()), methods=["GET"])]


def _answering(path: str, answer: Callable[[Request], Any]) -> Callable[[Request], Response]:
    adapter: TypeAdapter[Any] = TypeAdapter(ANSWERS[path])

    def endpoint(request: Request) -> Response:
        return Response(adapter.dump_json(answer(request)), media_type="application/json")

    return endpoint


@cache
def schema() -> dict[str, Any]:
    """JSON Schema 2020-12: `paths` says which definition each address answers with, `Refused` is every error."""
    types = [*ANSWERS.values(), Refused]
    _, made = TypeAdapter.json_schemas([(each, "serialization", TypeAdapter(each)) for each in types])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "zoo dashboard",
        "paths": {path: {"$ref": f"#/$defs/{type_.__name__}"} for path, type_ in ANSWERS.items()},
        "$defs": made["$defs"],
    }


def number(request: Request, name: str) -> int:
    """Of the path. Raises HTTPException."""
    return _number(request.path_params[name], name)


def wanted(request: Request, name: str, default: int) -> int:
    """Of the query. Raises HTTPException."""
    text = request.query_params.get(name)
    return _number(text, name) if text else default


def limit(request: Request) -> int:
    return max(1, min(MOST, wanted(request, "limit", LIMIT)))


def wanted_jobs(request: Request) -> tuple[str, int | None, int]:
    """(state, before, limit) of the query. Raises HTTPException."""
    state = request.query_params.get("state", "")
    if state and state not in STATES:
        raise HTTPException(400, f"a state is one of {', '.join(STATES)}, not {state[:40]!r}")
    before = wanted(request, "before", 0)
    return state, before or None, limit(request)


def there(view: Any, what: str) -> Any:
    if view is None:
        raise HTTPException(404, f"there is no such {what} up to the block that this page has read")
    return view


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        raise HTTPException(400, f"{what} should be a whole number, not {text[:40]!r}")
    return min(int(text), LARGEST)
