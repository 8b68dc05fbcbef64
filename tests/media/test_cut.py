"""Cuts, judged by the number burnt into every frame."""

import av
import numpy as np
import pytest

from clips import Scene, cut_by_edit_list, every_frame, read_barcode, write_animation, write_clip
from reelspace.errors import MediaError
from reelspace.item import Span
from reelspace.media.cut import cut, cut_name


def numbers(path, **turned):
    return every_frame(path, **turned)[0]


def duration(path):
    with av.open(str(path)) as container:
        return container.duration / av.time_base


def tone(path):
    """Decoded samples of the first sound track, and the time of the first."""
    with av.open(str(path)) as container:
        frames = list(container.decode(audio=0))
    return np.concatenate([frame.to_ndarray()[0] for frame in frames]), frames[0].time


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv"])
def test_an_exact_cut_has_the_very_frames(tmp_path, suffix):
    source = write_clip(tmp_path / "source.mp4", seconds=3, fps=30, audio=True)
    made = cut(Span(source, 0.5, 1.5), tmp_path / f"out{suffix}", exact=True)
    assert numbers(made.path) == list(range(15, 45))
    assert (made.start, made.end) == (0.5, 1.5)
    assert duration(made.path) == pytest.approx(1.0, abs=0.03)


def test_an_exact_cut_begins_with_the_frame_on_screen_and_keeps_its_share(tmp_path):
    times = [0, 0.1, 0.15, 0.6, 0.7, 1.5, 1.6]
    source = write_clip(tmp_path / "vfr.mp4", times=times)
    made = cut(Span(source, 0.4, 1.55), tmp_path / "out.mp4", exact=True)
    shown, at = every_frame(made.path)
    assert shown == [2, 3, 4, 5]
    assert at == pytest.approx([0, 0.2, 0.3, 1.1], abs=1e-4)
    assert duration(made.path) == pytest.approx(1.15, abs=0.01)


def test_an_animation_is_cut_as_any_other_video(tmp_path):
    source = write_animation(tmp_path / "animation.webp")
    made = cut(Span(source, 0.04, 0.15), tmp_path / "out.mp4", exact=True)
    assert every_frame(made.path)[1] == pytest.approx([0, 0.05], abs=1e-3)
    assert numbers(made.path) == [1, 2]
    assert numbers(cut(Span(source), tmp_path / "out.mkv").path) == list(range(12))


@pytest.mark.parametrize(("rotation", "mirror"), [(90, False), (180, False), (270, False), (90, True), (0, True)])
@pytest.mark.parametrize("exact", [True, False])
def test_a_cut_stays_upright(tmp_path, rotation, mirror, exact):
    source = write_clip(
        tmp_path / "phone.mov", seconds=2, fps=24, gop=12, size=(180, 320), rotation=rotation, mirror=mirror
    )
    made = cut(Span(source, 0.5, 1), tmp_path / "out.mp4", exact=exact)
    with av.open(str(made.path)) as container:
        assert next(container.decode(video=0)).rotation % 360 == rotation or mirror
    shown = numbers(made.path, rotation=rotation, mirror=mirror)
    assert shown[:12] == list(range(12, 24))
    assert not exact or len(shown) == 12


def test_sound_stays_with_its_picture(tmp_path):
    source = write_clip(tmp_path / "source.mp4", seconds=3, audio=True)
    original, _ = tone(source)
    made = cut(Span(source, 0.7, 1.7), tmp_path / "exact.mp4", exact=True)
    samples, at = tone(made.path)
    assert at == pytest.approx(0, abs=0.025)
    assert len(samples) / 48_000 == pytest.approx(1.0, abs=0.05)
    assert np.abs(samples).max() == pytest.approx(np.abs(original).max(), rel=0.2)

    made = cut(Span(source, 0.7, 1.7), tmp_path / "copy.mp4")
    samples, at = tone(made.path)
    assert len(samples) / 48_000 == pytest.approx(1.7 - made.start, abs=0.1)
    assert at == pytest.approx(0, abs=0.05)


def test_a_copy_begins_at_the_key_frame_before_and_says_so(tmp_path):
    source = write_clip(tmp_path / "source.mp4", seconds=4, fps=30, gop=30, bframes=3, audio=True)
    made = cut(Span(source, 1.5, 2.5), tmp_path / "out.mp4")
    shown = numbers(made.path)
    assert shown[0] == 30
    assert made.start == pytest.approx(1.0)
    assert shown == list(range(30, 30 + len(shown)))
    assert 75 <= 30 + len(shown) <= 79  # at most the frames that the last shown one refers to
    assert made.end == pytest.approx((30 + len(shown)) / 30)


@pytest.mark.parametrize("at", [0, 0.9, 1.0, 1.02, 2.99])
def test_a_copy_begins_at_the_last_key_frame_wherever_it_is(tmp_path, at):
    source = write_clip(tmp_path / "source.ts", seconds=4, fps=30, gop=30, bframes=2)
    made = cut(Span(source, at, 3.5), tmp_path / "out.mkv")
    first = numbers(made.path)[0]
    assert first == int(at) * 30
    assert made.start == pytest.approx(first / 30, abs=1e-3)


def test_open_groups_of_pictures_lose_no_frame_and_gain_no_broken_one(tmp_path):
    options = {"x264-params": "open-gop=1:keyint=24:min-keyint=24:bframes=3:scenecut=0"}
    source = write_clip(tmp_path / "open.mp4", seconds=4, fps=24, bframes=3, gop=24, options=options)
    for exact in (False, True):
        made = cut(Span(source, 1.25, 2.75), tmp_path / f"{exact}.mp4", exact=exact)
        shown = numbers(made.path)
        assert shown == list(range(round(made.start * 24), round(made.start * 24) + len(shown)))
        assert shown[0] <= 30 and shown[-1] >= 65


@pytest.mark.parametrize("exact", [True, False])
def test_edit_lists_are_respected(tmp_path, exact):
    source = write_clip(tmp_path / "source.mp4", seconds=4, fps=30, gop=30)
    edited = cut_by_edit_list(source, tmp_path / "edited.mp4", 0.2)
    assert numbers(edited)[0] == 6
    made = cut(Span(edited, 0, 1), tmp_path / "out.mp4", exact=exact)
    shown = numbers(made.path)
    assert shown[0] == 6
    assert made.start == 0
    made = cut(Span(edited, 1.5, 2), tmp_path / "later.mp4", exact=exact)
    assert numbers(made.path)[0] == (51 if exact else 30)


def test_a_start_that_is_not_zero_is_the_origin(tmp_path):
    source = write_clip(tmp_path / "late.mkv", seconds=3, start=5)
    assert numbers(cut(Span(source, 1, 2), tmp_path / "out.mp4", exact=True).path) == list(range(30, 60))
    made = cut(Span(source, 0, 1), tmp_path / "copy.mp4")
    assert made.start == 0
    assert numbers(made.path)[:30] == list(range(30))


@pytest.mark.parametrize(
    ("codec", "suffix", "pix_fmt", "size"),
    [
        ("libvpx-vp9", ".webm", "yuv420p", (427, 241)),
        ("libx265", ".mkv", "yuv420p10le", (320, 180)),
        ("libx264", ".mp4", "yuv444p", (333, 181)),
    ],
)
def test_other_codecs_and_odd_sizes(tmp_path, codec, suffix, pix_fmt, size):
    source = write_clip(tmp_path / f"source{suffix}", seconds=2, codec=codec, pix_fmt=pix_fmt, size=size)
    made = cut(Span(source, 0.5, 1), tmp_path / f"out{suffix}", exact=True)
    assert numbers(made.path) == list(range(15, 30))
    assert numbers(cut(Span(source, 0.5, 1), tmp_path / f"copy{suffix}").path)[0] == 12


def test_colour_survives(tmp_path):
    source = write_clip(tmp_path / "red.mp4", scenes=[Scene(1, (200, 40, 40))], barcode=False)
    made = cut(Span(source, 0.2, 0.6), tmp_path / "out.mp4", exact=True)
    with av.open(str(made.path)) as container:
        picture = next(container.decode(video=0)).to_ndarray(format="rgb24")
    assert np.abs(picture.mean(axis=(0, 1)) - (200, 40, 40)).max() < 4
    assert read_barcode(picture) is None


def test_to_the_end_and_beyond(tmp_path):
    source = write_clip(tmp_path / "source.mp4", seconds=2)
    for exact in (True, False):
        assert numbers(cut(Span(source, 1.6), tmp_path / f"{exact}.mp4", exact=exact).path)[-1] == 59
        assert cut(Span(source, 1.6, 99), tmp_path / f"{exact}2.mp4", exact=exact).end == pytest.approx(2)
        with pytest.raises(MediaError, match="ends before 7 s"):
            cut(Span(source, 7, 9), tmp_path / f"{exact}3.mp4", exact=exact)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "False.mp4",
        "False2.mp4",
        "True.mp4",
        "True2.mp4",
        "source.mp4",
    ]


def test_nothing_is_overwritten_unasked_and_never_the_source(tmp_path):
    source = write_clip(tmp_path / "source.mp4", seconds=1)
    other = tmp_path / "other.mp4"
    other.write_bytes(b"mine")
    with pytest.raises(MediaError, match="is there already"):
        cut(Span(source, 0, 0.5), other)
    assert other.read_bytes() == b"mine"
    assert cut(Span(source, 0, 0.5), other, overwrite=True).path == other
    assert numbers(other)[0] == 0
    before = source.read_bytes()
    with pytest.raises(MediaError, match="in place"):
        cut(Span(source, 0, 0.5), source, overwrite=True)
    assert source.read_bytes() == before


@pytest.mark.parametrize("exact", [True, False])
def test_a_failure_leaves_nothing_behind(tmp_path, exact):
    junk = tmp_path / "junk.mp4"
    junk.write_bytes(b"junk" * 1000)
    for source, out in ((junk, "out.mp4"), (tmp_path / "none.mp4", "out.mp4"), (junk, "out.txt"), (junk, "no/out.mp4")):
        with pytest.raises(MediaError, match=r"junk|none|out|no: there is no such folder"):
            cut(Span(source, 0, 1), tmp_path / out, exact=exact)
    assert list(tmp_path.iterdir()) == [junk]


def test_a_container_that_cannot_hold_the_codec_says_what_to_do(tmp_path):
    source = write_clip(tmp_path / "source.mp4", seconds=1)
    with pytest.raises(MediaError, match=r"\.mkv.*--exact"):
        cut(Span(source, 0, 0.5), tmp_path / "out.webm")
    assert numbers(cut(Span(source, 0, 0.2), tmp_path / "out.webm", exact=True).path) == list(range(6))


def test_a_transport_stream_is_copied_with_its_sound(tmp_path):
    source = write_clip(tmp_path / "source.ts", seconds=4, gop=30, audio=True)
    made = cut(Span(source, 1.5, 2.5), tmp_path / "out.mp4")
    assert numbers(made.path)[0] == 30
    samples, at = tone(made.path)
    assert at == pytest.approx(0, abs=0.06)
    assert len(samples) / 48_000 == pytest.approx(made.end - made.start, abs=0.15)


def test_names_of_cuts():
    assert len(cut_name(Span("/a/" + "猫" * 80 + ".mp4", 4.2, 69.8)).encode()) < 255
    assert cut_name(Span("/a/dog.mp4", 4.2, 69.8)) == "dog 0m04.20s-1m09.80s.mp4"
    assert cut_name(Span("/a/dog.ts", 1, 2)) == "dog 0m01.00s-0m02.00s.mkv"


@pytest.mark.parametrize("start", [0.2, 1.5])
def test_an_exact_cut_of_an_avi_whose_stamps_are_only_an_order(tmp_path, start):
    source = write_clip(tmp_path / "source.avi", seconds=3, fps=30, bframes=2, audio=True)
    made = cut(Span(source, start, start + 1), tmp_path / "out.mp4", exact=True)
    assert numbers(made.path) == list(range(round(start * 30), round(start * 30) + 30))
    with pytest.raises(MediaError, match="--exact"):
        cut(Span(source, start, start + 1), tmp_path / "copy.mkv")


def test_an_avi_is_copied_from_its_beginning(tmp_path):
    source = write_clip(tmp_path / "source.avi", seconds=3, fps=30, codec="mpeg4", bframes=0)
    made = cut(Span(source, 0.2, 1), tmp_path / "out.mkv")
    assert numbers(made.path)[:3] == [round(made.start * 30) + more for more in range(3)]
