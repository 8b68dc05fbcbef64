"""The reader and its workers: the same frames as without them, and no file that can do harm."""

import io
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from clips import Scene, read_barcodes, write_clip
from hostile import Sources, absurd, bombs, no_videos, write
from reelspace.errors import MediaError
from reelspace.item import Span
from reelspace.media.decode import Video, sample
from reelspace.media.image import load_image
from reelspace.media.policy import Centres, Sampling, Uniform
from reelspace.media.probe import probe
from reelspace.media.reader import Closed, Failed, Opened, Reader, ScanJob, WindowRead
from reelspace.media.windows import Fixed, Shots, Window

SAMPLING = Sampling(Uniform(4), edge=64)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    scenes = [Scene(3, seed=1, pan=0.02), Scene(2.5, seed=2), Scene(1, seed=3), Scene(4, seed=4)]
    return write_clip(tmp_path_factory.mktemp("clips") / "four.mp4", scenes=scenes, gop=60, bframes=3)


@pytest.fixture(scope="module")
def reader():
    """One for many tests: most of what these would take is the start of its workers."""
    with Reader() as opened:
        yield opened


def _children(parent=None):
    """Process ids of the children of a process (this one), zombies included."""
    parent = parent or os.getpid()
    tasks = Path(f"/proc/{parent}/task").glob("*/children")
    return {int(pid) for task in tasks for pid in task.read_text().split()}


def _open_files():
    return sorted(str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.exists())


def _gone(pid, patience=10.0):
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_scan_tells_what_the_file_is_then_its_windows_then_its_end(reader, clip):
    events = list(reader.scan([ScanJob(clip, Shots(), SAMPLING, thumbnails=True)]))
    assert events[0] == Opened(clip, probe(clip))
    assert events[-1] == Closed(clip, None)
    windows = events[1:-1]
    assert all(isinstance(event, WindowRead) for event in windows)
    assert [(event.start, event.end) for event in windows] == [(0, 3), (3, 5.5), (5.5, 10.5)]
    assert all(PIL.Image.open(io.BytesIO(event.thumbnail)).format == "JPEG" for event in windows)


@pytest.mark.parametrize("windows", [Shots(0, 2), Fixed(1.0, 0.4), [Window(0.21, 0.24), Window(4, 9), Window(8, 99)]])
@pytest.mark.parametrize("sampling", [SAMPLING, Sampling(Centres(3))], ids=str)
def test_windows_of_a_scan_are_what_sampling_each_gives(reader, clip, windows, sampling):
    read = [event for event in reader.scan([ScanJob(clip, windows, sampling)]) if isinstance(event, WindowRead)]
    assert len(read) >= 3
    for event in read:
        span = Span(clip, event.start, event.end)
        for frames in (sample(span, sampling), reader.sample(span, sampling)):
            assert np.array_equal(event.frames.pixels, frames.pixels)
            assert np.array_equal(event.frames.times, frames.times)
            assert (event.frames.start, event.frames.end) == (frames.start, frames.end) == (event.start, event.end)
        assert event.thumbnail is None


@pytest.fixture(scope="module")
def slides(tmp_path_factory):
    """Two slides, the second after six days."""
    path = tmp_path_factory.mktemp("slides") / "slides.mkv"

    def draw(number, time):
        return Scene(seed=min(number, 1)).draw(0, 96, 64)

    return write_clip(path, times=[0.0, 518_400.0, 518_405.0], draw=draw, size=(96, 64), bframes=0)


@pytest.mark.parametrize(
    ("windowing", "windows"),
    [
        (Shots(), [(0, 518_400), (518_400, 518_405.033)]),
        (Fixed(10, 5), [(0, 518_400), (518_395, 518_405), (518_400, 518_405.033)]),
    ],
)
def test_a_still_is_one_window_however_long_it_claims_to_be_shown(reader, slides, windowing, windows):
    read = [event for event in reader.scan([ScanJob(slides, windowing, SAMPLING)]) if isinstance(event, WindowRead)]
    assert [(event.start, event.end) for event in read] == windows
    for event in read:
        alone = sample(Span(slides, event.start, event.end), SAMPLING)
        assert np.array_equal(event.frames.pixels, alone.pixels)
        assert np.array_equal(event.frames.times, alone.times)


def test_more_windows_than_can_be_meant_are_cut_short_and_said_so(reader, slides):
    *_, last, closed = reader.scan([ScanJob(slides, Fixed(0.5, 0.01), SAMPLING)])
    assert last.end == pytest.approx(0.5 + 0.01 * 199_999)
    assert closed == Closed(slides, "only its first 200,000 windows are read, up to 2000.490 s")


@pytest.mark.parametrize("fast", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_frames_taken_while_shots_are_found_are_those_that_are_fetched_alone(reader, kind, matrix, fast):
    """Of every kind of file, through a worker and without."""
    path, windowing = kind.write(matrix), Shots(0.3, 0.8, fast=fast)
    found = [event for event in reader.scan([ScanJob(path, windowing, SAMPLING)]) if isinstance(event, WindowRead)]
    assert read_barcodes(found[0].frames.pixels)[0] == kind.first
    with Video(path, keys=fast) as video:
        for event in found:
            alone = video.sample(event.start, event.end, SAMPLING)
            assert np.array_equal(event.frames.pixels, alone.pixels)
            assert np.array_equal(event.frames.times, alone.times)


def test_windows_found_are_read_again_as_they_were_found(reader, kinds, matrix):
    for name in ("plain.mp4", "busy.ts", "vp9.webm"):
        for fast in (False, True):
            job = ScanJob(kinds[name].write(matrix), Shots(0.3, 0.8, fast=fast), SAMPLING)
            found = [event for event in reader.scan([job]) if isinstance(event, WindowRead)]
            again = ScanJob(job.path, [Window(event.start, event.end) for event in found], SAMPLING, keys=fast)
            alone = [event for event in reader.scan([again]) if isinstance(event, WindowRead)]
            for one, other in zip(found, alone, strict=True):
                assert np.array_equal(one.frames.pixels, other.frames.pixels)
                assert np.array_equal(one.frames.times, other.frames.times)


def test_a_fast_scan_has_windows_and_frames_of_key_frames_alone(reader, tmp_path):
    scenes = [Scene(4, colour=colour) for colour in ((200, 30, 30), (30, 200, 30), (30, 30, 200))]
    path = write_clip(tmp_path / "three.mp4", scenes=scenes, gop=30)
    job = ScanJob(path, Shots(fast=True), SAMPLING)
    windows = [event for event in reader.scan([job]) if isinstance(event, WindowRead)]
    assert [(event.start, event.end) for event in windows] == [(0, 4), (4, 8), (8, 12)]
    for event in windows:
        assert {number % 30 for number in read_barcodes(event.frames.pixels)} == {0}
    again = ScanJob(path, [Window(event.start, event.end) for event in windows], SAMPLING, keys=True)
    for one, other in zip(windows, (e for e in reader.scan([again]) if isinstance(e, WindowRead)), strict=True):
        assert np.array_equal(one.frames.pixels, other.frames.pixels)


def test_files_come_in_the_order_asked_for_and_a_bad_one_fails_alone(reader, clip, tmp_path):
    junk = tmp_path / "junk.mp4"
    junk.write_bytes(b"no video " * 1000)
    short = write_clip(tmp_path / "short.mp4", seconds=0.3)
    paths = [short, junk, clip, tmp_path / "missing.mkv", short, clip, junk]
    events = list(reader.scan(ScanJob(path, Shots(), SAMPLING) for path in paths))
    ends = [event for event in events if isinstance(event, Closed | Failed)]
    assert [event.path for event in ends] == paths
    assert [type(event) for event in ends] == [Closed, Failed, Closed, Failed, Closed, Closed, Failed]
    assert "not a video" in ends[1].reason
    assert "No such file" in ends[3].reason
    order = [event.path for event in events]
    seen = [path for index, path in enumerate(order) if index == 0 or order[index - 1] != path]
    assert seen == [short, junk, clip, tmp_path / "missing.mkv", short, clip, junk]


def test_a_partial_file_says_so_at_both_ends(reader, tmp_path):
    whole = write_clip(tmp_path / "whole.mkv", seconds=8).read_bytes()
    path = tmp_path / "cut-off.mkv"
    path.write_bytes(whole[: len(whole) // 2])
    events = list(reader.scan([ScanJob(path, Shots(), SAMPLING)]))
    assert events[0].info.partial == events[-1].partial
    assert "read up to" in events[-1].partial


def test_jobs_are_drawn_as_needed(clip):
    drawn = []

    def jobs():
        for number in range(50):
            drawn.append(number)
            yield ScanJob(clip, Shots(), SAMPLING)

    with Reader(workers=2) as reader:
        scan = reader.scan(jobs())
        for _ in range(7):
            next(scan)
        assert len(drawn) <= 4
        scan.close()


@pytest.mark.parametrize("stopped", [signal.SIGSTOP, signal.SIGKILL, signal.SIGSEGV], ids=lambda signal: signal.name)
def test_a_worker_that_hangs_or_crashes_fails_its_file_only(clip, tmp_path, stopped):
    short = write_clip(tmp_path / "short.mp4", seconds=0.3)
    before = _children()
    with Reader(workers=1, patience=3.0) as reader:
        long = ScanJob(clip, Fixed(0.2, 0.01), Sampling(Uniform(8)))  # more than the pipe and the queue hold
        scan = reader.scan([long, ScanJob(short, Shots(), SAMPLING)])
        assert isinstance(next(scan), Opened)
        (worker,) = _children() - before
        os.kill(worker, stopped)
        events = list(scan)
        (failed,) = (event for event in events if isinstance(event, Failed))
        assert failed.path == clip
        assert ("no progress for 3 s" if stopped == signal.SIGSTOP else stopped.name) in failed.reason
        assert events[-1] == Closed(short)
        assert _gone(worker)
    assert _children() == before


def test_a_worker_that_dies_while_it_has_nothing_to_do_fails_no_file(clip):
    before = _children()
    with Reader(workers=1) as reader:
        reader.sample(Span(clip), SAMPLING)
        (worker,) = _children() - before
        os.kill(worker, signal.SIGKILL)
        assert len(reader.sample(Span(clip), SAMPLING)) == 4
        assert _gone(worker)
    assert _children() == before


def test_query_media_have_the_same_protection(clip):
    before = _children()
    with Reader(workers=1, patience=3.0) as reader:
        reader.sample(Span(clip), SAMPLING)
        (worker,) = _children() - before
        os.kill(worker, signal.SIGSTOP)
        with pytest.raises(MediaError, match=r"four\.mp4: .*no progress"):
            reader.sample(Span(clip), SAMPLING)
        assert len(reader.sample(Span(clip), SAMPLING)) == 4
    assert _children() == before


def test_pictures_are_read_in_a_worker_too(reader, tmp_path):
    path = tmp_path / "a.png"
    PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 50, 3), dtype=np.uint8)).save(path)
    assert np.array_equal(reader.image(path), load_image(path))
    with pytest.raises(MediaError, match="No such file"):
        reader.image(tmp_path / "none.png")


def test_a_file_that_needs_too_much_memory_fails_alone(tmp_path, clip):
    huge = write_clip(tmp_path / "huge.mkv", size=(4000, 3000), scenes=[Scene(1 / 15)], codec="mjpeg", bframes=0)
    with Reader(workers=1, memory=700 << 20) as reader:
        events = list(reader.scan([ScanJob(huge, Shots(), Sampling(Uniform(60))), ScanJob(clip, Shots(), SAMPLING)]))
    ends = [event for event in events if isinstance(event, Closed | Failed)]
    assert [type(event) for event in ends] == [Failed, Closed]
    assert "memory" in ends[0].reason


def test_a_file_that_takes_too_much_work_fails_alone(tmp_path, clip):
    short = write_clip(tmp_path / "short.mp4", seconds=0.3)
    with Reader(workers=1, effort=0.0) as reader:  # the least there is: a second
        jobs = [ScanJob(clip, Fixed(2, 0.01), Sampling(Uniform(60))), ScanJob(short, Shots(), SAMPLING)]
        ends = [event for event in reader.scan(jobs) if isinstance(event, Closed | Failed)]
    assert [type(event) for event in ends] == [Failed, Closed]
    assert "took more work than a file of its length can need" in ends[0].reason


def test_memory_does_not_grow_with_the_film(clip):
    """A thousand large windows pass through; the worker holds a few."""
    before = _children()
    with Reader(workers=1) as reader:
        windows = [Window(at / 110, at / 110 + 0.3) for at in range(1000)]
        peaks = []
        for event in reader.scan([ScanJob(clip, windows, Sampling(Uniform(8)))]):
            if isinstance(event, WindowRead):
                (worker,) = _children() - before
                resident = Path(f"/proc/{worker}/statm").read_text().split()[1]
                peaks.append(int(resident) * os.sysconf("SC_PAGE_SIZE"))
    assert len(peaks) == 1000
    window = 8 * 320 * 180 * 3
    assert max(peaks) - peaks[50] < 40 * window


def test_nothing_is_left_behind(clip, tmp_path):
    junk = tmp_path / "junk.mp4"
    junk.write_bytes(b"x" * 5000)
    children, files = _children(), _open_files()
    for _ in range(3):
        with Reader(workers=2) as reader:
            jobs = [ScanJob(path, Shots(), SAMPLING) for path in (clip, junk, clip, clip)]
            list(reader.scan(jobs))
            scan = reader.scan(jobs)
            next(scan)
            scan.close()  # given up in the middle
            reader.sample(Span(clip), SAMPLING)
    assert _children() == children
    assert _open_files() == files


def test_a_reader_can_be_used_after_it_was_closed(clip):
    with Reader() as reader:
        reader.sample(Span(clip), SAMPLING)
    assert len(reader.sample(Span(clip), SAMPLING)) == 4
    reader.close()


SCRIPT = """
import sys, time
from pathlib import Path
from reelspace.media.reader import Reader, ScanJob
from reelspace.media.policy import Sampling, Uniform
from reelspace.media.windows import Fixed
# No `if __name__ == "__main__"` here: a plain script.
with Reader(workers=2) as reader:
    for event in reader.scan([ScanJob(Path(sys.argv[1]), Fixed(0.2, 0.01), Sampling(Uniform(8)))] * 3):
        print(type(event).__name__, flush=True)
        time.sleep(float(sys.argv[2]))
"""


def _run_script(tmp_path, clip, pause):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return subprocess.Popen(
        [sys.executable, str(script), str(clip), str(pause)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_plain_script_needs_no_main_guard(tmp_path, clip):
    out, err = _run_script(tmp_path, clip, 0).communicate(timeout=60)
    assert err == ""
    names = out.split()
    assert names.count("Opened") == names.count("Closed") == 3
    assert names.count("WindowRead") > 3000


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda signal: signal.name)
def test_whatever_ends_the_script_ends_its_workers(tmp_path, clip, ending):
    with _run_script(tmp_path, clip, 0.05) as script:
        assert script.stdout.readline() == "Opened\n"
        while len(workers := _children(script.pid)) < 2:
            assert script.poll() is None
            time.sleep(0.02)
        os.killpg(script.pid, ending)  # as a terminal does on Ctrl-C
        script.communicate(timeout=20)
        assert all(_gone(worker) for worker in workers)


def test_a_folder_of_videos_is_no_place_to_import_from(tmp_path, clip, monkeypatch):
    """Nothing in the working directory is run, whatever its name."""
    for name in ("av", "numpy", "reelspace", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the folder')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    with Reader(workers=1) as reader:
        assert len(reader.sample(Span(clip), SAMPLING)) == 4


def test_undecodable_names_come_through(reader, tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.mp4"))
    write_clip(tmp_path / "x.mp4", seconds=0.2).rename(path)
    assert len(reader.sample(Span(path), SAMPLING)) == 4
    events = list(reader.scan([ScanJob(path, Shots(), SAMPLING)]))
    assert events[-1] == Closed(path)
    path.write_bytes(b"junk" * 100)
    (failed,) = reader.scan([ScanJob(path, Shots(), SAMPLING)])
    assert "caf\\xe9.mp4" in failed.reason
    failed.reason.encode()  # can be printed


@pytest.mark.slow
def test_two_thousand_files_leave_no_trace(tmp_path):
    """Good, damaged and hostile ones, over and over: memory, open files and processes stay as they are."""
    sources = Sources(tmp_path)
    cases = [*absurd(sources), *bombs(sources), *no_videos(sources)]
    light = [case for case in cases if "m" not in case.verdict and "megapixels" not in case.name]
    write(light, tmp_path / "files")
    paths = [tmp_path / "files" / case.name for case in light]
    children, files = _children(), _open_files()
    with Reader(workers=1) as reader:
        jobs = (ScanJob(paths[number % len(paths)], Shots(), SAMPLING) for number in range(2000))
        worker, here, done = [], [], 0
        for event in reader.scan(jobs):
            if isinstance(event, Closed | Failed):
                done += 1
                if done % 200 == 100 and len(_children() - children) == 1:
                    (process,) = _children() - children
                    worker.append(_resident(process))
                    here.append(_resident(os.getpid()))
        assert done == 2000
        assert len(_open_files()) <= len(files) + 3  # the pipes of the one worker
    assert len(here) >= 5
    assert max(here[-3:]) - min(here[:3]) < 20 << 20
    assert max(worker[-3:]) - max(worker[:3]) < 50 << 20
    assert (_children(), _open_files()) == (children, files)


def _resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
