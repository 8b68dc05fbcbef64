"""Signals over damaged and hostile files: nothing hangs, and a file that one signal fails for keeps the rest."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import reelspace
from hostile import Bait, Case, Sources, corpus, write
from reelspace.index.catalogue import Catalogue
from speech import RATE, at_times, speak
from talks import slide, write_talk

SAID = "The harbour is closed because of the storm."

# Two runs: the second must find nothing to do.
RUN = """
import sys
from reelspace import Library
from reelspace.media.reader import Reader

where, folder = sys.argv[1:]
with Library.open(where, model="sketch") as library:
    library._reader_made = Reader(patience=20)
    first = library.index(folder, include="*", hidden=True, signals="speech,ocr,names")
    second = library.index()
    asked = {"said": '"closed because of the storm"', "written": '"high water"', "named": '"whole"'}
    told = [library.search(question, k=1000, by=by) for by, question in asked.items()]
    for report in (first, second, library.status(), *told):
        print(report.model_dump_json())
"""


def talk(path, codec, subtitles):
    """Four seconds with speech, a sign, a title and a chapter."""
    picture = slide("HIGH WATER", size=(320, 180))
    sound = at_times([(0.3, speak(SAID))], 4.0)
    more = {"subtitles": [(0.5, 2.0, "Written subtitles")], "subtitle_codec": subtitles} if subtitles else {}
    return write_talk(
        path,
        4.0,
        picture=lambda time: picture,
        sound=sound,
        sound_rate=RATE,
        sound_codec=codec,
        size=(320, 180),
        fps=5,
        chapters=[(0.0, 4.0, "Warning")],
        metadata={"title": "The harbour"},
        **more,
    ).read_bytes()


def damaged(folder, every):
    """Talks that are whole, cut off, or have bits of them flipped: in their heads, and all over."""
    kinds = {"mp4": ("aac", None), "mkv": ("libopus", "subrip"), "mov": ("pcm_s16le", "mov_text"), "ts": ("mp2", None)}
    for ending, (codec, subtitles) in kinds.items():
        data = talk(folder / f"talk.{ending}", codec, subtitles)
        yield Case(f"talks/whole.{ending}", "", data)
        for share in (0.3, 0.6, 0.9) if every else (0.6,):
            yield Case(f"talks/cut at {share}.{ending}", "", data[: int(len(data) * share)])
        rng = np.random.default_rng(len(data))
        for number in range(12 if every else 2):
            raw = np.frombuffer(data, np.uint8).copy()
            end = len(raw) if number % 2 else min(4096, len(raw))
            raw[rng.integers(0, end, 12)] ^= np.uint8(1) << rng.integers(0, 8, 12).astype(np.uint8)
            yield Case(f"talks/flipped {number}.{ending}", "", raw.tobytes())


def with_subtitles(film):
    """A film beside which stands what is no subtitle file."""
    beside = {
        "zeros.srt": bytes(100_000),
        "noise.vtt": np.random.default_rng(0).bytes(100_000),
        "lines.srt": b"\n" * 1_000_000,
        "times.srt": b"00:00:01,000 --> 00:00:02,000\n" * 20_000,
        "clocks.srt": b"9" * 10_000 + b":00:01,000 --> 00:00:02,000\nx\n",
        "columns.ass": b"Format: Start, End, Text"
        + b", x" * 100_000
        + b"\nDialogue: 0,0:00:01.00,0:00:02.00,x\n" * 1000,
        "pipe.srt": os.mkfifo,
        "device.srt": lambda path: path.symlink_to("/dev/zero"),
        "folder.srt": Path.mkdir,
        "nowhere.srt": lambda path: path.symlink_to("not there"),
    }
    for name, content in beside.items():
        yield Case(f"subtitles/{name.partition('.')[0]}.mkv", "", film)
        yield Case(f"subtitles/{name}", "", content)


def index(library, folder, plugin, timeout):
    source = str(Path(reelspace.__file__).parents[1])
    paths = [source, str(plugin), str(Path(__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(library), str(folder)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        timeout=timeout,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(library, folder, plugin, timeout):
    """Indexes what is in the folder, and checks what holds of every file."""
    first, second, status, said, written, named = index(library, folder, plugin, timeout)
    with closing(Catalogue(library / "catalogue.sqlite", create=False)) as catalogue:
        files = catalogue.files()
        contents = {file.video for file in files.values() if file.state in ("indexed", "partial")}
        for one in first["signals"]:
            states = catalogue.texts.states(one["signal"])
            # Every content that is searchable by its picture has been looked through, with or without success.
            assert set(states) == contents
            assert (one["videos"], one["failed"]) == (
                sum(not state.failed for state in states.values()),
                sum(state.failed for state in states.values()),
            )
            for problem in one["problems"]:
                assert files[problem["path"]].state in ("indexed", "partial")  # by the rest
                assert not any(word in problem["reason"] for word in ("could not be done", "Traceback", "errno"))
    assert [(one["videos"], one["failed"], one["passages"]) for one in second["signals"]] == [(0, 0, 0)] * 3
    assert second["embedded"] == 0
    assert [(one["signal"], one["kept"]) for one in status["signals"]] == [
        (s, True) for s in ("names", "speech", "ocr")
    ]
    heard = {"whole.mp4", "whole.ts"}  # the others have subtitles, which come first
    for report, least in ((said, heard), (written, {"whole.mkv"}), (named, {"whole.mov"})):
        assert least <= {Path(path).name for hit in report["hits"] for path in (hit["path"], *hit["copies"])}
    return first


def some(sources, bait):
    """A few of the corpus of each kind."""
    by_group = {}
    for case in corpus(sources, bait):
        by_group.setdefault(case.name.partition("/")[0], []).append(case)
    skipped = ("bombs", "m", "q")  # seconds each; the slow test has them
    return [
        case
        for group, cases in by_group.items()
        if group not in skipped
        for case in cases[:: max(1, len(cases) // 4)]
        if not set(case.verdict) & set(skipped)
    ]


@pytest.mark.parametrize(
    ("every", "timeout"),
    [pytest.param(False, 1500, id="some"), pytest.param(True, 3000, id="all", marks=pytest.mark.slow)],
)
@pytest.mark.skipif(sys.platform == "win32", reason="makes pipes and links")
def test_signals_of_damaged_files_leave_the_rest_indexed(tmp_path, plugin, every, timeout):
    sources, private = Sources(tmp_path), tmp_path / "private"
    private.mkdir()
    folder = tmp_path / "corpus" / "videos"
    cases = (corpus if every else some)(sources, Bait(private, 9, 9))
    cases = [*cases, *damaged(tmp_path, every), *with_subtitles(talk(tmp_path / "film.mkv", "libopus", None))]
    write(cases, folder)
    report = check(tmp_path / "library", folder, plugin, timeout)
    assert sum(one["failed"] for one in report["signals"]) < len(cases)
