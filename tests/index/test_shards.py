"""Shards and their merge: whatever order things come in, the library is what one run of `index` would have made."""

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sketch
from conftest import colour_clip
from conftest import whole_content as content
from reelspace import Library
from reelspace.errors import LibraryError, ModelError, ReelspaceError
from reelspace.index import jobs
from reelspace.index.jobs import divided
from reelspace.index.lock import sharding, writing
from reelspace.index.shards import ShardJob, share_of, takes
from reelspace.index.survey import Candidate
from reelspace.index.walk import Root
from reelspace.media.reader import Reader
from reelspace.media.windows import Fixed
from reelspace.shard import Shard, parse_shard


def shards(location, *paths, of=2, **options):
    """Runs every shard; their reports."""
    return [Library.index_shard(f"{number}/{of}", *paths, location=location, **options) for number in range(1, of + 1)]


def total(reports, name):
    return sum(getattr(report, name) for report in reports)


@pytest.fixture(scope="module")
def workers():
    with Reader() as reader:
        yield reader


@pytest.fixture(autouse=True)
def _shared_workers(workers, monkeypatch):
    """One set of decoding processes for the whole module: starting them is most of what these tests cost."""

    monkeypatch.setattr(Reader, "__exit__", lambda *_: None)
    monkeypatch.setattr(Reader, "close", lambda _: None)
    monkeypatch.setattr("reelspace.media.reader.Reader", lambda: workers)


@pytest.fixture
def mixed(folder):
    """Videos, copies of them, and what is none."""
    for number in range(4):  # in whichever shards their names put them
        shutil.copy(folder / "red.mp4", folder / f"copy{number}.mp4")
    (folder / "junk.mp4").write_bytes(b"no video at all" * 20)
    (folder / "notes.txt").write_text("x")
    colour_clip(folder / "half.mp4", "red", "black", seconds=3.0)  # the black window has no vector
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xff.mp4")).write_bytes((folder / "grey.mp4").read_bytes())
    return folder


@pytest.fixture
def location(tmp_path, plugin):
    return tmp_path / "sharded"


@pytest.fixture
def inherited(plugin, monkeypatch):
    """Processes that are started know the models of the tests."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(plugin), str(Path(sketch.__file__).parent)]))


# Which files are whose


@given(st.lists(st.text(max_size=8), max_size=50), st.integers(1, 9))
def test_every_file_belongs_to_one_shard(names, of):
    for name in names:
        assert sum(takes(shard, name) for shard in Shard(1, of).all()) == 1


def test_a_shard_takes_about_its_share_and_the_same_one_wherever_the_folder_is():
    names = [f"{number}/clip.mp4" for number in range(4000)]
    counts = [sum(takes(shard, name) for name in names) for shard in Shard(1, 4).all()]
    assert min(counts) > 900
    outer, inner = Root("/a"), Root("/a/b")
    assert share_of("/a/b/c.mp4", [inner, outer]) == share_of("/a/b/c.mp4", [outer]) == "b/c.mp4"
    assert share_of("/x/b/c.mp4", [Root("/x")]) == "b/c.mp4"
    assert share_of("/x/c.mp4", [Root("/x/c.mp4")]) == "c.mp4"


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "a/b", "-1/2", "1/2/3"])
def test_what_is_no_shard_is_said(text):
    with pytest.raises(ReelspaceError, match="counted from 1"):
        parse_shard(text)


def test_a_shard_is_read_as_it_is_written():
    assert parse_shard(" 2/8 ") == Shard(2, 8)
    assert str(Shard(2, 8)) == "2/8"


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.integers(0, 1000), max_size=30), st.integers(1, 6))
def test_work_is_divided_evenly_with_nothing_lost_and_nothing_twice(sizes, count):
    work = [Candidate(path, size, None) for path, size in sizes.items()]
    shares = divided(work, count)
    assert sorted(one.path for share in shares for one in share) == sorted(sizes)
    assert all(shares) and len(shares) == min(count, len(work))
    sums = [sum(one.size for one in share) for share in shares]
    assert not sums or max(sums) - min(sums) <= max(sizes.values()) + len(work)
    assert shares == divided(work[::-1], count)


def test_a_job_survives_json():
    odd = os.fsdecode(b"/v/caf\xff.mp4")
    job = ShardJob("/l", Shard(2, 3), (Root(odd, ("*.mp4",), ("raw",), True),), (odd,), "m", "fixed(10, 5)", True)
    assert ShardJob.from_json(json.loads(json.dumps(job.to_json()))) == job


# What comes of it


def test_shards_and_merge_make_what_one_run_makes(library, mixed, location):
    whole = library.index(mixed)
    reports = shards(location, mixed, of=3, model="sketch")
    assert total(reports, "failed") == 1
    assert all(report.embedded for report in reports)
    with Library.open(location) as merged:
        waiting = merged.status()
        assert (waiting.indexed, [work.shard for work in waiting.shards]) == (0, ["1/3", "2/3", "3/3"])
        assert sum(work.indexed for work in waiting.shards) == whole.embedded + whole.reused
        assert sum(work.failed for work in waiting.shards) == 1
        report = merged.merge()
        assert (report.shards, report.running, report.left) == (["1/3", "2/3", "3/3"], [], 0)
        assert (report.embedded, report.reused) == (whole.embedded, whole.reused)
        assert (report.partial, report.failed, report.windows) == (whole.partial, whole.failed, whole.windows)
        assert report.seconds == whole.seconds
        assert {(p.path, p.state) for p in report.problems} == {(p.path, p.state) for p in whole.problems}
        assert content(location) == content(library.path)
        assert merged.verify(sample=4).findings == []
        ours, theirs = merged.status(), library.status()
        assert ours.model_copy(update={"library": ""}) == theirs.model_copy(update={"library": ""})
        assert merged.search("red", k=50).hits == library.search("red", k=50).hits
        again = merged.merge()
        assert (again.shards, again.embedded, again.reused, again.failed, again.notes) == ([], 0, 0, 0, [])
        after = merged.index()
        assert (after.embedded, after.reused, after.unchanged) == (0, 0, whole.embedded + whole.reused)


def test_jobs_make_what_one_run_makes(library, mixed, location, inherited, monkeypatch):
    monkeypatch.setattr(jobs, "_LOOK", 0.0)  # whatever is there is merged at once
    whole, seen = library.index(mixed), []
    with Library.open(location, model="sketch") as other:
        report = other.index(mixed, jobs=2, progress=seen.append)
        assert report == whole.model_copy(update={"problems": report.problems})
        assert {(p.path, p.state) for p in report.problems} == {(p.path, p.state) for p in whole.problems}
        assert content(location) == content(library.path)
        assert seen[-1].files_done == seen[-1].files_total == whole.embedded + whole.reused + whole.failed
        assert seen[-1].bytes_done == seen[-1].bytes_total
        assert other.status().shards == []
        assert other.index(jobs=2).embedded == 0
        assert other.index(jobs=2, retry=True).failed == 1
        assert other.index(jobs=2, rehash=True).unchanged == whole.embedded + whole.reused
        assert content(location) == content(library.path)


def test_nothing_that_the_library_has_is_done_again(library, mixed):
    library.index(mixed, exclude=["b*", "g*"])
    before = library.status()
    reports = shards(library.path, mixed)
    assert (total(reports, "embedded"), total(reports, "unchanged")) == (3, before.indexed + before.failed)
    report = library.merge()
    assert (report.embedded, report.reused, report.failed, report.left) == (3, 1, 0, 0)
    library.index()
    assert total(shards(library.path), "embedded") == 0  # the folders are known, and all is done


def test_moved_files_keep_their_vectors(library, mixed):
    library.index(mixed)
    (mixed / "deep").mkdir()
    (mixed / "blue.mp4").rename(mixed / "deep" / "moved.mp4")
    reports = shards(library.path)
    assert (total(reports, "embedded"), total(reports, "reused")) == (0, 1)
    report = library.merge()
    assert (report.embedded, report.reused, report.left, library.status().missing) == (0, 1, 0, 0)
    assert Path(library.search("blue").hits[0].path).name == "moved.mp4"


def test_the_same_content_in_two_shards_becomes_one(location, tmp_path, colour_clips):
    folder = tmp_path / "same"
    folder.mkdir()
    for number in range(6):
        shutil.copy(colour_clips / "blue.mp4", folder / f"{number}.mp4")
    reports = shards(location, folder, model="sketch")
    assert [report.embedded for report in reports] == [1, 1]
    with Library.open(location) as merged:
        report = merged.merge()
        assert (report.embedded, report.reused, report.windows) == (1, 5, 1)
        status = merged.status()
        assert (status.indexed, status.videos, status.windows) == (6, 1, 1)


def test_another_model_by_shards(library, mixed):
    library.index(mixed)
    windows = content(library.path)[2]
    shards(library.path, model="sketch2")
    report = library.merge()
    assert (report.left, report.windows) == (0, len(windows) - 1)
    assert [(space.model, space.active, space.complete) for space in library.models()] == [
        ("sketch", True, True),
        ("sketch2", False, True),
    ]
    library.use("sketch2")
    assert library.search("red").model == "sketch2"
    assert library.verify(sample=4).findings == []
    expected = content(library.path)
    shutil.rmtree(library.path / "cache")
    assert library.index(model="sketch2").embedded == 0
    assert content(library.path) == expected


def test_a_file_that_another_model_cannot_read_any_more_stays_searchable(library, folder):
    library.index(folder)
    data = (folder / "red.mp4").read_bytes()
    os.utime(folder / "red.mp4", ns=(1, 1))  # bytes are looked at again
    (folder / "red.mp4").write_bytes(data)
    for report in shards(library.path, model="sketch2"):
        assert report.failed == 0
    assert library.merge().left == 0
    assert library.models()[1].complete


def test_a_model_that_has_changed_is_cut_over_when_all_is_merged(library, folder, monkeypatch):
    library.index(folder)
    old = library.models()[0].fingerprint
    monkeypatch.setattr(sketch.Sketch, "version", 2)
    Library.index_shard("1/2", location=library.path)
    with Library.open(library.path) as opened:
        assert opened.merge().left > 0
        assert next(space for space in opened.models() if space.active).fingerprint == old
        Library.index_shard("2/2", location=library.path)
        assert opened.merge().left == 0
        active = next(space for space in opened.models() if space.active)
        assert active.fingerprint != old and active.complete
        assert opened.search("red").hits


def test_fast_and_whole(library, folder):
    shards(library.path, folder, model="sketch", fast=True)
    assert library.merge().left == 0
    assert {row[-1] for row in content(library.path)[1]} == {"fast shots(2, 10)"}
    whole = shards(library.path)  # looks at the rest
    assert total(whole, "embedded") == 6
    assert library.merge().embedded == 6
    assert {row[-1] for row in content(library.path)[1]} == {"shots(2, 10)"}
    assert total(shards(library.path, fast=True), "embedded") == 0  # what was looked at whole stays so
    library.merge()
    assert {row[-1] for row in content(library.path)[1]} == {"shots(2, 10)"}
    assert library.verify(sample=4).findings == []


def test_other_windows_by_shards(library, folder):
    library.index(folder)
    shards(library.path, windowing=Fixed(1, 1))
    assert library.merge().embedded == 6
    assert library.status().windows == 27
    assert library.index().unchanged == 6


def test_globs_and_the_excluded_are_as_of_one_run(library, mixed, location):
    library.index(mixed, include=["*.mp4", "*.txt"], exclude=["copy*"])
    shards(location, mixed, include=["*.mp4", "*.txt"], exclude=["copy*"], model="sketch")
    with Library.open(location) as merged:
        merged.merge()
    assert content(location) == content(library.path)


def test_index_takes_in_what_shards_have_left(library, folder):
    Library.index_shard("1/2", folder, location=library.path, model="sketch")
    waiting = library.status().shards[0]
    report = library.index(folder)
    assert (report.embedded, report.windows, report.unchanged) == (6, 9, 0)
    assert 0 < waiting.indexed < 6
    assert library.status().shards == []
    assert library.index().unchanged == 6


# When something is in the way


def test_a_shard_at_work_is_left_alone(library, folder):
    shards(library.path, folder, model="sketch")
    part = library.path / "shards" / "2-of-2"
    with sharding(part):
        report = library.merge()
        assert (report.shards, report.running) == (["1/2"], ["2/2"])
        assert report.left > 0
        assert [(w.shard, w.running, w.indexed) for w in library.status().shards] == [("2/2", True, None)]
        assert library.search("red").hits  # in what is merged
        assert library.index(folder / "red.mp4").notes == ["Shard 2/2 is at work; a later run takes in what it does."]
        with pytest.raises(LibraryError, match=f"2-of-2 is being written by process {os.getpid()}"):
            Library.index_shard("2/2", folder, location=library.path)
    assert library.merge().shards == ["2/2"]
    assert library.status().indexed == 6


def test_shards_do_not_write_to_the_library(library, folder):
    library.index(folder)
    with writing(library.path):  # somebody else does
        assert total(shards(library.path), "unchanged") == 6
        with pytest.raises(LibraryError, match="being written"):
            library.merge()


def test_a_damaged_part_is_refused_and_kept(library, folder):
    shards(library.path, folder, model="sketch")
    broken = library.path / "shards" / "1-of-2" / "catalogue.sqlite"
    data = bytearray(broken.read_bytes())
    data[4096:] = b"\x55" * (len(data) - 4096)
    broken.write_bytes(data)
    report = library.merge()
    assert report.shards == ["2/2"]
    assert len(report.notes) == 1 and str(broken) in report.notes[0]
    assert broken.exists()
    assert library.verify(sample=2).findings == []
    assert library.status().shards[0].indexed is None
    assert library.index(folder).embedded + library.status().indexed >= 6  # the library does without it
    assert library.status().indexed == 6


def test_vectors_of_another_runtime_are_refused(library, folder, monkeypatch):
    library.index(folder / "grey.mp4", model="sketch")
    monkeypatch.setattr(sketch.Sketch, "_mirror", -1.0, raising=False)
    real = sketch.Sketch.__init__
    monkeypatch.setattr(sketch.Sketch, "__init__", lambda self, *_: real(self, "sketch", -1.0))
    with pytest.raises(ModelError, match="other vectors"):
        Library.index_shard("1/1", folder, location=library.path)  # it is noticed before any work is done
    apart = library.path.parent / "elsewhere"
    Library.index_shard("1/1", folder, location=apart, model="sketch")
    shutil.move(apart / "shards", library.path / "shards2")
    shutil.rmtree(library.path / "shards", ignore_errors=True)
    (library.path / "shards2").rename(library.path / "shards")
    report = library.merge()
    assert (report.shards, report.embedded) == ([], 0)
    assert "gave other vectors than the library's" in report.notes[0]


def test_a_file_that_has_changed_since_is_left_to_do(library, folder):
    shards(library.path, folder, model="sketch")
    colour_clip(folder / "red.mp4", "cyan", seconds=4.0)
    (folder / "blue.mp4").unlink()
    report = library.merge()
    assert report.left == 1
    status = library.status()
    assert (status.indexed, status.missing) == (5, 1)
    assert library.index().embedded == 1
    assert Path(library.search("cyan").hits[0].path).name == "red.mp4"


def test_what_the_library_knows_better_stays(library, folder):
    """A file replaced after a shard read it, and indexed since: the shard's knowledge is of old."""
    Library.index_shard("1/1", folder, location=library.path, model="sketch")
    (library.path / "shards").rename(library.path / "aside")
    colour_clip(folder / "red.mp4", "cyan")
    library.index(folder)
    before = content(library.path)
    shutil.rmtree(library.path / "shards", ignore_errors=True)
    (library.path / "aside").rename(library.path / "shards")
    library.merge()
    assert content(library.path)[0] == before[0]


def test_failed_files_are_retried_by_shards_only_when_asked(library, mixed):
    library.index(mixed)
    (mixed / "junk.mp4").write_bytes((mixed / "blue.mp4").read_bytes() + b"\0")
    os.utime(mixed / "junk.mp4", (5, 5))
    shards(library.path)
    assert library.merge().embedded == 1
    assert library.status().failed == 0


def test_roots_must_be_there(location, plugin, tmp_path):
    with pytest.raises(LibraryError, match="is not there"):
        Library.index_shard("1/2", tmp_path / "none", location=location, model="sketch")
    with pytest.raises(LibraryError, match="knows no folders"):
        Library.index_shard("1/2", location=location, model="sketch")
    assert not (location / "catalogue.sqlite").exists()


# Processes that end


def test_why_a_process_could_not_work_is_said(location, folder, monkeypatch, plugin):
    """The model is known here, and not where the processes look."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with Library.open(location, model="sketch") as library:
        with pytest.raises(LibraryError, match=r"Shard \d/2: There is no model “sketch”"):
            library.index(folder, jobs=2)
        assert library.status().indexed == 0
        assert library.index(folder).embedded == 6


def test_a_process_that_is_killed_costs_only_what_it_had_in_hand(location, mixed, inherited, monkeypatch):
    real, killed = jobs._started, []

    def start(job, count):
        one = real(job, count)
        if not killed:
            killed.append(one)
        return one

    def kill(state):
        if killed and state.files_done >= 2:
            killed[0].process.kill()

    monkeypatch.setattr(jobs, "_started", start)
    monkeypatch.setattr(jobs, "_TELL", 0.0)
    with Library.open(location, model="sketch") as library:
        with pytest.raises(LibraryError, match=r"Shard 1/2: it was ended by SIGKILL.*run the same command again"):
            library.index(mixed, jobs=2, progress=kill)
        assert library.status().indexed >= 1
        assert library.status().shards == []
        library.index(jobs=2)
        assert library.status().indexed == 12
        assert library.verify(sample=2).findings == []


def test_an_interrupt_keeps_what_is_done(location, mixed, inherited):
    def interrupt(state):
        if state.files_done >= 3:
            raise KeyboardInterrupt

    with Library.open(location, model="sketch") as library:
        with pytest.raises(KeyboardInterrupt):
            library.index(mixed, jobs=2, progress=interrupt)
        kept = library.status()
        assert kept.indexed + kept.failed >= 3
        assert kept.shards == []
        library.index()
        assert library.status().indexed == 12
