import pytest

from hostile import Sources
from reelspace.media.decode import Video
from reelspace.media.ending import is_cut_off

TELLING = [
    "plain.mp4",
    "fragmented.mp4",
    "clip.mkv",
    "vp8.webm",
    "clip.avi",
    "clip.flv",
    "clip.wmv",
    "vp8.ogv",
    "clip.gif",
]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return Sources(tmp_path_factory.mktemp("sources"))


def format_of(path):
    with Video(path) as video:
        return video.format


def test_a_whole_file_is_whole(kind, clip):
    assert not is_cut_off(clip, format_of(clip))


@pytest.mark.parametrize("name", TELLING)
def test_a_file_that_lacks_a_byte_is_not(sources, tmp_path, name):
    data = sources[name]
    form = format_of(sources.folder / name)
    path = tmp_path / name
    for kept, expected in ((len(data), False), (len(data) - 1, True), (len(data) * 2 // 3, True)):
        path.write_bytes(data[:kept])
        assert is_cut_off(path, form) is expected, kept


def test_a_transport_stream_tells_by_its_packets_only(sources, tmp_path):
    data, path = sources["clip.ts"], tmp_path / "clip.ts"
    for kept, expected in ((len(data), False), (len(data) - 1, True), (188 * 20, False)):
        path.write_bytes(data[:kept])
        assert is_cut_off(path, "mpegts") is expected, kept


def test_live_recordings_do_not_know_where_they_end(sources, tmp_path):
    data = bytearray(sources["clip.mkv"])
    at = data.index(b"\x18\x53\x80\x67") + 4
    data[at : at + 8] = b"\x01" + b"\xff" * 7
    path = tmp_path / "live.mkv"
    path.write_bytes(data[: len(data) // 2])
    assert not is_cut_off(path, "matroska,webm")


def test_what_follows_the_last_box_may_be_anything(sources, tmp_path):
    path = tmp_path / "padded.mp4"
    for padding in (b"\0", b"\0" * 100, b"\xff\xff\xff\xffjunk and more of it"):
        path.write_bytes(sources["plain.mp4"] + padding)
        assert not is_cut_off(path, "mov,mp4,m4a,3gp,3g2,mj2")
