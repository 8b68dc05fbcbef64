"""Every kind of file gives the right frame for every time: the barcode is the judge, plain decoding the second way."""

from functools import cache

import numpy as np
import pytest

from clips import Scene, every_frame, plain_pictures, read_barcode, read_barcodes, write_clip
from reelspace.errors import MediaError
from reelspace.item import Span
from reelspace.media import decode, table
from reelspace.media.decode import Video, sample
from reelspace.media.policy import Centres, Fps, Sampling, Uniform
from reelspace.media.windows import Fixed, Window


@cache
def _every_frame(kind, clip):
    return every_frame(clip, kind.settings.get("rotation", 0), kind.settings.get("mirror", False), kind.rate)


def test_the_table_is_what_plain_decoding_shows(kind, clip):
    numbers, times = _every_frame(kind, clip)
    with Video(clip) as video:
        assert np.allclose(video.times, times, atol=1e-6)
        assert read_barcodes(video.frames(range(len(times)))) == numbers
        assert numbers == list(range(kind.first, kind.first + len(numbers)))
        assert video.partial is None


@pytest.fixture(params=[True, False], ids=["kept", "read again"])
def packets(request, monkeypatch):
    """Small files give the packets that were kept of them; here also as large ones do, by seeking in the file."""
    if not request.param:
        monkeypatch.setattr(table, "FEW", 0)
    return request.param


def test_any_frame_comes_alone_and_in_any_order(kind, clip, packets):
    with Video(clip) as video:
        asked = np.random.default_rng(3).permutation(len(video.times))[:7].tolist()
        alone = [read_barcode(video.frames([index], edge=120)[0]) for index in asked]
        assert alone == [kind.first + index for index in asked]
        again = asked + asked[:2]
        assert read_barcodes(video.frames(again)) == [kind.first + index for index in again]


def test_frames_are_the_same_to_the_bit_however_they_are_reached(clip, packets):
    """Seeking, and leaving out frames that no other needs, changes no pixel."""
    with Video(clip) as video:
        all_at_once = video.frames(range(len(video.times)), edge=64)
        chosen = np.linspace(0, len(video.times) - 1, 5).astype(int)
        for index in chosen:
            assert np.array_equal(video.frames([index], edge=64)[0], all_at_once[index])
        together = video.frames(chosen, edge=64)
    assert np.array_equal(together, all_at_once[chosen])
    if clip.suffix != ".webp":  # which FFmpeg does not decode
        plain = plain_pictures(clip, range(len(all_at_once)), edge=64)
        assert all(np.array_equal(plain[index], picture) for index, picture in enumerate(all_at_once))


@pytest.mark.parametrize("limit", ["FEW", "LIGHT"])
def test_packets_are_kept_up_to_a_limit(tmp_path, monkeypatch, limit):
    path = write_clip(tmp_path / "clip.mp4", seconds=2)
    with Video(path) as video:
        most = {"FEW": len(video._table.packets), "LIGHT": sum(packet.size for packet in video._table.packets)}
    for less, kept in ((0, True), (1, False)):
        monkeypatch.setattr(table, limit, most[limit] - less)
        with Video(path) as video:
            assert bool(video._table.packets) is kept
            assert read_barcodes(video.frames([50, 3])) == [50, 3]


def test_a_policy_takes_the_frames_it_names(kind, clip):
    numbers, times = _every_frame(kind, clip)
    with Video(clip) as video:
        for policy in (Uniform(8), Uniform(3), Centres(5), Fps(2, max=8)):
            expected = policy.choose(np.array(times), 0.0, video.duration)
            frames = video.sample(0.0, None, Sampling(policy, edge=100))
            assert read_barcodes(frames.pixels) == [numbers[index] for index in expected], policy
            assert np.allclose(frames.times, np.array(times)[expected], atol=1e-6)
            assert (frames.start, frames.end) == (0.0, video.duration)


@pytest.mark.parametrize("name", ["fields.mpg", "interlaced.mpg", "stream.ts", "open-gop.ts"])
def test_every_frame_alone_of_streams_without_marks_between_frames(kinds, matrix, packets, name):
    """After a seek such a stream begins anywhere, and the first frames may be taken for others."""
    with Video(kinds[name].write(matrix)) as video:
        numbers = range(len(video.times))
        assert [read_barcode(video.frames([index])[0]) for index in numbers] == list(numbers)


def test_windows_one_after_another_are_the_same_as_each_alone(clip):
    sampling = Sampling(Uniform(4), edge=64)
    with Video(clip) as video:
        windows = Fixed(0.35 * video.duration, 0.2 * video.duration).windows(video.duration)
        together = list(video.samples(windows, sampling))
    assert len(together) == len(windows)
    with Video(clip) as video:
        for window, frames in reversed(list(zip(windows, together, strict=True))):
            alone = video.sample(*window, sampling)
            assert (frames.start, frames.end) == window
            assert np.array_equal(frames.pixels, alone.pixels)
            assert np.array_equal(frames.times, alone.times)


def test_the_displayed_size_is_upright_with_square_pixels(kind, clip):
    with Video(clip) as video:
        assert (video.width, video.height) == (kind.displayed or kind.settings.get("size", (320, 180)))
        assert video.rotation == kind.settings.get("rotation", 0)
        assert video.frames([0]).shape[1:] == (video.height, video.width, 3)
        edge = min(40, video.height)
        small = video.frames([0], edge=edge)[0]
        assert min(small.shape[:2]) == edge
        assert np.isclose(small.shape[1] / small.shape[0], video.width / video.height, rtol=0.03)


def test_frames_are_never_enlarged(tmp_path):
    with Video(write_clip(tmp_path / "small.mp4", seconds=0.2, size=(96, 64))) as video:
        assert video.frames([0], edge=1000).shape == (1, 64, 96, 3)


def test_a_time_gives_the_frame_on_show(tmp_path):
    path = write_clip(tmp_path / "uneven.mp4", times=[0.0, 0.1, 0.2, 3.0, 3.1])
    with Video(path) as video:
        shown = {-1.0: 0, 0.0: 0, 0.09: 0, 0.1: 1, 0.1 - 1e-9: 1, 0.2: 2, 2.999: 2, 3.0: 3, 3.1: 4, 99.0: 4}
        assert {time: video.index_at(time) for time in shown} == shown
        assert np.isclose(video.duration, 3.2)


def test_a_span_begins_with_the_frame_on_show_and_excludes_what_appears_at_its_end(tmp_path):
    path = write_clip(tmp_path / "even.mp4", seconds=2, fps=10)
    frames = sample(Span(path, 0.55, 1.0), Sampling(Uniform(5)))
    assert read_barcodes(frames.pixels) == [5, 6, 7, 8, 9]
    assert np.allclose(frames.times, [0.5, 0.6, 0.7, 0.8, 0.9])
    assert (frames.start, frames.end) == (0.55, 1.0)


def test_a_span_ends_with_the_video_and_cannot_begin_after_it(tmp_path):
    path = write_clip(tmp_path / "short.mp4", seconds=1, fps=10)
    assert sample(Span(path, 0.5, 60.0), Sampling(Uniform(2))).end == 1.0
    with pytest.raises(MediaError, match=r"lasts 1\.000 s"):
        sample(Span(path, 1.0), Sampling(Uniform(2)))


def test_how_long_the_last_frame_is_shown(tmp_path):
    held = write_clip(tmp_path / "held.gif", codec="gif", pix_fmt="rgb8", fps=10, seconds=1)
    with Video(held) as video:
        assert np.isclose(video.duration, 1.0)
    with Video(write_clip(tmp_path / "one.mkv", seconds=1 / 30)) as video:
        assert len(video.times) == 1
        assert np.isclose(video.duration, 1 / 30, atol=0.001)


def test_jumping_far_decodes_little(tmp_path):
    """One frame in each of ten groups of pictures: seeks, and no decoding from the start."""
    path = write_clip(tmp_path / "long.mp4", seconds=20, gop=30, size=(160, 90))
    ticks = 0

    def tick():
        nonlocal ticks
        ticks += 1

    with Video(path, tick) as video:
        ticks = 0
        wanted = list(range(5, 600, 60))
        assert read_barcodes(video.frames(wanted)) == wanted
        assert ticks < 150
        ticks = 0
        list(video.samples([Window(0, 2), Window(18, 20)], Sampling(Uniform(2), edge=64)))
        assert ticks < 200


def test_several_frames_at_once_come_out_as_one_after_another(tmp_path, monkeypatch):
    """Where key frames are far apart frames are decoded side by side: no pixel and no time differs."""
    path = write_clip(tmp_path / "long.mp4", scenes=[Scene(4, seed=1), Scene(4, seed=2)], gop=60, bframes=3)
    wanted, seen = [239, 3, 100, 101, 130, 60, 0, 187], []
    for longest in (1, 1 << 30):
        monkeypatch.setattr(decode, "LONG_GROUP", longest)
        with Video(path) as video:
            side_by_side = "SLICE" not in str(video._stream.thread_type)
            frames = video.frames(wanted, edge=120)
            again = video.sample(1.0, 5.0, Sampling(Uniform(8), edge=64))
            seen.append((side_by_side, frames, again.pixels, again.times))
    assert [one[0] for one in seen] == [True, False]
    assert read_barcodes(seen[0][1]) == wanted
    assert all(np.array_equal(one, other) for one, other in zip(*(one[1:] for one in seen), strict=True))


def test_of_key_frames_alone_each_is_shown_up_to_the_next(kind, clip):
    """The same frames at the same times to the bit, fewer of them; all of them, where all are key frames."""
    with Video(clip) as video, Video(clip, keys=True) as thin:
        assert thin.duration == video.duration
        assert thin.count == len(video.times)
        at = np.searchsorted(video.times, thin.times)
        assert np.array_equal(video.times[at], thin.times)
        assert thin.times[0] == 0
        pixels = thin.frames(range(len(at)), edge=64)
        assert np.array_equal(pixels, video.frames(at, edge=64))
        window = Window(0.3 * video.duration, 0.9 * video.duration)
        (frames,) = thin.samples([window], Sampling(Centres(3), edge=64))
        assert np.isin(frames.times, thin.times).all()


def test_key_frames_are_those_of_the_encoder(tmp_path):
    with Video(write_clip(tmp_path / "plain.mp4", gop=12), keys=True) as video:
        assert np.allclose(video.times, [0, 0.4, 0.8, 1.2, 1.6])
        assert read_barcodes(video.frames(range(5))) == [0, 12, 24, 36, 48]
        assert video.index_at(0.79) == 1
        assert [len(read) for read in map(list, [video.skim()])] == [5]


def test_reading_key_frames_decodes_nothing_else(tmp_path):
    ticks = 0

    def tick():
        nonlocal ticks
        ticks += 1

    with Video(write_clip(tmp_path / "long.mp4", seconds=20, gop=60, size=(160, 90)), tick, keys=True) as video:
        ticks = 0
        assert read_barcodes(video.frames(range(10))) == list(range(0, 600, 60))
        assert ticks < 30


@pytest.mark.parametrize(("size", "matrix"), [((320, 180), "ITU601"), ((1280, 720), "ITU709")])
@pytest.mark.parametrize("tagged", [False, True])
def test_colours_are_those_a_player_shows(tmp_path, size, matrix, tagged):
    """By the tag where there is one; else high definition is BT.709 and the rest BT.601."""
    import av

    colour = (200, 30, 40)
    other = "ITU709" if matrix == "ITU601" else "ITU601"
    used = other if tagged else matrix
    picture = np.full((size[1], size[0], 3), colour, dtype=np.uint8)
    path = tmp_path / "colour.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10, options={"crf": "10", "preset": "ultrafast"})
        stream.width, stream.height = size
        if tagged:
            stream.codec_context.colorspace = {"ITU709": 1, "ITU601": 6}[used]
        for _ in range(3):
            frame = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(format="yuv420p", dst_colorspace=used)
            if not tagged:
                frame.colorspace = 2
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with Video(path) as video:
        assert np.abs(video.frames([0])[0].astype(int) - colour).max() <= 4
