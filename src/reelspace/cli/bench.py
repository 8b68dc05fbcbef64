"""`reelspace bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reelspace.cli.terminal import (
    JsonOption,
    clock,
    counted,
    fail,
    print_json,
    print_table,
    say,
    shown_path,
    table,
)
from reelspace.errors import ExitCode

if TYPE_CHECKING:
    from reelspace.answers import Hit
    from reelspace.library import Library
    from reelspace.uvrb.footage import Bench, Question

_SHOWN = 5


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("bench")(bench)


def bench(
    library: Annotated[Path, typer.Argument(metavar="LIBRARY", show_default=False)],
    queries: Annotated[
        Path, typer.Option(metavar="FILE", help="CSV or JSON: query, path, start, end.", show_default=False)
    ],
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Measure this model, not the active one.", show_default=False)
    ] = None,
    k: Annotated[str, typer.Option("-k", metavar="LIST", help="The k of recall@k.")] = "1,5,10",
    label: Annotated[bool, typer.Option("--label", help="First ask which candidates answer, and record it.")] = False,
    json: JsonOption = False,
) -> None:
    """Measure a library on questions of your own.

    FILE says which file answers each query, and from when to when. A path `-` says that nothing does; no path, that
    nobody has looked yet: with --label you are shown candidates, and what you say is written into FILE. The exit code
    is 1 when a question could not be measured.

    \b
    Examples
      reelspace bench ~/library --queries queries.csv
      reelspace bench ~/library --queries queries.csv --label
      reelspace bench ~/library --queries queries.json --model lite -k 1,3 --json
    """
    from reelspace.library import Library
    from reelspace.uvrb.footage import bench as measure
    from reelspace.uvrb.footage import data, read

    depths = [int(word) for word in k.split(",") if word.strip().isdecimal() and int(word) > 0]
    if not depths or len(depths) != len(k.split(",")):
        raise fail(f"-k: “{k}” is no list of numbers; write 1,5,10.")
    questions = read(queries)
    with Library.open(library, create=False, model=model) as opened:
        if label:
            questions = _label(opened, library, queries, questions)
            if all(one.answers is None for one in questions):
                return
        result = measure(opened, questions, queries.parent, depths)
    if json:
        print_json(data(result))
    else:
        _show(result)
    raise typer.Exit(ExitCode.SOME_FAILED if result.failures else ExitCode.OK)


def _show(result: Bench) -> None:
    made = table("", "value", "95 %", "questions", right=("value", "questions"))
    for name, one in result.figures.items():
        digits = 1 if name == "mean rank" else 3
        spread = f"{one.interval.low:.{digits}f} to {one.interval.high:.{digits}f}"
        made.add_row(name, f"{one.value:.{digits}f}", spread, f"{one.n:,}")
    print_table(made)
    if result.unlabelled:
        say(f"{counted(result.unlabelled, 'question')} not labelled yet: --label.")
    for failure in result.failures[:_SHOWN]:
        say(f"{failure.question.said}: {failure.failed}")
    if len(result.failures) > _SHOWN:
        say(f"… and {len(result.failures) - _SHOWN:,} more could not be measured; --json lists all.")
    measured = counted(len(result.outcomes) - len(result.failures), "question")
    say(f"Measured {result.model or 'nothing'} on {measured}, {counted(result.videos, 'video')}.")


def _label(opened: Library, place: Path, file: Path, questions: list[Question]) -> list[Question]:
    """Asks about what nobody has looked at; every answer is written into the file at once."""
    from contextlib import ExitStack

    from reelspace.library import Library
    from reelspace.uvrb.footage import write
    from reelspace.uvrb.labelling import candidates, label

    waiting = sum(one.answers is None for one in questions)
    if not waiting:
        say("Every question has its answer already.")
        return questions
    with ExitStack() as stack:
        names = [space.model for space in opened.models() if space.complete and space.videos]
        models = [stack.enter_context(Library.open(place, create=False, model=name)) for name in dict.fromkeys(names)]
        say(f"{counted(waiting, 'question')} to label, with candidates of {', '.join(names)}. ? explains, q stops.")
        return label(
            questions,
            lambda question, many: candidates(models, question.item(file.parent), many),
            _ask,
            say,
            _play,
            lambda now: write(file, now),
        )


def _play(hit: Hit) -> None:
    """Opens a candidate; that there is no player has been said then, and ends nothing."""
    from contextlib import suppress

    from reelspace.cli.play import play

    with suppress(typer.Exit):
        play(hit)


def _ask(question: Question, hits: list[Hit]) -> str:
    """Shows candidates on stderr and reads a line; the end of the input says to stop."""
    say(f"\n{question.said}")
    for number, hit in enumerate(hits, start=1):
        say(f"  {number:>2}  {clock(hit.start)}-{clock(hit.end)}  {shown_path(hit.path)}", indent="      ")
    if not hits:
        say("  nothing is found")
    try:
        return str(typer.prompt("answers", default="", show_default=False, err=True))
    except typer.Abort:
        return "q"
