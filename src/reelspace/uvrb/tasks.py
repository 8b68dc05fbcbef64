"""What a task of a suite is: name, ability, instruction, metric. Facts only: no data and no model is touched here.

`uvrb` is UVRB's 16 tasks (arXiv 2510.27571, Tables 4 and 5), `worlds` the same 16 in miniature, drawn by
`reelspace.worlds`. `classification` asks for the name of what a video shows (A.13), `text-video` for a video by its
text and for a text by its video (arXiv 2602.08099).

A task carries its own instruction. There is no table to look it up in, and so none to miss it in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from reelspace.errors import ReelspaceError

SuiteName = Literal["uvrb", "worlds", "classification", "text-video"]


@dataclass(frozen=True)
class TaskFacts:
    """A task without its data.

    Attributes:
        name: as in the paper's tables, and in the names of files.
        dataset: what it is made from.
        ability: a leaf of the hierarchy: CG, S, T, PR, LC, CMP, VIS; empty for a task outside UVRB.
        query, candidate: `Item.modality` of what asks and of what answers.
        metric: `recall@1`, `recall@10` or `precision@1`.
        instruction: goes with every query, exactly as published.
        queries, corpus: how many there are; of the corpus of a pooled task, how many each query is asked among. 0 where
            it is up to the data.
        pooled: every query has candidates of its own.
        seconds: mean length of a candidate; what the task costs.
    """

    name: str
    dataset: str
    ability: str
    query: str
    metric: str
    instruction: str
    queries: int = 0
    corpus: int = 0
    pooled: bool = False
    seconds: float = 0.0
    candidate: str = "video"

    @property
    def depth(self) -> int:
        """The k of the metric."""
        return int(self.metric.partition("@")[2])

    @property
    def measure(self) -> str:
        """The metric without its depth: `recall` or `precision`."""
        return self.metric.partition("@")[0]


_UVRB = """
MSRVTT | MSR-VTT | CG | text | recall@1 | 1000 | 1000 | 15.0 | Find the clip that corresponds to the described scene in the given video.
DiDeMo | DiDeMo | CG | text | recall@1 | 1004 | 1004 | 53.9 | Find a video that includes the following described scenes.
CRB-G | CaReBench-General | CG | text | recall@1 | 1000 | 1000 | 14.4 | Find the video according to the general text description.
CRB-S | CaReBench-Spatial | S | text | recall@1 | 1000 | 1000 | 14.4 | Find the video according to the spatial description.
VDC-O | VDC-Object | S | text | recall@1 | 1027 | 1027 | 30.1 | Find the video according to the object description.
CRB-T | CaReBench-Temporal | T | text | recall@1 | 1000 | 1000 | 14.4 | Find the video according to the temporal description.
CMRB | CameraBench | T | text | recall@10 | 728 | 1071 | 5.7 | Find the video according to the camera motion description.
DREAM-E | DREAM-1K-Event | PR | text | recall@1 | 6251 | 1000 | 8.8 | Find the video according to the text description.
LoVR-TH | LoVR-Theme2Clip | PR | text | recall@10 | 8854 | 8854 | 16.9 | Find the video according to text description about video theme information.
PEV-K | PE-Video-Keyword | PR | text | recall@1 | 14427 | 15000 | 16.9 | Find the video according to the text description of a series of keywords.
LoVR-V | LoVR-Text2Video | LC | text | recall@1 | 100 | 467 | 1560.3 | Find the long video according to the long text description.
VDC-D | VDC-Detail | LC | text | recall@1 | 1000 | 1027 | 30.1 | Find the video according to the detailed text description.
MS-TI | MomentSeeker-Text-Image | CMP | image+text | precision@1 | 400 | 10 | 13.5 | Find the video clip that corresponds to the given text and the given image.
MS-TV | MomentSeeker-Text-Video | CMP | video+text | precision@1 | 400 | 10 | 13.5 | Find the video clip that corresponds to the given text and the given video.
MSRVTT-I2V | MSRVTT-ImageVideo | VIS | image | recall@1 | 1000 | 1000 | 15.0 | Find the video according to the image.
LoVR-C2V | LoVR-Clip-to-Video | VIS | video | recall@1 | 467 | 467 | 1560.3 | Find the original long video according to the short video clip.
"""  # noqa: E501


def _row(line: str) -> TaskFacts:
    name, dataset, ability, query, metric, queries, corpus, seconds, instruction = line.split(" | ")
    pooled = ability == "CMP"  # the paper's “corpus 10”
    return TaskFacts(
        name, dataset, ability, query, metric, instruction, int(queries), int(corpus), pooled, float(seconds)
    )


# The paper names no instructions for these; it follows MMEB-V2 (arXiv 2507.04590), whose they are.
_CLASSIFICATION = tuple(
    TaskFacts(name, dataset, "", "video", "recall@1", instruction, candidate="text")
    for name, dataset, instruction in (
        ("K700", "Kinetics-700", "Recognize the category of the video content."),
        ("UCF101", "UCF101", "What activities or sports are being performed by the person in the video?"),
        ("HMDB51", "HMDB51", "What actions or objects interactions are the person in the video doing?"),
        (
            "SSV2",
            "Something-Something V2",
            "What actions or object interactions are being performed by the person in the video?",
        ),
        ("Breakfast", "Breakfast", "Recognize the breakfast type that the person is cooking in the video."),
    )
)

# From text to video: MMEB-V2's; from video to text: the counterpart, ours.
_DESCRIBED = "Find the text that describes the given video."
_TEXT_VIDEO = tuple(
    TaskFacts(f"{dataset}-{way}", dataset, "", query, "recall@1", instruction, candidate=candidate)
    for dataset, asked in (
        ("MSR-VTT", "Find a video that contains the following visual content."),
        ("MSVD", "Find the video snippet that corresponds to the given summary."),
        ("VATEX", "Select a video that fits the description provided."),
        ("DiDeMo", "Find a video that includes the following described scenes."),
    )
    for way, query, candidate, instruction in (
        ("T2V", "text", "video", asked),
        ("V2T", "video", "text", _DESCRIBED),
    )
)

_TASKS = tuple(map(_row, _UVRB.strip().splitlines()))
SUITES: dict[str, dict[str, TaskFacts]] = {
    suite: {task.name: task for task in tasks}
    for suite, tasks in {
        "uvrb": _TASKS,
        # The worlds have their own sizes, and ask about the order of acts among the orders of the same acts only.
        "worlds": tuple(
            replace(task, queries=0, corpus=0, seconds=0.0, pooled=task.pooled or task.ability == "T")
            for task in _TASKS
        ),
        "classification": _CLASSIFICATION,
        "text-video": _TEXT_VIDEO,
    }.items()
}
"""Suite → task name → task, in the order of the papers' tables."""

HIERARCHY: dict[str, tuple[str, ...]] = {"TXT": ("CG", "FG", "LC"), "FG": ("S", "T", "PR")}
"""Abilities made of others: each is the mean of its parts. The other seven are means of their tasks."""

ABILITIES = ("TXT", "CMP", "VIS", "CG", "FG", "LC", "S", "T", "PR")
"""All nine, in the order of the paper's Table 2."""


def leaves(ability: str) -> tuple[str, ...]:
    """The leaves below an ability, itself if it is one."""
    return tuple(leaf for part in HIERARCHY.get(ability, ()) for leaf in leaves(part)) or (ability,)


def suite(name: str) -> dict[str, TaskFacts]:
    """The tasks of a suite.

    Raises:
        ReelspaceError: there is no such suite.
    """
    if name not in SUITES:
        raise ReelspaceError(f"There is no suite “{name}”; the suites are {', '.join(SUITES)}.")
    return SUITES[name]


def select(suite_name: str, wanted: str = "all") -> list[TaskFacts]:
    """Tasks by names and abilities, in the order of the tables: `all`, `CRB-T,CMRB`, `FG`, `T,MSRVTT`.

    Raises:
        ReelspaceError: the suite has no such task or ability.
    """
    tasks = suite(suite_name)
    chosen: set[str] = set()
    for word in filter(None, (part.strip() for part in wanted.split(","))):
        found = {task.name for task in tasks.values() if word in ("all", task.name) or task.ability in leaves(word)}
        if not found:
            known = [*tasks, *(ability for ability in ABILITIES if any(task.ability for task in tasks.values()))]
            raise ReelspaceError(f"{suite_name} has no task or ability “{word}”; it has {', '.join(known)}.")
        chosen |= found
    if not chosen:
        raise ReelspaceError(f"Which tasks? Write all, or names or abilities with commas: {', '.join(tasks)}.")
    return [task for task in tasks.values() if task.name in chosen]
