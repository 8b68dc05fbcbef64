"""The facts about tasks are the paper's (arXiv 2510.27571, Tables 4 and 5)."""

import pytest

from reelspace.errors import ReelspaceError
from reelspace.uvrb.tasks import ABILITIES, SUITES, leaves, select, suite

# task, dataset, queries, corpus, seconds, instruction, metric, query, ability
PUBLISHED = """
MSRVTT|MSR-VTT|1000|1000|15.0|Find the clip that corresponds to the described scene in the given video.|recall@1|text|CG
DiDeMo|DiDeMo|1004|1004|53.9|Find a video that includes the following described scenes.|recall@1|text|CG
CRB-G|CaReBench-General|1000|1000|14.4|Find the video according to the general text description.|recall@1|text|CG
CRB-S|CaReBench-Spatial|1000|1000|14.4|Find the video according to the spatial description.|recall@1|text|S
VDC-O|VDC-Object|1027|1027|30.1|Find the video according to the object description.|recall@1|text|S
CRB-T|CaReBench-Temporal|1000|1000|14.4|Find the video according to the temporal description.|recall@1|text|T
CMRB|CameraBench|728|1071|5.7|Find the video according to the camera motion description.|recall@10|text|T
DREAM-E|DREAM-1K-Event|6251|1000|8.8|Find the video according to the text description.|recall@1|text|PR
LoVR-TH|LoVR-Theme2Clip|8854|8854|16.9|Find the video according to text description about video theme information.|recall@10|text|PR
PEV-K|PE-Video-Keyword|14427|15000|16.9|Find the video according to the text description of a series of keywords.|recall@1|text|PR
LoVR-V|LoVR-Text2Video|100|467|1560.3|Find the long video according to the long text description.|recall@1|text|LC
VDC-D|VDC-Detail|1000|1027|30.1|Find the video according to the detailed text description.|recall@1|text|LC
MS-TI|MomentSeeker-Text-Image|400|10|13.5|Find the video clip that corresponds to the given text and the given image.|precision@1|text+image|CMP
MS-TV|MomentSeeker-Text-Video|400|10|13.5|Find the video clip that corresponds to the given text and the given video.|precision@1|text+video|CMP
MSRVTT-I2V|MSRVTT-ImageVideo|1000|1000|15.0|Find the video according to the image.|recall@1|image|VIS
LoVR-C2V|LoVR-Clip-to-Video|467|467|1560.3|Find the original long video according to the short video clip.|recall@1|video|VIS
"""  # noqa: E501


def test_every_fact_is_as_published():
    rows = [line.split("|") for line in PUBLISHED.strip().splitlines()]
    assert [row[0] for row in rows] == list(suite("uvrb"))
    for row in rows:
        task = suite("uvrb")[row[0]]
        query = "+".join(sorted(task.query.split("+")))
        assert [
            task.dataset,
            str(task.queries),
            str(task.corpus),
            str(task.seconds),
            task.instruction,
            task.metric,
            query,
            task.ability,
        ] == [*row[1:7], "+".join(sorted(row[7].split("+"))), row[8]]
        assert task.pooled == (row[3] == "10")


def test_the_worlds_have_the_same_names_instructions_and_metrics():
    for real, drawn in zip(suite("uvrb").values(), suite("worlds").values(), strict=True):
        assert (real.name, real.instruction, real.metric, real.query) == (
            drawn.name,
            drawn.instruction,
            drawn.metric,
            drawn.query,
        )


def test_no_task_is_without_an_instruction():
    assert all(task.instruction for tasks in SUITES.values() for task in tasks.values())
    names = [task.name for name in ("uvrb", "classification", "text-video") for task in suite(name).values()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("CRB-T,CMRB", ["CRB-T", "CMRB"]),
        ("T", ["CRB-T", "CMRB"]),
        ("FG", ["CRB-S", "VDC-O", "CRB-T", "CMRB", "DREAM-E", "LoVR-TH", "PEV-K"]),
        ("VIS, MSRVTT", ["MSRVTT", "MSRVTT-I2V", "LoVR-C2V"]),
        ("all", list(suite("uvrb"))),
        ("TXT,CMP,VIS", list(suite("uvrb"))),
    ],
)
def test_tasks_are_chosen_by_name_and_ability(wanted, found):
    assert [task.name for task in select("uvrb", wanted)] == found


@pytest.mark.parametrize("wanted", ["MSR-VTT", "msrvtt", "", ","])
def test_an_unknown_name_is_refused(wanted):
    with pytest.raises(ReelspaceError, match="MSRVTT"):
        select("uvrb", wanted)


def test_the_abilities_cover_the_suite():
    assert {leaf for ability in ABILITIES for leaf in leaves(ability)} == {t.ability for t in suite("uvrb").values()}
    assert leaves("TXT") == ("CG", "S", "T", "PR", "LC")
