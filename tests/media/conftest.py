from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest

from clips import cut_by_edit_list, pack_frames, write_clip


@dataclass(frozen=True)
class Kind:
    """One kind of file of the matrix."""

    name: str
    settings: dict = field(default_factory=dict)
    first: int = 0  # number of the first frame that is displayed
    cut: float | None = None  # cut out of a longer clip by an edit list
    packed: bool = False  # two frames in one packet, as DivX and XviD do
    lost: float = 0.0  # part of the file that is missing at its beginning, as when a broadcast is joined

    def write(self, folder: Path) -> Path:
        path = folder / self.name
        if path.exists():
            return path
        whole = write_clip(folder / f"whole-{self.name}", **self.settings)
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
]


@pytest.fixture(scope="session")
def matrix(tmp_path_factory):
    """Folder in which the kinds are written as they are asked for."""
    return tmp_path_factory.mktemp("matrix")


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request):
    return request.param


@pytest.fixture
def clip(kind, matrix):
    return kind.write(matrix)
