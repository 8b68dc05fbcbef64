"""Checking and repairing: what is wrong is found, what can be mended is, and nothing that is there is touched."""

import pytest

from clips import Scene, every_frame, write_clip
from hostile import Sources, bare_stream, mp4_boxes
from reelspace.errors import MediaError
from reelspace.item import Span
from reelspace.media.check import Checked, check
from reelspace.media.cut import cut
from reelspace.media.probe import probe
from reelspace.media.reader import Reader
from reelspace.media.repair import Repaired, repair


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return Sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def reader():
    with Reader(workers=1) as opened:
        yield opened


@pytest.mark.parametrize("name", ["plain.mp4", "clip.mkv", "clip.ts", "clip.avi", "clip.wmv", "vp8.ogv", "clip.gif"])
def test_nothing_is_wrong_with_a_good_file(reader, sources, name):
    sources[name]
    checked = check(sources.folder / name, reader)
    assert checked.faults == []
    assert checked.info == probe(sources.folder / name)


def test_a_file_that_cannot_be_read_is_a_fault_and_cannot_be_mended(reader, tmp_path):
    path = tmp_path / "junk.mp4"
    path.write_bytes(b"junk" * 100)
    checked = check(path, reader)
    reason = "not a video, or damaged where it must not be (its header cannot be read)"
    assert checked == Checked(path, None, [reason])
    assert repair(checked, tmp_path / "out" / "junk.mp4", reader) == Repaired("cannot be mended", None, reason)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("faststart.mp4", ""),
        ("clip.mkv", ""),
        ("vp8.webm", ""),
        ("clip.flv", ".mkv"),
        ("clip.ts", ".mkv"),
        ("mjpeg.mov", ""),
    ],
)
def test_a_file_that_is_cut_off_is_remuxed(reader, sources, tmp_path, name, ending):
    data = sources[name]
    path = tmp_path / name
    path.write_bytes(data[: len(data) * 2 // 3 // 188 * 188 + 5])
    before = path.read_bytes()
    checked = check(path, reader)
    assert len(checked.faults) == 1
    assert "can be read up to" in checked.faults[0]
    target = tmp_path / "mended" / (name + ending)
    assert repair(checked, tmp_path / "mended" / name, reader) == Repaired("remuxed", target)
    assert list(target.parent.iterdir()) == [target]
    assert path.read_bytes() == before
    mended = check(target, reader)
    assert mended.faults == []
    assert 0 <= checked.info.frames - mended.info.frames <= 3  # what was cut through is gone
    assert mended.info.duration == pytest.approx(checked.info.duration, abs=0.35)


def test_damage_inside_is_encoded_again(reader, tmp_path):
    data = bytearray(
        write_clip(tmp_path / "whole.mp4", scenes=[Scene(4, seed=1)], fps=10, gop=10, bframes=0).read_bytes()
    )
    (content,) = (part.content for part in mp4_boxes(data) if part.name == "mdat")
    middle = (content.start + content.stop) // 2
    data[middle : middle + 400] = bytes(400)
    path = tmp_path / "damaged.mp4"
    path.write_bytes(data)
    checked = check(path, reader)
    assert "frames cannot be decoded, the first at " in checked.faults[0]
    done = repair(checked, tmp_path / "mended.mp4", reader)
    assert done == Repaired("re-encoded", tmp_path / "mended.mp4")
    numbers, times = every_frame(done.path)
    known = [(number, round(time * 10)) for number, time in zip(numbers, times, strict=True) if number is not None]
    assert all(number == place for number, place in known if place < 10)  # before the damage
    assert known[-1] == (39, 39)  # and after it, in its place


def test_damage_is_found_where_frames_have_no_times(reader, sources, tmp_path):
    data, path = bytearray(bare_stream(sources)), tmp_path / "bare.h264"
    path.write_bytes(data)
    assert check(path, reader).faults == []
    middle = len(data) // 2
    data[middle : middle + 400] = bytes(400)
    path.write_bytes(data)
    checked = check(path, reader)
    (fault,) = checked.faults
    assert "frames cannot be decoded, the first at 0.7 s" in fault
    done = repair(checked, tmp_path / "mended.h264", reader)
    assert (done.how, "does not say when its frames are shown" in done.reason) == ("cannot be mended", True)


def test_a_wrong_ending_is_said_and_put_right(reader, sources, tmp_path):
    path = tmp_path / "film.mkv"
    path.write_bytes(sources["plain.mp4"])
    checked = check(path, reader)
    assert checked.faults == ["is not what its name says: not .mkv, but .mp4"]
    assert repair(checked, tmp_path / "out" / "film.mkv", reader) == Repaired("remuxed", tmp_path / "out" / "film.mp4")


def test_an_ending_that_is_no_videos_says_nothing(reader, sources, tmp_path):
    path = tmp_path / "film.bin"
    path.write_bytes(sources["plain.mp4"])
    assert check(path, reader).faults == []


@pytest.mark.parametrize("there", ["file", "link that leads nowhere", "folder"])
def test_nothing_that_is_there_is_replaced(reader, sources, tmp_path, there):
    data = sources["faststart.mp4"]
    path, target = tmp_path / "cut.mp4", tmp_path / "there.mp4"
    path.write_bytes(data[: len(data) // 2])
    match there:
        case "file":
            target.write_bytes(b"precious")
        case "folder":
            target.mkdir()
        case _:
            target.symlink_to(tmp_path / "nowhere")
    before = sorted((entry.name, entry.lstat().st_mtime_ns) for entry in tmp_path.iterdir())
    done = repair(check(path, reader), target, reader)
    assert (done.how, done.path) == ("cannot be mended", None)
    assert "is there already" in done.reason
    assert sorted((entry.name, entry.lstat().st_mtime_ns) for entry in tmp_path.iterdir()) == before


def test_what_takes_too_much_work_is_stopped_and_leaves_nothing(tmp_path):
    path = write_clip(tmp_path / "busy.mp4", scenes=[Scene(20, seed=1, pan=0.3)], size=(640, 360), bframes=0)
    (tmp_path / "out").mkdir()
    with (
        Reader(workers=1, effort=0.0) as reader,
        pytest.raises(MediaError, match="more work than a file of its length"),
    ):
        cut(Span(path), tmp_path / "out" / "cut.mp4", exact=True, reader=reader)
    assert list((tmp_path / "out").iterdir()) == []
