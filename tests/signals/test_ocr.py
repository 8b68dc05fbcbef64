"""What is written, read by the packaged models off slides and signs."""

import numpy as np
import pytest

from reelspace.media.reader import Reader
from reelspace.media.windows import Window
from reelspace.signals.ocr import Ocr, _pieces, changed, detail_of
from talks import sign, slide, write_talk

SLIDES = (("Pricing", "Discounts for students"), ("Roadmap", "Offline maps in March"))


@pytest.fixture(scope="module")
def finder():
    return Ocr()


@pytest.fixture(scope="module")
def reader():
    with Reader() as opened:
        yield opened


def noise(seed=0, size=(360, 640)):
    """A picture without text: soft random blots."""
    blots = np.random.default_rng(seed).integers(40, 215, (9, 16, 3)).astype(np.uint8)
    return np.kron(blots, np.ones((size[0] // 9, size[1] // 16, 1), np.uint8))


def test_slides_are_read_for_as_long_as_they_are_shown(finder, reader, tmp_path):
    def picture(time):
        return slide(*SLIDES[0 if time < 4 else 1], size=(480, 270))

    path = write_talk(tmp_path / "talk.mp4", 8.0, picture=picture, size=(480, 270), fps=2)
    # One window in which the text changes; and one more that shows the same as its end.
    found = finder.find(path, 8.0, [Window(0.0, 6.0), Window(6.0, 8.0)], reader, lambda share: None)
    assert [(p.start, p.end, p.text) for p in found.passages] == [
        (0.0, 4.0, "Pricing / Discounts for students"),
        (4.0, 8.0, "Roadmap / Offline maps in March"),
    ]
    line = found.lines[1]
    assert (line.text, line.start, line.end, line.source) == ("Discounts for students", 0.0, 4.0, "PP-OCRv6")
    assert [part.text for part in line.parts] == ["Discounts", "for", "students"]
    lefts = [part.box[0] for part in line.parts]
    assert lefts == sorted(lefts)
    assert all(0.2 < part.box[1] < part.box[3] < 0.6 for part in line.parts)


def test_a_sign_in_a_picture_is_read_and_a_picture_without_text_has_none(finder):
    look = finder.read(sign(noise(), "PLATFORM 9"), Window(0.0, 1.0))
    assert [line.text.replace(" ", "") for line in look.lines] == ["PLATFORM9"]
    assert finder.read(noise(), Window(0.0, 1.0)).lines == []


def test_what_moves_is_not_taken_for_text_that_changes():
    still = detail_of(slide(*SLIDES[0]))
    assert not changed(still, still).any()
    assert 0.01 < changed(still, detail_of(slide(*SLIDES[0], "One more line"))).mean() < 0.3
    assert changed(detail_of(noise(1)), detail_of(noise(2))).mean() > 0.3


def test_a_sign_that_stands_still_before_a_moving_picture_is_read_once(finder, reader, tmp_path, monkeypatch):
    read, looks = finder.read, []
    monkeypatch.setattr(finder, "read", lambda *given: looks.append(read(*given)) or looks[-1])
    path = write_talk(
        tmp_path / "moving.mp4", 8.0, picture=lambda time: sign(noise(int(time)), "EXIT 24"), size=(640, 360), fps=2
    )
    found = finder.find(path, 8.0, [Window(0.0, 8.0)], reader, lambda share: None)
    assert len(looks) == 1
    assert [(p.start, p.end) for p in found.passages] == [(0.0, 8.0)]


def test_a_sign_that_comes_into_a_moving_picture_is_read(finder, reader, tmp_path):
    def picture(time):
        return sign(noise(int(time)), "EXIT 24") if time >= 4 else noise(int(time))

    path = write_talk(tmp_path / "comes.mp4", 8.0, picture=picture, size=(640, 360), fps=2)
    found = finder.find(path, 8.0, [Window(0.0, 8.0)], reader, lambda share: None)
    assert [(p.start, p.end) for p in found.passages] == [(4.0, 8.0)]


def test_windows_are_looked_at_every_two_seconds():
    assert list(_pieces([Window(0.0, 5.0), Window(5.0, 6.0)])) == [
        (0.0, pytest.approx(5 / 3)),
        (pytest.approx(5 / 3), pytest.approx(10 / 3)),
        (pytest.approx(10 / 3), 5.0),
        (5.0, 6.0),
    ]
