import os
import shutil

import numpy as np
import pytest

from reelspace.item import Frames, Item, Span
from reelspace.uvrb.cache import KEY, Contents, VectorCache, key

SPACE = {"fingerprint": "f", "frames": "uniform(8)"}


def vector(seed):
    return np.random.default_rng(seed).standard_normal(4).astype(np.float32)


def name(number):
    return bytes([number]) * KEY


def test_what_is_added_is_found_again_by_another_process_bit_for_bit(tmp_path):
    with VectorCache(tmp_path, 4, SPACE) as cache:
        cache.add([name(1), name(2)], np.stack([vector(1), vector(2)]))
    with VectorCache(tmp_path, 4, SPACE) as again:
        assert name(1) in again and name(3) not in again
        assert again.get(name(2)).tobytes() == vector(2).tobytes()
        assert again.get(name(3)) is None


@pytest.mark.parametrize("other", [{"fingerprint": "g"}, {"frames": "uniform(16)"}])
def test_another_model_or_protocol_is_another_space(tmp_path, other):
    with VectorCache(tmp_path, 4, SPACE) as cache:
        cache.add([name(1)], vector(1)[None])
    with VectorCache(tmp_path, 4, SPACE | other) as cache:
        assert name(1) not in cache


def test_writers_at_the_same_time_do_not_meet(tmp_path):
    with VectorCache(tmp_path, 4, SPACE) as one, VectorCache(tmp_path, 4, SPACE) as two:
        one.add([name(1)], vector(1)[None])
        two.add([name(2), name(1)], np.stack([vector(2), vector(1)]))
        one.refresh()
        assert one.get(name(2)).tobytes() == vector(2).tobytes()


@pytest.mark.parametrize("left", [0, 1, KEY + 3, -1])
def test_a_record_that_a_killed_process_left_in_part_is_not_read(tmp_path, left):
    with VectorCache(tmp_path, 4, SPACE) as cache:
        cache.add([name(1), name(2)], np.stack([vector(1), vector(2)]))
        size = KEY + 4 * 4 + 4
    (path,) = tmp_path.rglob("*.vectors")
    os.truncate(path, size + (left if left >= 0 else size + left))
    with VectorCache(tmp_path, 4, SPACE) as again:
        assert again.get(name(1)).tobytes() == vector(1).tobytes()
        assert again.get(name(2)) is None


def test_a_damaged_record_is_not_believed(tmp_path):
    with VectorCache(tmp_path, 4, SPACE) as cache:
        cache.add([name(1)], vector(1)[None])
    (path,) = tmp_path.rglob("*.vectors")
    content = bytearray(path.read_bytes())
    content[KEY + 2] ^= 1
    path.write_bytes(content)
    with VectorCache(tmp_path, 4, SPACE) as again:
        assert again.get(name(1)) is None


def test_nothing_is_kept_without_a_folder(tmp_path):
    with VectorCache(None, 4, SPACE) as cache:
        cache.add([name(1)], vector(1)[None])
        assert cache.get(name(1)).tobytes() == vector(1).tobytes()
    assert not list(tmp_path.iterdir())


def test_content_counts_and_no_name(tmp_path):
    one, two = tmp_path / "one.mp4", tmp_path / "two.mp4"
    one.write_bytes(b"a" * 100)
    shutil.copy(one, two)
    contents = Contents(tmp_path)
    before = contents.of(Item(video=one))
    assert before == contents.of(Item(video=two))
    assert before != contents.of(Item(video=Span(one, 1)))
    assert before != contents.of(Item(text="a", video=one))
    assert contents.of(Item(text="a")) != contents.of(Item(text="b"))
    contents.close()


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_another(tmp_path):
    path = tmp_path / "one.mp4"
    path.write_bytes(b"a" * 100)
    status = path.stat()
    contents = Contents(tmp_path)
    before = contents.of(Item(video=path))
    contents.close()
    path.write_bytes(b"b" * 100)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    again = Contents(tmp_path)
    assert again.of(Item(video=path)) != before
    again.close()


def test_known_files_are_not_read_again(tmp_path, monkeypatch):
    path = tmp_path / "one.mp4"
    path.write_bytes(b"a" * 100)
    contents = Contents(tmp_path)
    before = contents.of(Item(video=path))
    contents.close()
    monkeypatch.setattr("reelspace.uvrb.cache.content_hash", None)
    assert Contents(tmp_path).of(Item(video=path)) == before


def test_pixels_and_times_count(tmp_path):
    pixels = np.zeros((2, 4, 4, 3), dtype=np.uint8)
    contents = Contents()
    one = contents.of(Item(video=Frames(pixels, np.array([0.0, 1.0]))))
    assert one != contents.of(Item(video=Frames(pixels, np.array([0.0, 2.0]))))
    assert one != contents.of(Item(video=Frames(pixels + 1, np.array([0.0, 1.0]))))
    assert contents.of(Item(image=pixels[0])) != contents.of(Item(image=pixels[0] + 1))


def test_the_instruction_and_the_side_are_part_of_a_key():
    made = {key(side, told, name(1)) for side in ("query", "candidate") for told in (None, "", "Find it.", "Find.")}
    assert len(made) == 8
