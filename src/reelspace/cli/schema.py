"""`reelspace schema`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from reelspace.cli.terminal import print_json


class Report(StrEnum):
    """The reports that commands print with --json."""

    SEARCH = "search"
    STATUS = "status"
    INDEX = "index"
    MERGE = "merge"
    VERIFY = "verify"
    PUSH = "push"
    CHECK = "check"
    TRANSCRIPT = "transcript"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("schema")(schema)


def schema(report: Annotated[Report, typer.Argument()]) -> None:
    """Print the JSON Schema of a report.

    It describes what the command of that name prints with --json.

    \b
    Example
      reelspace schema search > search.schema.json
    """
    from pydantic import BaseModel

    from reelspace import answers

    reports: dict[Report, type[BaseModel]] = {
        Report.SEARCH: answers.SearchReport,
        Report.STATUS: answers.StatusReport,
        Report.INDEX: answers.IndexReport,
        Report.MERGE: answers.MergeReport,
        Report.VERIFY: answers.VerifyReport,
        Report.PUSH: answers.PushReport,
        Report.CHECK: answers.CheckReport,
        Report.TRANSCRIPT: answers.TranscriptReport,
    }
    print_json(reports[report].model_json_schema())
