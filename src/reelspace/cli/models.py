"""`reelspace models`: list, show, check, compare, and look into their layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reelspace.cli.terminal import (
    JsonOption,
    LibraryOption,
    counted,
    fail,
    print_json,
    print_table,
    printable,
    say,
    table,
    tell,
)
from reelspace.errors import ExitCode, NoLibraryError

if TYPE_CHECKING:
    from reelspace.rank.layers import Probe

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


@models.command()
def parity(
    first: Annotated[str, typer.Argument(metavar="A", hidden=True)],
    second: Annotated[str, typer.Argument(metavar="B", hidden=True)],
    tolerance: Annotated[
        float, typer.Option(min=0.0, metavar="D", help="Greatest cosine distance that is no difference.")
    ] = 0.001,
    share: Annotated[
        bool, typer.Option("--share", help="If they agree, let B use the vectors the library has of A from now on.")
    ] = False,
    library: LibraryOption = None,
    json: JsonOption = False,
) -> None:
    """Compare two back ends of one model: do they give the same vectors?

    Both embed the same texts, pictures, clips and mixes, as queries and as candidates. A and B are models' names or
    addresses. The exit code is 1 when any item's two vectors are further apart than the tolerance.

    \b
    Examples
      reelspace models parity gve-3b http://127.0.0.1:8000/v1#gve-3b
      reelspace models parity lite http://127.0.0.1:8000/v1#lite --share
    """
    from reelspace.embed import load
    from reelspace.embed.parity import compare

    if share:
        from reelspace.library import Library

        with Library.open(library, create=False) as opened:
            found = opened.share(first, second, tolerance)
    else:
        found = compare(load(first), load(second))
    agree = found.holds(tolerance)
    worst = found.compared[0] if found.compared else None
    if json:
        print_json(
            {
                "first": first,
                "second": second,
                "agree": agree,
                "tolerance": tolerance,
                "distance": found.distance if worst else None,
                "items": len(found.compared),
                "worst": vars(worst) if worst else None,
                "neighbours": found.neighbours,
                "reasons": list(found.reasons),
                "shared": share and agree,
            }
        )
    else:
        for reason in found.reasons:
            typer.echo(printable(reason))
        if worst is not None:
            typer.echo(f"compared    {len(found.compared)}")
            typer.echo(f"distance    {found.distance:.2g} (at most {tolerance:g} is none)")
            typer.echo(printable(f"worst item  {worst.item}, as {worst.side}"))
        if found.neighbours is not None:
            typer.echo(f"neighbours  {found.neighbours:.0%} of the nearest three to a text are the same")
        say(f"{first} and {second} " + ("give one space." if agree else "do not give one space."))
        if share:
            say(f"{second} uses the vectors of {first} from now on." if agree else "Nothing is shared.")
    raise typer.Exit(ExitCode.OK if agree else ExitCode.SOME_FAILED)


@models.command("probe-layers")
def probe_layers(
    name: Annotated[str, typer.Argument(metavar="MODEL", hidden=True)],
    pairs: Annotated[
        Path, typer.Option(metavar="FILE", help="Labelled pairs: CSV with text,path[,start,end], or JSON Lines.")
    ],
    plot: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw the curve.")] = None,
    json: JsonOption = False,
) -> None:
    """Measure every layer of a model on labelled pairs, and say which to read.

    Models know most of what they see some layers before the last. For every layer, with the final norm and without it:
    R@1 both ways, alignment and uniformity, with 95 % intervals of a bootstrap over the pairs.

    \b
    Examples
      reelspace models probe-layers ./my-model --pairs pairs.csv --plot layers.svg
      reelspace models probe-layers gve-3b --pairs pairs.jsonl --json
    """
    from reelspace.embed import load
    from reelspace.media.reader import Reader
    from reelspace.rank.layers import plotted, probe, read_pairs

    labelled = read_pairs(pairs)
    model: Any = load(name)
    if not hasattr(model, "encode_layers"):
        raise fail(f"{name} has no layers to choose from: its vector is read in one place.")

    def progress(done: int, total: int) -> None:
        if done < total and done % 64 == 0:
            say(f"{done} of {counted(total, 'pair')}")

    with Reader() as reader:
        found, failed = probe(model, labelled, len(model.module.decoder.layers), reader, progress)
    if plot is not None:
        plot.write_text(plotted(found, f"{name}, {counted(found.pairs, 'pair')}"), "utf-8")
    if json:
        print_json(_probed(found, name, failed))
    else:
        _print_probe(found, name)
    for reason in failed:
        say(f"left out: {reason}", indent="  ")
    raise typer.Exit(ExitCode.SOME_FAILED if failed else ExitCode.OK)


def _probed(found: Probe, name: str, failed: list[str]) -> dict[str, Any]:
    from dataclasses import asdict

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return plain(value._asdict())
        return [plain(one) for one in value] if isinstance(value, list | tuple) else value

    made: dict[str, Any] = plain(asdict(found))
    return {"model": name, "failed": failed, **made}


def _print_probe(found: Probe, name: str) -> None:
    made = table(
        *("layer", "norm", "R@1", "95 %", "text → video", "video → text", "alignment", "uniformity"),
        right=("layer", "R@1", "text → video", "video → text", "alignment", "uniformity"),
    )
    for layer in found.layers:
        recall = layer.recall
        made.add_row(
            f"{layer.layer}{' *' if layer == found.picked else ''}",
            "yes" if layer.norm else "no",
            f"{recall.value:.3f}",
            f"{recall.low:.3f}–{recall.high:.3f}",
            f"{layer.text_to_video.value:.3f}",
            f"{layer.video_to_text.value:.3f}",
            f"{layer.alignment.value:.3f}",
            f"{layer.uniformity.value:.3f}",
        )
    print_table(made)
    picked, gain = found.picked, found.over_last
    norm = "with the final norm" if picked.norm else "without the final norm"
    tell(f"Read {name} after layer {picked.layer}, {norm}.")
    tell(f"That is {gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}) R@1 over the last layer.")
    tell(f"Chosen on one half and measured on the other: {found.held_out:.3f}.")
    if dual := found.dual:
        tell(
            f"Apart, with dual softmax (transductive; fitted on one half, {dual['pairs']:.0f} pairs of the other): "
            f"text → video {dual['text_to_video']:.3f} → {dual['text_to_video_dual']:.3f}, "
            f"video → text {dual['video_to_text']:.3f} → {dual['video_to_text_dual']:.3f}."
        )
