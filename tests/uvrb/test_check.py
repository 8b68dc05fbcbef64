import shutil

import pytest

from conftest import colour_clip
from reelspace.media.reader import Reader
from reelspace.uvrb.check import check
from reelspace.uvrb.data import dataset
from reelspace.uvrb.tasks import suite


@pytest.fixture
def checked(data):
    def run(name="MSRVTT", mend=False):
        with Reader() as reader:
            return check(dataset(suite("uvrb")[name], data), reader, mend)

    return run


def test_nothing_is_wrong(checked):
    report = checked("MSRVTT-I2V")
    assert report.files == 12
    assert {problem.kind for problem in report.problems} <= {"short", "small"}
    assert report.sound
    assert report.sizes == {(96, 64): 6}


def test_every_kind_of_trouble_has_its_name(checked, data, tmp_path):
    videos = data / "MSRVTT" / "videos"
    (videos / "red.mp4").unlink()
    (videos / "green.mp4").write_bytes(b"no video")
    colour_clip(videos / "blue.mp4", "blue", "red", seconds=2.0)
    colour_clip(tmp_path / "long.mkv", "yellow", "red", "blue", seconds=2.0)
    torn = (tmp_path / "long.mkv").read_bytes()
    (videos / "yellow.mp4").write_bytes(torn[: len(torn) * 2 // 3])
    report = checked()
    kinds = {}
    for problem in report.problems:
        kinds.setdefault(problem.file, set()).add(problem.kind)
    assert kinds["videos/red.mp4"] == {"missing"}
    assert kinds["videos/green.mp4"] == {"unreadable"}
    assert "videos/blue.mp4" not in kinds
    assert "damaged" in kinds["videos/yellow.mp4"]
    assert kinds["videos/cyan.mp4"] == {"short"}
    assert not report.sound
    assert report.told()["problems"][0]["used"]


def test_a_mended_copy_is_used_instead(checked, data, tmp_path):
    colour_clip(tmp_path / "long.mkv", "yellow", "red", "blue", seconds=2.0)
    torn = (tmp_path / "long.mkv").read_bytes()
    path = data / "MSRVTT" / "videos" / "yellow.mp4"
    path.write_bytes(torn[: len(torn) * 2 // 3])
    before = path.read_bytes()
    report = checked(mend=True)
    (problem,) = [one for one in report.problems if one.file == "videos/yellow.mp4" and one.mended]
    assert path.read_bytes() == before
    loaded = dataset(suite("uvrb")["MSRVTT"], data).load()
    assert loaded.corpus["v-yellow"].video.path == data / "MSRVTT" / problem.mended
    assert all(one.kind == "short" for one in checked().problems)
    shutil.rmtree(data / "MSRVTT" / "mended")
    assert dataset(suite("uvrb")["MSRVTT"], data).load().corpus["v-yellow"].video.path == path
