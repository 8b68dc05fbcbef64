"""What files are, and why some are none."""

import os
import struct
from fractions import Fraction

import numpy as np
import pytest

from clips import every_frame, read_barcodes, write_clip
from reelspace.errors import MediaError
from reelspace.item import Span
from reelspace.media.decode import Video, sample
from reelspace.media.policy import Sampling, Uniform
from reelspace.media.probe import probe


def _write(path, content):
    path.write_bytes(content)
    return path


def _sound_only(path, cover=False):
    import av

    with av.open(str(path), "w") as container:
        sound = container.add_stream("aac", rate=48_000, layout="mono")
        picture = container.add_stream("mjpeg", rate=1) if cover else None
        if picture is not None:
            picture.width, picture.height, picture.pix_fmt = 64, 64, "yuvj420p"
            picture.disposition = av.stream.Disposition.attached_pic
            frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 200, np.uint8), "rgb24").reformat(format="yuvj420p")
            container.mux([*picture.encode(frame), *picture.encode()])
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate = 48_000
        container.mux([*sound.encode(frame), *sound.encode()])
    return path


def test_facts_are_those_of_the_displayed_video(tmp_path):
    path = write_clip(
        tmp_path / "phone.mp4",
        rotation=90,
        size=(180, 320),
        audio=True,
        start=1.0,
        metadata={"creation_time": "2024-05-06T07:08:09.000000Z"},
    )
    info = probe(path)
    assert (info.width, info.height, info.frames, info.rotation, info.codec) == (180, 320, 60, 90, "h264")
    assert info.duration == pytest.approx(2.0)
    assert info.created == 1714979289.0
    assert info.partial is None


@pytest.mark.parametrize("tag", ["1904-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "yesterday"])
def test_a_clock_that_was_never_set_tells_nothing(tmp_path, tag):
    assert probe(write_clip(tmp_path / "x.mkv", seconds=0.2, metadata={"creation_time": tag})).created is None


def test_frames_and_codec_of_every_kind(kind, clip):
    info = probe(clip)
    assert info.frames == len(every_frame(clip, rate=kind.rate)[0])
    assert info.codec
    assert info.partial is None


def test_a_cover_picture_is_not_the_video(tmp_path):
    """Beside a video, and instead of one."""
    import av

    clip = write_clip(tmp_path / "clip.mp4", seconds=1)
    both = tmp_path / "both.mp4"
    with av.open(str(clip)) as source, av.open(str(both), "w") as target:
        cover = target.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 1920, 1080, "yuvj420p"
        cover.disposition = av.stream.Disposition.attached_pic
        copy = target.add_stream_from_template(source.streams.video[0])
        picture = av.VideoFrame.from_ndarray(np.zeros((1080, 1920, 3), np.uint8), "rgb24").reformat(format="yuvj420p")
        target.mux([*cover.encode(picture), *cover.encode()])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = copy
                target.mux(packet)
    info = probe(both)
    assert (info.width, info.height, info.frames) == (320, 180, 30)
    with pytest.raises(MediaError, match="holds sound and a cover picture, but no video"):
        probe(_sound_only(tmp_path / "song.mp4", cover=True))


def test_what_is_no_video_is_refused_with_a_reason(tmp_path):
    def refused(path, reason):
        with pytest.raises(MediaError, match=reason) as caught:
            probe(path)
        assert str(path) in str(caught.value)

    refused(tmp_path / "missing.mp4", "No such file")
    refused(tmp_path, "not an ordinary file")
    refused(_write(tmp_path / "empty.mp4", b""), r"empty \(0 bytes\)")
    refused(_write(tmp_path / "junk.mp4", np.random.default_rng(0).bytes(10_000)), "not a video")
    refused(_write(tmp_path / "text.mp4", b"This is a letter.\n" * 50), "not a video")
    refused(_sound_only(tmp_path / "song.mp4"), "holds sound, but no video")
    fifo = tmp_path / "pipe.mp4"
    os.mkfifo(fifo)
    refused(fifo, "not an ordinary file")
    whole = write_clip(tmp_path / "whole.mp4").read_bytes()
    refused(_write(tmp_path / "no-index.mp4", whole[: len(whole) // 2]), "header cannot be read")


@pytest.mark.parametrize("name", ["faststart.mp4", "plain.mkv", "stream.ts", "plain.webm", "plain.avi"])
def test_a_truncated_file_is_partial_and_what_there_is_can_be_read(tmp_path, name):
    settings = {
        "faststart.mp4": {"container_options": {"movflags": "faststart"}},
        "plain.webm": {"codec": "libvpx-vp9"},
        "plain.avi": {"codec": "mpeg4", "fps": 25},
    }
    whole = write_clip(tmp_path / f"whole-{name}", seconds=8, **settings.get(name, {}))
    data = whole.read_bytes()
    path = _write(tmp_path / name, data[: len(data) * 6 // 10])
    info = probe(path)
    if name != "stream.ts":  # a transport stream declares no length: it just ends
        assert info.partial is not None
        assert "read up to" in info.partial
    assert 2 < info.duration < 7.9
    with Video(path) as video:
        numbers = read_barcodes(video.frames(range(len(video.times))))
    # The last few may have come broken: then the one before stays on show.
    assert numbers[:-4] == list(range(len(numbers)))[:-4]
    frames = sample(Span(path), Sampling(Uniform(8), edge=90))
    assert len(frames) == 8


@pytest.mark.parametrize("name", ["longer.mkv", "longer.mp4", "longer.ts"])
def test_sound_that_goes_on_after_the_picture_is_no_damage(tmp_path, name):
    import av

    clip = write_clip(tmp_path / "clip.mp4", seconds=1, audio=True)
    with av.open(str(clip)) as source, av.open(str(tmp_path / name), "w") as target:
        streams = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if packet.dts is not None and (packet.stream.type == "audio" or packet.dts * packet.time_base < 0.3):
                packet.stream = streams[packet.stream.index]
                target.mux(packet)
        beyond = 48_000
        for number in range(150):  # three seconds more
            packet = av.Packet(bytes.fromhex("01180020 07".replace(" ", "")))
            packet.pts = packet.dts = beyond + number * 1024
            packet.duration, packet.time_base, packet.stream = 1024, Fraction(1, 48_000), streams[1]
            target.mux(packet)
    info = probe(tmp_path / name)
    assert info.partial is None
    assert info.duration == pytest.approx(0.4, abs=0.1)


def test_damage_in_the_middle_costs_only_what_is_damaged(tmp_path):
    data = bytearray(write_clip(tmp_path / "whole.ts", seconds=8, gop=15).read_bytes())
    at = len(data) // 2 // 188 * 188
    data[at : at + 188 * 12] = np.random.default_rng(1).bytes(188 * 12)
    path = _write(tmp_path / "damaged.ts", bytes(data))
    with Video(path) as video:
        numbers = read_barcodes(video.frames(range(len(video.times))))
        expected = [round(time * 30) for time in video.times]
    right = sum(a == b for a, b in zip(numbers, expected, strict=True))
    assert right >= 200
    assert numbers[:60] == expected[:60]
    assert numbers[-60:] == expected[-60:]


def test_absurd_claims_are_refused(tmp_path):
    """A length of years, a frame of terapixels: said, not tried."""
    years = write_clip(tmp_path / "years.mkv", times=[0.0, 1.0, 4e8], container_options={}, bframes=0)
    with pytest.raises(MediaError, match="claims to last"):
        probe(years)


HOSTILE_NAMES = [
    "http:", "-", "pipe:0", "%03d.mp4", "concat:a|b", "with space ü 影片.mp4", "new\nline.mp4", "@5-10.mp4", "a@1-2",
    "file:x", "'quoted\".mp4", b"latin-\xe9\xff.mp4", "data:,x", "crypto+file:x", "x" * 250,
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
def test_any_name_means_the_file_itself(tmp_path, name, monkeypatch):
    source = write_clip(tmp_path / "source.mp4", seconds=0.2)
    path = tmp_path / os.fsdecode(name)
    source.rename(path)
    assert probe(path).frames == 6
    monkeypatch.chdir(tmp_path)
    assert probe(os.fsdecode(name)).frames == 6


PLAYLISTS = {
    "list.m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{target}\n#EXT-X-ENDLIST\n",
    "list.mp4": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{target}\n#EXT-X-ENDLIST\n",
    "list.ffconcat": "ffconcat version 1.0\nfile '{target}'\n",
    "list.txt": "ffconcat version 1.0\nfile '{target}'\n",
    "list.sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns={target}\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n",
    "list.mpd": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period>'
    "<AdaptationSet><Representation><BaseURL>{target}</BaseURL></Representation></AdaptationSet></Period></MPD>",
    "list.pls": "[playlist]\nFile1={target}\n",
    "list.xspf": "<playlist><trackList><track><location>{target}</location></track></trackList></playlist>",
    "list.asx": '<asx version="3.0"><entry><ref href="{target}"/></entry></asx>',
}


@pytest.mark.parametrize("name", PLAYLISTS)
@pytest.mark.parametrize("remote", [False, True], ids=["file", "url"])
def test_a_playlist_reaches_no_other_file_and_no_network(tmp_path, name, remote):
    import socket

    target = write_clip(tmp_path / "private.ts", seconds=0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x.ts"
        path = tmp_path / name
        path.write_text(PLAYLISTS[name].format(target=url if remote else target))
        os.utime(target, (1, 1))
        with pytest.raises(MediaError, match="not a video"):
            probe(path)
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_picture_sequence_is_not_opened_through_its_pattern(tmp_path):
    import PIL.Image

    for number in range(3):
        PIL.Image.new("RGB", (64, 64)).save(tmp_path / f"frame{number}.png")
    with pytest.raises(MediaError, match="No such file"):
        probe(tmp_path / "frame%d.png")
    with pytest.raises(MediaError, match="not a video"):
        probe(tmp_path / "frame0.png")


def _altered(path, name, field, offset, form, change):
    """A copy of a file in which every number at `offset` behind `field` is changed."""
    data = bytearray(path.read_bytes())
    at = data.find(field)
    assert at >= 0
    while at >= 0:
        (value,) = struct.unpack_from(form, data, at + offset)
        struct.pack_into(form, data, at + offset, change(value))
        at = data.find(field, at + 1)
    return _write(path.with_name(name), bytes(data))


@pytest.mark.parametrize("factor", [0.1, 50])
@pytest.mark.parametrize(
    ("container", "field", "offset", "form"),
    [
        ("mp4", b"mvhd", 20, ">I"),
        ("mp4", b"mdhd", 20, ">I"),
        ("mp4", b"tkhd", 24, ">I"),
        ("mkv", bytes.fromhex("448988"), 3, ">d"),
        ("avi", b"avih", 24, "<I"),  # frames
        ("avi", b"strh", 40, "<I"),
        ("flv", b"duration", 9, ">d"),
    ],
)
def test_a_false_duration_or_count_is_not_believed(tmp_path, container, field, offset, form, factor):
    codec = {"codec": "mpeg4"} if container == "avi" else {}
    path = write_clip(tmp_path / f"true.{container}", fps=25, **codec)
    wrong = _altered(path, f"false.{container}", field, offset, form, lambda value: type(value)(value * factor))
    with Video(wrong) as video:
        assert np.allclose(video.times, np.arange(50) / 25, atol=0.002)
        assert video.duration == pytest.approx(2, abs=0.05)
        assert read_barcodes(video.frames([0, 17, 49])) == [0, 17, 49]
        # What looks as if the end were missing is said to.
        assert video.partial is None or "but can be read up to 2.0 s only" in video.partial
