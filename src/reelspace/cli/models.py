"""`reelspace models`: list, show, check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from reelspace.cli.terminal import JsonOption, LibraryOption, print_json, print_table, printable, say, table
from reelspace.errors import ExitCode, NoLibraryError

models = typer.Typer(rich_markup_mode=None, invoke_without_command=True)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(models, name="models")


@models.callback()
def overview(ctx: typer.Context, library: LibraryOption = None, json: JsonOption = False) -> None:
    """List models, and those the library has vectors of.

    \b
    Examples
      reelspace models
      reelspace models show lite
      reelspace models check lite
    """
    if ctx.invoked_subcommand is not None:
        return
    from reelspace.embed import names

    spaces = _spaces(library)
    known = dict.fromkeys([*names(), *(space["model"] for space in spaces)])
    held = {name: [space for space in spaces if space["model"] == name] for name in known}
    if json:
        print_json([{"model": name, "spaces": own} for name, own in held.items()])
        return
    made = table("model", "in the library")
    for name, own in held.items():
        made.add_row(name, "; ".join(map(_state, own)) or "-")
    print_table(made)


def _spaces(library: Any) -> list[dict[str, Any]]:
    from reelspace.library import Library

    try:
        with Library.open(library, create=False) as opened:
            return [space.model_dump(mode="json") for space in opened.models()]
    except NoLibraryError:
        return []  # models are there without a library


def _state(space: dict[str, Any]) -> str:
    state = "active" if space["active"] else "ready" if space["complete"] else "incomplete"
    return f"{state}, {space['windows']:,} windows ({space['fingerprint']})"


@models.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", hidden=True)], json: JsonOption = False) -> None:
    """What a model declares: its dimension, what it takes, how it samples frames, its fingerprint.

    Of a multimodal language model this includes the whole contract of its readout: prompts, the pooled token, the
    layer, pixel budgets. Nothing is downloaded for it but, of models without a pinned revision, a few kilobytes.

    \b
    Examples
      reelspace models show lite
      reelspace models show gve-3b@paper
    """
    from reelspace.embed import load
    from reelspace.embed.base import declared_form

    form: dict[str, Any] = dict(declared_form(load(name)))
    if json:
        print_json(form)
        return
    lines = {key: value for key, value in form.items() if key != "contract"}
    for key, value in _flat({**lines, **form.get("contract", {})}):
        typer.echo(printable(f"{key:12} {value}"))


def _flat(form: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Lines of key and value; a text's own line breaks are shown as `\\n`."""
    for key, value in form.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", text) for inner, text in _flat(value))
        elif isinstance(value, list | tuple):
            yield key, ", ".join(map(str, value))
        else:
            yield key, "-" if value is None or value == "" else str(value).replace("\n", "\\n")


@models.command()
def check(
    name: Annotated[str, typer.Argument(metavar="NAME", hidden=True)],
    measure: Annotated[bool, typer.Option("--measure", help="Also say what it costs, by kind of item.")] = False,
    json: JsonOption = False,
) -> None:
    """Load a model and look for promises it breaks: unit vectors, no dependence on the batch, failures named.

    Models that run on torch are also held to give different vectors for different inputs, the same on either padding
    side, and nearly the same in bfloat16 as in float32; with --measure their tokens, time and memory are told.

    The exit code is 1 when it breaks a promise.

    \b
    Examples
      reelspace models check lite
      reelspace models check gve-3b --measure
    """
    from reelspace.embed import load
    from reelspace.embed.checkup import costs, drifts, tolerance
    from reelspace.embed.conformance import violations

    embedder = load(name)
    found = violations(embedder, tolerance=tolerance(embedder))
    held = drifts(embedder)
    found += [drift.violation for drift in held if drift.violation]
    measured = costs(embedder) if measure else []
    if json:
        told: dict[str, Any] = {"drift": {drift.what: drift.by for drift in held}} if held else {}
        told |= {"costs": [vars(cost) for cost in measured]} if measure else {}
        print_json({"model": name, "violations": found, **told})
    else:
        for violation in found:
            typer.echo(printable(violation))
        for drift in held:
            typer.echo(f"{drift.what}: vectors differ by {drift.by:.2g}")
        for cost in measured:
            typer.echo(str(cost))
        say(f"{name} breaks its contract." if found else f"{name} keeps its contract.")
    raise typer.Exit(ExitCode.SOME_FAILED if found else ExitCode.OK)
