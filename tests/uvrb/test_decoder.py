"""The object that stands in for torchcodec's decoder."""

import pickle

import numpy as np
import pytest

pytest.importorskip("torch")

from clips import Scene, read_barcodes, write_clip
from reelspace.errors import MediaError
from reelspace.item import Frames, Span
from reelspace.media.decode import Video
from reelspace.uvrb.decoder import VideoDecoder


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    path = tmp_path_factory.mktemp("decoder") / "clip.mp4"
    write_clip(path, scenes=[Scene(2, seed=1)], fps=10)
    return path


def numbers(batch):
    return read_barcodes(batch.data.permute(0, 2, 3, 1).numpy())


def test_it_says_what_the_video_is(clip):
    decoder = VideoDecoder(clip)
    with Video(clip) as video:
        facts = decoder.metadata
        assert (facts.num_frames, facts.width, facts.height) == (video.count, video.width, video.height)
        assert facts.end_stream_seconds == facts.duration_seconds == video.duration
        assert facts.average_fps == pytest.approx(10)
    assert len(decoder) == 20


def test_frames_by_number(clip):
    decoder = VideoDecoder(str(clip))
    batch = decoder.get_frames_at([7, 0, 7, -1])
    assert batch.data.shape[:2] == (4, 3) and batch.data.dtype.is_floating_point is False
    assert numbers(batch) == [7, 0, 7, 19]
    assert batch.pts_seconds.tolist() == pytest.approx([0.7, 0, 0.7, 1.9])
    assert batch.duration_seconds.tolist() == pytest.approx([0.1] * 4)
    assert numbers(decoder.get_frames_in_range(2, 8, 3)) == [2, 5]
    assert len(decoder.get_frames_at([])) == 0
    assert decoder[3].equal(decoder.get_frame_at(3).data) and decoder[2:4].shape[0] == 2
    assert len(list(decoder.get_all_frames())) == 20
    with pytest.raises(IndexError):
        decoder.get_frames_at([20])


def test_frames_by_time(clip):
    decoder = VideoDecoder(clip)
    assert numbers(decoder.get_frames_played_at([0.0, 0.1, 0.19, 1.99])) == [0, 1, 1, 19]
    assert numbers(decoder.get_frames_played_in_range(0.25, 0.5)) == [2, 3, 4]
    assert decoder.get_frame_played_at(0.35).pts_seconds == pytest.approx(0.3)
    with pytest.raises(IndexError):
        decoder.get_frame_played_at(2.5)


def test_a_stretch_bytes_and_frames(clip):
    stretch = VideoDecoder(Span(clip, 0.5, 1.0))
    assert numbers(stretch.get_all_frames()) == [5, 6, 7, 8, 9]
    assert stretch.metadata.duration_seconds == pytest.approx(0.5)
    assert stretch.get_frame_at(0).pts_seconds == pytest.approx(0)
    whole = VideoDecoder(clip.read_bytes())
    assert numbers(whole.get_frames_at([4])) == [4]
    pixels = np.stack([np.full((4, 6, 3), value, np.uint8) for value in (1, 2)])
    held = VideoDecoder(Frames(pixels, np.array([3.0, 3.5])), dimension_order="NHWC")
    assert held.metadata.num_frames == 2 and held[1].shape == (4, 6, 3)
    assert held.get_frame_played_at(0.6).data.unique().tolist() == [2]


def test_it_can_be_sent_to_another_process(clip):
    decoder = VideoDecoder(clip)
    len(decoder)
    assert numbers(pickle.loads(pickle.dumps(decoder)).get_frames_at([3])) == [3]


def test_what_is_no_video_is_said_when_it_is_opened(tmp_path):
    (tmp_path / "no.mp4").write_bytes(b"no video")
    with pytest.raises(MediaError):
        len(VideoDecoder(tmp_path / "no.mp4"))
