"""`zoo job schema`: what editors need to complete and check a job's file."""

from __future__ import annotations

import json

import click

from zoo_compute.cli.context import Command


@click.command("schema", cls=Command)
def schema() -> None:
    """Print the JSON Schema of job files, for editors. It has every key with its range, default and meaning."""
    from zoo_compute.jobs.schema import job_schema

    click.echo(json.dumps(job_schema(), indent=2))


COMMANDS = (schema,)
