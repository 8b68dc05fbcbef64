import fcntl
import os
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest

from clips import Scene, cut_by_edit_list, pack_frames, write_animation, write_clip
from fields import SIZE, write_fields


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of file of the matrix."""

    name: str
    settings: dict = field(default_factory=dict)
    first: int = 0  # number of the first frame that is displayed
    cut: float | None = None  # cut out of a longer clip by an edit list
    packed: bool = False  # two frames in one packet, as DivX and XviD do
    lost: float = 0.0  # part of the file that is missing at its beginning, as when a broadcast is joined
    fields: str | None = None  # each picture coded as two fields, by this codec
    rate: float | None = None  # frames a second, where frames do not carry their times
    displayed: tuple[int, int] | None = None  # width and height, where they are not those of the settings

    def write(self, folder: Path) -> Path:
        """The file in this folder; processes that share the folder write each kind once."""
        path = folder / self.name
        if not path.exists():
            with (folder / f"{self.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not path.exists():
                    aside = folder / "unfinished" / self.name
                    aside.parent.mkdir(exist_ok=True)
                    self._write(aside).rename(path)
        return path

    def _write(self, path: Path) -> Path:
        if self.fields is not None:
            return write_fields(path, self.fields)
        if path.suffix == ".webp":
            return write_animation(path)
        whole = write_clip(path.with_name(f"whole-{self.name}"), **self.settings)
        if self.cut is not None:
            return cut_by_edit_list(whole, path, self.cut)
        if self.packed:
            return pack_frames(whole, path)
        data = whole.read_bytes()
        path.write_bytes(data[int(len(data) * self.lost) // 188 * 188 :])
        return path


# A phone's: 30 frames a second, some late, some missing, one held for a second.
UNEVEN = [0.0, 0.033, 0.07, 0.1, 0.15, 0.3, 0.33, 0.36, 0.4, 1.4, 1.43, 1.47, 1.5, 1.53, 1.6, 1.9, 2.0, 2.033, 2.1, 2.2]
OPEN_GOP = {"x264-params": "open-gop=1"}
HEVC_OPEN_GOP = {"x265-params": "log-level=none:keyint=15:open-gop=1:bframes=4"}
SHORT = {"seconds": 1.0}
CONSTANT = {"x264-params": "force-cfr=1"}
INTERLACED = {"b": "4M", "flags": "+ildct+ilme"}
# As people encode what a camera saw: grain and pans, arithmetic coding, frames that refer to many others.
BUSY = {"scenes": [Scene(1, seed=7, pan=0.3, grain=9), Scene(0.7, seed=8, pan=0.2, grain=9)], "gop": 20, "bframes": 3}
MEDIUM = {"preset": "medium", "crf": "23", "sc_threshold": "40"}
ALT_REF = {"auto-alt-ref": "1", "lag-in-frames": "16", "b": "1M", "cpu-used": "5"}  # frames that are never shown

KINDS = [
    Kind("plain.mp4"),
    Kind("ntsc.mp4", {"fps": Fraction(30000, 1001)}),
    Kind("film.mkv", {"fps": Fraction(24000, 1001), "gop": 48, "bframes": 3}),
    Kind("open-gop.mp4", {"bframes": 3, "options": OPEN_GOP}),
    Kind("open-gop.ts", {"bframes": 3, "options": OPEN_GOP, "start": 5.0}),
    Kind("intra-refresh.mkv", {"bframes": 0, "options": {"x264-params": "intra-refresh=1"}}),
    Kind("rotated-90.mp4", {"rotation": 90}),
    Kind("rotated-180.mov", {"rotation": 180}),
    Kind("rotated-270.mov", {"rotation": 270, "audio": True}),
    Kind("mirrored.mp4", {"mirror": True}),
    Kind("rotated-and-mirrored.mp4", {"rotation": 270, "mirror": True}),
    Kind("uneven.mp4", {"times": UNEVEN}),
    Kind("uneven.mkv", {"times": UNEVEN, "bframes": 0}),
    Kind("with-sound.mp4", {"audio": True}),
    Kind("late-start.mp4", {"start": 1.5}),
    Kind("late-start.mkv", {"start": 30.0}),
    Kind("stream.ts", {"start": 1.0, "audio": True}),
    Kind("joined.ts", {"seconds": 4, "bframes": 3, "options": OPEN_GOP}, first=36, lost=0.23),
    Kind("joined-hevc.ts", {"seconds": 4, "codec": "libx265", "options": HEVC_OPEN_GOP}, first=30, lost=0.23),
    Kind("edit-list.mp4", {}, first=21, cut=0.7),
    Kind("edit-list-open-gop.mov", {"bframes": 3, "options": OPEN_GOP}, first=30, cut=1.0),
    Kind("hevc.mp4", {"codec": "libx265"}),
    Kind(
        "hevc-open-gop.mkv", {"codec": "libx265", "bframes": 4, "options": {"x265-params": "log-level=none:keyint=15"}}
    ),
    Kind("hevc-10-bit.mkv", {"codec": "libx265", "pix_fmt": "yuv420p10le"}),
    Kind("vp9.webm", {"codec": "libvpx-vp9"}),
    Kind(
        "vp8.webm",
        {"codec": "libvpx", "options": {"auto-alt-ref": "1", "lag-in-frames": "16", "b": "1M", "cpu-used": "5"}},
    ),
    Kind("av1.mp4", {"codec": "libsvtav1"}),
    Kind("odd-444.mkv", {"size": (321, 181), "pix_fmt": "yuv444p"}),
    Kind("tiny.mp4", {"size": (72, 40), "seconds": 0.5}),
    Kind("anamorphic.mp4", {"pixel_aspect": Fraction(4, 3)}),
    Kind("anamorphic-rotated.mp4", {"pixel_aspect": Fraction(3, 4), "rotation": 90}),
    Kind("one-frame.mp4", {"seconds": 1 / 30}),
    Kind("mpeg4.avi", {"codec": "mpeg4", "fps": 25}),
    Kind("packed.avi", {"codec": "mpeg4", "fps": 25, "bframes": 1}, packed=True),
    Kind("vp8.ogv", {"codec": "libvpx", "options": {"deadline": "realtime", "cpu-used": "8", "b": "1M"}}),
    Kind("mpeg2.mpg", {"codec": "mpeg2video", "fps": 25, "options": {"b": "4M"}}),
    Kind("mjpeg.mov", {"codec": "mjpeg", "bframes": 0}),
    Kind("prores.mov", {"codec": "prores_ks", "pix_fmt": "yuv422p10le", "bframes": 0}),
    Kind("animation.gif", {"codec": "gif", "pix_fmt": "rgb8", "fps": 10}),
    Kind("animation.apng", {"codec": "apng", "pix_fmt": "rgb24", "fps": 10}),
    Kind("animation.webp"),
    # Bare streams: H.264 and HEVC say no times but perhaps a rate, others not even that; then it is 25.
    Kind("bare.h264", {"fps": 24, "options": CONSTANT, "bframes": 3} | SHORT, rate=24),
    Kind("bare-open-gop.h264", {"fps": 24, "options": {"x264-params": "force-cfr=1:open-gop=1"}} | SHORT, rate=24),
    Kind("bare-without-rate.h264", {"fps": 24} | SHORT, rate=25),
    Kind("bare.h265", {"codec": "libx265", "fps": 24} | SHORT, rate=24),
    Kind("bare.m2v", {"codec": "mpeg2video", "fps": 30, "options": {"b": "4M"}} | SHORT),
    Kind("bare.mpeg4", {"codec": "mpeg4", "fps": 24, "container": "m4v"} | SHORT, rate=24),
    Kind("bare.mjpeg", {"codec": "mjpeg", "fps": 24, "bframes": 0} | SHORT),
    Kind("bare.ivf", {"codec": "libvpx-vp9", "fps": 24, "options": ALT_REF} | SHORT),
    Kind("bare-av1.ivf", {"codec": "libsvtav1", "fps": 24} | SHORT),
    Kind("bare.obu", {"codec": "libsvtav1", "fps": 24} | SHORT),
    # Fields: woven into frames, or pictures of their own.
    Kind("interlaced.mp4", {"options": {"x264-params": "tff=1"}, "fps": 25} | SHORT),
    Kind("interlaced.ts", {"options": {"x264-params": "bff=1"}, "fps": 25} | SHORT),
    Kind("interlaced.mpg", {"codec": "mpeg2video", "options": INTERLACED, "fps": 25} | SHORT),
    Kind("interlaced.dv", {"codec": "dvvideo", "fps": 25, "size": (720, 576), "seconds": 0.2}, displayed=(768, 576)),
    Kind("fields.h264", {"size": SIZE}, fields="h264", rate=25),
    Kind("fields.mp4", {"size": SIZE}, fields="h264"),
    Kind("fields.mkv", {"size": SIZE}, fields="h264"),
    Kind("fields.ts", {"size": SIZE}, fields="h264"),
    Kind("fields.m2v", {"size": SIZE}, fields="mpeg2video"),
    Kind("fields.mpg", {"size": SIZE}, fields="mpeg2video"),
    Kind("fields-mpeg2.ts", {"size": SIZE}, fields="mpeg2video"),
    # Containers that tell when packets are decoded, not when frames are shown.
    Kind("b-frames.avi", {"fps": 25} | SHORT, rate=25),
    Kind("b-frames-mpeg4.avi", {"codec": "mpeg4", "fps": 25} | SHORT),
    Kind("b-frames.wmv", {"fps": 25} | SHORT, rate=25),
    Kind("b-frames.mxf", {"fps": 25} | SHORT, rate=25),
    Kind("mpeg2.mxf", {"codec": "mpeg2video", "fps": 25, "options": {"b": "4M"}} | SHORT),
    Kind("wmv2.wmv", {"codec": "wmv2", "fps": 25, "bframes": 0} | SHORT),
    # Starts: before zero (the file hides what is), at zero, and just before a transport stream's clock runs over.
    Kind("early-start.mp4", {"start": -0.5}, first=15),
    Kind("clock-runs-over.ts", {"start": 95443.0}),
    # More containers and codecs.
    Kind("plain.flv", SHORT),
    Kind("plain.m2ts", {"audio": True} | SHORT),
    Kind("plain.3gp", SHORT),
    Kind("plain.nut", SHORT),
    Kind("fragmented.mp4", {"container_options": {"movflags": "frag_keyframe+empty_moov"}} | SHORT),
    Kind("live.webm", {"codec": "libvpx-vp9", "container_options": {"live": "1"}} | SHORT),  # of unknown length
    Kind("alt-ref.webm", {"codec": "libvpx-vp9", "options": ALT_REF | {"deadline": "good"}} | SHORT),
    Kind("av1.mkv", {"codec": "libsvtav1", "pix_fmt": "yuv420p10le"} | SHORT),
    Kind("hevc-444.mp4", {"codec": "libx265", "size": (321, 181), "pix_fmt": "yuv444p"} | SHORT),
    Kind("hevc-422-12-bit.mkv", {"codec": "libx265", "pix_fmt": "yuv422p12le"} | SHORT),
    Kind("odd.webm", {"codec": "libvpx-vp9", "size": (427, 241)} | SHORT),
    Kind("odd.mkv", {"codec": "libsvtav1", "size": (321, 181)} | SHORT),
    Kind("lossless.mkv", {"codec": "ffv1", "pix_fmt": "gray", "size": (319, 179)} | SHORT),
    Kind("huffyuv.avi", {"codec": "huffyuv", "pix_fmt": "yuv422p", "fps": 25, "bframes": 0} | SHORT),
    Kind("png.mov", {"codec": "png", "pix_fmt": "rgb24", "bframes": 0} | SHORT),
    Kind("transparent.mov", {"codec": "prores_ks", "pix_fmt": "yuva444p10le", "bframes": 0} | SHORT),
    # Busy content: every tool of the codec is at work.
    Kind("busy.mp4", BUSY | {"options": MEDIUM}),
    Kind("busy.ts", BUSY | {"options": MEDIUM | {"x264-params": "open-gop=1"}}),
    Kind("busy-slices.mkv", BUSY | {"options": MEDIUM | {"x264-params": "slices=4:weightp=2:ref=5"}}),
    Kind("busy.mkv", BUSY | {"codec": "libx265", "options": {"preset": "medium", "x265-params": "log-level=none"}}),
    # Very small, very short, very long.
    Kind("small.mkv", {"codec": "ffv1", "pix_fmt": "bgr0", "size": (18, 8)} | SHORT),
    Kind("two-frames.mp4", {"seconds": 2 / 30}),
    Kind("three-frames.mkv", {"codec": "libx265", "seconds": 0.05, "fps": 60}),
    Kind("one-frame.ts", {"seconds": 1 / 30}),
    Kind("one-frame.webm", {"codec": "libvpx-vp9", "seconds": 1 / 30}),
    Kind("one-frame.gif", {"codec": "gif", "pix_fmt": "rgb8", "seconds": 0.1, "fps": 10}),
    Kind("slides-for-hours.mp4", {"times": [0.0, 3600.0, 3601.0, 7200.0, 10800.0]}),
    Kind("slides-for-hours.mkv", {"times": [0.0, 3600.0, 3601.0, 7200.0, 10800.0], "bframes": 0}),
]


@pytest.fixture(scope="session")
def matrix(tmp_path_factory):
    """Folder in which the kinds are written as they are asked for, one for all processes of a run."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "matrix"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def kinds():
    """The kinds by name."""
    return {kind.name: kind for kind in KINDS}


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request):
    return request.param


@pytest.fixture
def clip(kind, matrix):
    return kind.write(matrix)
