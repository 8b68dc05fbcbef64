import json
import os
import shutil
import signal
import sqlite3
import sys
import threading
import unicodedata
from pathlib import Path

import numpy as np
import pytest

import sketch
from clips import Scene, write_clip
from conftest import SIZE, colour_clip
from reelspace import Item, Library
from reelspace.answers import SearchReport
from reelspace.errors import EncodeError, ItemError, LibraryError, MediaError, ModelError
from reelspace.index.catalogue import Catalogue
from reelspace.index.lock import writing
from reelspace.index.query import Question
from reelspace.index.verify import Verifier
from reelspace.item import Span
from reelspace.media.windows import Fixed


def counts(report):
    """What a run did, zeros left out."""
    names = ("unchanged", "embedded", "reused", "partial", "failed", "excluded", "missing", "pruned")
    return {name: getattr(report, name) for name in names if getattr(report, name)}


def names(report):
    return [Path(hit.path).name for hit in report.hits]


def best(library, query, **options):
    return names(library.search(query, **options))[0]


def database(library):
    return sqlite3.connect(library.path / "catalogue.sqlite", isolation_level=None)


class TestIndexing:
    def test_the_first_run_embeds_and_the_second_does_nothing(self, library, folder):
        report = library.index(folder)
        assert counts(report) == {"embedded": 6}
        assert (report.windows, report.seconds) == (9, 27.0)
        again = library.index()
        assert counts(again) == {"unchanged": 6}
        assert again.windows == 0

    def test_status_counts_what_there_is(self, library, folder):
        (folder / "notes.txt").write_text("x")
        (folder / "junk.mp4").write_bytes(b"no video at all" * 20)
        shutil.copy(folder / "red.mp4", folder / "copy.mp4")
        library.index(folder)
        status = library.status()
        assert (status.indexed, status.failed, status.excluded, status.missing) == (7, 1, 1, 0)
        assert (status.videos, status.windows, status.seconds) == (6, 9, 27.0)
        assert [(Path(p.path).name, p.state) for p in status.problems] == [
            ("junk.mp4", "failed"),
            ("notes.txt", "excluded"),
        ]
        assert str(folder) not in status.problems[0].reason
        assert status.roots == [str(folder)]
        assert [(s.model, s.active, s.complete, s.videos, s.windows) for s in status.spaces] == [
            ("sketch", True, True, 6, 9)
        ]

    def test_moved_and_renamed_files_reuse_their_vectors(self, library, folder):
        library.index(folder)
        (folder / "deep").mkdir()
        (folder / "red.mp4").rename(folder / "deep" / "moved.mp4")
        assert best(library, "red") != "red.mp4"  # hidden at once
        report = library.index()
        assert counts(report) == {"unchanged": 5, "reused": 1}
        assert library.status().missing == 0
        assert report.windows == 0
        assert best(library, "red") == "moved.mp4"

    def test_copies_share_one_answer(self, library, folder):
        library.index(folder)
        shutil.copy(folder / "red.mp4", folder / "zcopy.mp4")
        assert counts(library.index()) == {"unchanged": 6, "reused": 1}
        hit = library.search("red", k=1).hits[0]
        assert (Path(hit.path).name, [Path(copy).name for copy in hit.copies]) == ("red.mp4", ["zcopy.mp4"])
        (folder / "red.mp4").unlink()
        hit = library.search("red", k=1).hits[0]
        assert (Path(hit.path).name, hit.copies) == ("zcopy.mp4", [])

    def test_copies_found_in_one_run_are_read_once(self, library, folder):
        for number in range(3):
            shutil.copy(folder / "red.mp4", folder / f"red{number}.mp4")
        report = library.index(folder)
        assert (counts(report), report.windows) == ({"embedded": 6, "reused": 3}, 9)

    def test_a_replaced_file_is_embedded_again(self, library, folder):
        library.index(folder)
        shutil.copy(folder / "blue-yellow-magenta.mp4", folder / "red.mp4")
        assert "red.mp4" not in names(library.search("red"))  # its size tells at once
        assert counts(library.index()) == {"unchanged": 5, "reused": 1}
        colour_clip(folder / "red.mp4", "cyan")
        assert counts(library.index()) == {"unchanged": 5, "embedded": 1}
        assert best(library, "cyan") == "red.mp4"

    def test_a_touched_file_is_hashed_but_not_embedded(self, library, folder):
        library.index(folder)
        os.utime(folder / "red.mp4", (1, 1))
        assert best(library, "red") == "red.mp4"
        assert counts(library.index()) == {"unchanged": 6}
        assert counts(library.index(rehash=True)) == {"unchanged": 6}

    def test_rehash_finds_what_the_stat_does_not_tell(self, library, folder):
        library.index(folder)
        path = folder / "red.mp4"
        before = path.stat()
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        with path.open("r+b") as file:
            file.write(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert counts(library.index()) == {"unchanged": 6}
        assert counts(library.index(rehash=True)) == {"unchanged": 5, "embedded": 1}

    def test_deleted_files_are_hidden_at_once_and_forgotten_by_prune(self, library, folder, tmp_path):
        library.index(folder)
        (folder / "red.mp4").rename(tmp_path / "aside.mp4")
        assert "red.mp4" not in names(library.search("red", k=20))
        assert counts(library.index()) == {"unchanged": 5, "missing": 1}
        assert library.status().missing == 1
        (tmp_path / "aside.mp4").rename(folder / "red.mp4")
        assert counts(library.index()) == {"unchanged": 5, "reused": 1}
        (folder / "red.mp4").unlink()
        assert counts(library.index(prune=True)) == {"unchanged": 5, "pruned": 1}
        assert (library.status().missing, library.status().windows) == (0, 8)
        assert database(library).execute("SELECT count(*) FROM vectors").fetchone() == (8,)

    @pytest.mark.parametrize("gone", ["renamed", "empty"])
    def test_an_unmounted_root_is_hidden_and_survives_prune(self, library, folder, gone, tmp_path):
        other = tmp_path / "other"
        colour_clip(tmp_path / "cyan.mp4", "cyan")
        other.mkdir()
        (tmp_path / "cyan.mp4").rename(other / "cyan.mp4")
        library.index(folder, other)
        folder.rename(tmp_path / "away")
        if gone == "empty":
            folder.mkdir()
        report = library.index(prune=True)
        assert counts(report) == {"unchanged": 1, "missing": 6}
        assert any(str(folder) in note for note in report.notes)
        assert names(library.search("red", k=20)) == ["cyan.mp4"]
        if gone == "empty":
            folder.rmdir()
        (tmp_path / "away").rename(folder)
        assert counts(library.index()) == {"unchanged": 1, "reused": 6}
        folder.rename(tmp_path / "away")
        assert counts(library.index(folder, prune=True)) == {"pruned": 6}
        assert library.status().roots == [str(other)]

    def test_a_single_file_that_was_deleted_is_pruned(self, library, folder):
        library.index(folder / "red.mp4", folder / "blue.mp4")
        (folder / "red.mp4").unlink()
        assert counts(library.index(prune=True)) == {"unchanged": 1, "pruned": 1}
        assert library.status().roots == [str(folder / "blue.mp4")]

    def test_a_failed_file_is_left_alone_until_it_changes_or_retry(self, library, folder):
        junk = folder / "junk.mp4"
        junk.write_bytes(b"no video at all" * 20)
        report = library.index(folder)
        assert counts(report) == {"embedded": 6, "failed": 1}
        assert [(Path(p.path).name, p.state) for p in report.problems] == [("junk.mp4", "failed")]
        seen = []
        assert counts(library.index(progress=seen.append)) == {"unchanged": 6, "failed": 1}
        assert seen == []
        library.index(retry=True, progress=seen.append)
        assert {Path(progress.path).name for progress in seen} == {"junk.mp4"}
        colour_clip(junk, "cyan")
        assert counts(library.index()) == {"unchanged": 6, "embedded": 1}
        junk.write_bytes(b"broken again")
        assert counts(library.index()) == {"unchanged": 6, "failed": 1}
        assert best(library, "cyan") != "junk.mp4"

    def test_an_excluded_file_is_hidden_and_costs_nothing_when_it_returns(self, library, folder):
        library.index(folder)
        assert counts(library.index(folder, exclude=["red*"])) == {"unchanged": 4, "excluded": 2}
        assert "red.mp4" not in names(library.search("red", k=20))
        assert counts(library.index()) == {"unchanged": 4, "excluded": 2}  # it remembers what is wanted
        report = library.index(folder)
        assert (counts(report), report.windows) == ({"unchanged": 4, "reused": 2}, 0)

    def test_an_excluded_folder_hides_what_is_in_it(self, library, folder):
        (folder / "sub").mkdir()
        (folder / "red.mp4").rename(folder / "sub" / "red.mp4")
        library.index(folder)
        report = library.index(folder, exclude=["sub"])
        assert counts(report) == {"unchanged": 5, "excluded": 2}  # the folder and the file known in it
        assert "red.mp4" not in names(library.search("red", k=20))

    def test_where_roots_overlap_a_file_that_one_wants_is_indexed(self, library, folder):
        library.index(folder, exclude=["red.mp4"])
        assert counts(library.index(folder / "red.mp4")) == {"embedded": 1}
        assert library.status().indexed == 6
        assert counts(library.index()) == {"unchanged": 6}
        assert counts(library.index(folder, exclude=["red.mp4"])) == {"unchanged": 5}
        assert library.status().indexed == 6

    def test_a_subfolder_of_a_known_root_is_brought_up_to_date_alone(self, library, folder):
        (folder / "sub").mkdir()
        library.index(folder)
        (folder / "red.mp4").rename(folder / "sub" / "red.mp4")
        assert counts(library.index(folder / "sub")) == {"reused": 1}
        assert library.status().roots == [str(folder)]

    def test_black_windows_have_no_vector_and_the_file_is_partial(self, library, tmp_path):
        clip = colour_clip(tmp_path / "half.mp4", "red", "black", seconds=3.0)
        report = library.index(clip)
        assert counts(report) == {"embedded": 1, "partial": 1}
        reason = "1 of 2 windows have no vector: black all over: nothing to see"
        assert [problem.reason for problem in report.problems] == [reason]
        status = library.status()
        assert (status.indexed, status.partial, [p.reason for p in status.problems]) == (1, 1, [reason])
        assert counts(library.index()) == {"unchanged": 1}

    def test_slides_cost_what_their_frames_cost(self, library, tmp_path):
        path = write_clip(
            tmp_path / "slides.mkv",
            times=[0.0, 6 * 86400.0],
            draw=lambda number, time: Scene(colour=sketch.COLOURS[("red", "blue")[number]]).draw(0, 96, 64),
            size=(96, 64),
            barcode=False,
            bframes=0,
        )
        report = library.index(path)
        assert (counts(report), report.windows) == ({"embedded": 1}, 2)
        hit = library.search("red", k=1).hits[0]
        assert hit.start == 0
        assert hit.end > 518_000
        report = library.index(windowing=Fixed(0.5, 0.01))
        assert counts(report) == {"embedded": 1, "partial": 1}
        assert "only its first 200,000 windows" in report.problems[0].reason

    def test_a_file_without_any_vector_has_failed(self, library, tmp_path):
        clip = colour_clip(tmp_path / "night.mp4", "black", "black", seconds=3.0)
        report = library.index(clip)
        assert counts(report) == {"failed": 1}
        assert "nothing to see" in report.problems[0].reason

    def test_a_truncated_file_is_partial_and_is_tried_again_by_retry(self, library, tmp_path, folder):
        whole = colour_clip(
            folder / "long.mp4", "cyan", "white", "cyan", seconds=3.0, container_options={"movflags": "faststart"}
        )
        whole.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * 0.8)])
        report = library.index(whole)
        assert counts(report) == {"embedded": 1, "partial": 1}
        assert library.status().problems[0].state == "partial"
        assert best(library, "cyan") == "long.mp4"
        assert counts(library.index(whole)) == {"unchanged": 1}
        again = library.index(whole, retry=True)
        assert (counts(again), again.windows) == ({"embedded": 1, "partial": 1}, report.windows)

    def test_names_of_any_bytes_are_found_and_shown(self, library, folder):
        odd = Path(os.fsdecode(os.fsencode(folder) + b"/caf\xff.mp4"))
        (folder / "red.mp4").rename(odd)
        forms = [folder / f"{unicodedata.normalize(form, 'é')}.mp4" for form in ("NFC", "NFD")]
        (folder / "green.mp4").rename(forms[0])
        (folder / "blue.mp4").rename(forms[1])
        library.index(folder)
        report = library.search("red", k=1)
        assert report.hits[0].path == str(odd)
        assert Path(report.hits[0].path).is_file()
        written = report.model_dump_json()
        assert json.loads(written)["hits"][0]["path"] == odd.as_uri()
        assert SearchReport.model_validate_json(written) == report
        assert library.search("green", k=1).hits[0].path == str(forms[0])
        assert library.search("blue", k=1).hits[0].path == str(forms[1])
        assert len(library.search("red", within=["é.mp4"]).hits) == 2
        assert counts(library.index()) == {"unchanged": 6}
        assert library.remove(odd) == 1
        assert best(library, "red") != odd.name

    def test_a_query_that_is_no_unicode_can_be_reported(self, library, folder):
        library.index(folder)
        odd = Path(os.fsdecode(os.fsencode(folder) + b"/caf\xff.mp4"))
        (folder / "red.mp4").rename(odd)
        query = json.loads(library.search(Item(video=odd)).model_dump_json())["query"]
        assert query["video"][0].endswith("/caf\\xff.mp4")
        words = Question([Item(text="red \ud800")], [], None).described
        assert json.loads(words.model_dump_json())["text"] == ["red \\ud800"]

    def test_ctrl_c_keeps_what_is_done_and_the_next_run_finishes(self, library, folder):
        def interrupt(progress):
            if progress.files_done == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            library.index(folder, progress=interrupt)
        done = library.status().indexed
        assert done >= 3
        report = library.index()
        assert report.unchanged == done
        assert report.unchanged + report.embedded == 6
        assert library.status().windows == 9

    def test_progress_adds_up(self, library, folder):
        seen = []
        library.index(folder, progress=seen.append)
        total = sum(path.stat().st_size for path in folder.iterdir())
        assert [p.bytes_done for p in seen] == sorted(p.bytes_done for p in seen)
        last = seen[-1]
        assert (last.files_done, last.files_total, last.bytes_done, last.bytes_total) == (6, 6, total, total)
        assert last.seconds == 27.0
        assert last.remaining == 0
        assert any(p.remaining for p in seen)

    def test_a_second_indexer_is_refused_by_name(self, library, folder):
        with writing(library.path), pytest.raises(LibraryError, match=rf"process {os.getpid()}\b"):
            library.index(folder)
        library.index(folder)
        with writing(library.path), pytest.raises(LibraryError, match="being written"):
            library.remove(folder)

    def test_searches_go_on_while_a_run_does(self, library, folder):
        found = []
        with Library.open(library.path) as other:

            def look(progress):
                hits = other.search("grey", k=50).hits
                found.append(len({hit.video for hit in hits}))

            library.index(folder, progress=look)
            look(None)
        assert found == sorted(found)
        assert found[-1] == 6
        assert len(set(found)) > 2

    def test_a_file_that_changes_while_it_is_read_is_read_again(self, library, folder):
        spoilt = []

        def spoil(progress):
            if not spoilt:
                colour_clip(folder / "red.mp4", "cyan", "white", seconds=3.0)
                spoilt.append(progress)

        report = library.index(folder / "red.mp4", progress=spoil)
        assert counts(report) == {"embedded": 1}
        assert spoilt
        assert library.search("cyan", k=1).hits[0].score > 0.9

    def test_a_file_that_never_holds_still_fails_and_is_work_for_the_next_run(self, library, folder):
        def spoil(progress):
            with (folder / "red.mp4").open("ab") as file:
                file.write(b"x")

        report = library.index(folder / "red.mp4", progress=spoil)
        assert counts(report) == {"failed": 1}
        assert "changing" in report.problems[0].reason
        assert counts(library.index()) == {"embedded": 1}

    def test_another_windowing_cuts_everything_again_and_stays(self, library, folder):
        library.index(folder)
        report = library.index(windowing=Fixed(1, 1))
        assert (counts(report), report.windows) == ({"embedded": 6}, 27)
        assert library.status().windows == 27
        assert counts(library.index()) == {"unchanged": 6}
        assert database(library).execute("SELECT count(*) FROM vectors").fetchone() == (27,)

    def test_a_fast_run_is_made_good_by_the_next_and_never_undoes_one(self, library, folder):
        assert library.index(folder, fast=True).embedded == 6
        assert library.verify().findings == []
        assert library.search("magenta", k=1).hits[0].path.endswith("blue-yellow-magenta.mp4")
        again = library.index(fast=True)
        assert (again.embedded, again.unchanged) == (0, 6)
        whole = library.index()
        assert (whole.embedded, whole.unchanged) == (6, 0)
        assert library.verify().findings == []
        assert library.index().embedded == library.index(fast=True).embedded == 0

    def test_a_fast_run_sees_key_frames_and_the_next_all_of_the_same_stretch(self, library, tmp_path):
        def draw(number, time):
            return np.full((64, 96, 3), (220, 20, 20) if number % 10 == 0 else (20, 20, 220), np.uint8)

        path = write_clip(tmp_path / "blink.mp4", draw=draw, seconds=3, **SIZE)
        library.index(path, fast=True)
        fast = {word: library.search(word).hits[0] for word in ("red", "blue")}
        library.index()
        whole = {word: library.search(word).hits[0] for word in ("red", "blue")}
        assert fast["red"].score > fast["blue"].score
        assert whole["blue"].score > whole["red"].score
        assert {(hit.start, hit.end) for hit in (*fast.values(), *whole.values())} == {(0.0, 3.0)}

    def test_another_model_takes_whole_windows_of_a_library_also_in_a_fast_run(self, library, folder):
        library.index(folder)
        assert library.index(model="sketch2", fast=True).embedded == 6
        assert library.index().embedded == library.index(model="sketch2").embedded == 0
        library.use("sketch2")
        assert library.verify().findings == []

    def test_what_is_not_there_is_refused(self, library, tmp_path):
        with pytest.raises(LibraryError, match="knows no folders"):
            library.index()
        with pytest.raises(LibraryError, match="never indexed"):
            library.index(tmp_path / "nowhere")

    def test_a_mistyped_name_in_a_known_folder_is_refused(self, library, folder):
        library.index(folder)
        with pytest.raises(LibraryError, match="never indexed"):
            library.index(folder / "rde.mp4")
        (folder / "red.mp4").unlink()
        assert library.index(folder / "red.mp4").missing == 1

    def test_an_interrupt_while_vectors_are_made_loses_none(self, library, folder, monkeypatch):
        encode, interrupts = sketch.Sketch.encode_candidate, iter([signal.SIGINT])

        def interrupted(self, items):
            if any(item.video is not None for item in items) and (interrupt := next(interrupts, None)):
                os.kill(os.getpid(), interrupt)
            return encode(self, items)

        library.index(folder / "red.mp4")  # its canaries are sung
        monkeypatch.setattr(sketch.Sketch, "encode_candidate", interrupted)
        monkeypatch.setattr("reelspace.index.indexer.check_canaries", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            library.index(folder)
        assert library.status().indexed > 1

    def test_remove_forgets_files_and_their_vectors(self, library, folder):
        library.index(folder)
        assert library.remove(folder / "red.mp4") == 1
        assert library.status().indexed == 5
        assert library.remove(folder) == 5
        assert library.status().roots == []
        assert database(library).execute("SELECT count(*) FROM vectors").fetchone() == (0,)
        assert (folder / "red.mp4").exists()


class TestSearching:
    @pytest.fixture(autouse=True)
    def indexed(self, library, folder):
        library.index(folder)

    def test_words_find_the_moment(self, library, folder):
        hit = library.search("yellow", k=1).hits[0]
        assert (hit.path, hit.start, hit.end) == (str(folder / "blue-yellow-magenta.mp4"), 3.0, 6.0)
        assert (hit.rank, len(hit.video)) == (1, 40)
        assert hit.matched == {"text": pytest.approx(hit.score)}

    def test_a_picture_and_a_clip_find_what_looks_alike(self, library, folder, tmp_path):
        from PIL import Image

        Image.new("RGB", (64, 48), (250, 250, 10)).save(tmp_path / "q.png")
        for image in (tmp_path / "q.png", Image.open(tmp_path / "q.png"), np.full((9, 9, 3), (250, 250, 10), np.uint8)):
            report = library.search(Item(image=image), k=1)
            assert (report.hits[0].start, list(report.hits[0].matched)) == (3.0, ["image"])
        clip = Span(folder / "blue-yellow-magenta.mp4", 6.5, 8.0)
        report = library.search(Item(video=clip), k=1)
        assert (report.hits[0].start, report.hits[0].end) == (6.0, 9.0)
        assert report.query.video == [str(clip)]

    def test_a_mix_that_the_model_takes_is_one_item(self, library):
        image = np.full((9, 9, 3), (255, 0, 0), np.uint8)
        report = library.search(Item(text="green", image=image), k=1)
        whole = library._embedder("sketch").encode_query([Item(text="green", image=image)])[0]
        vector = library._store(library._space()).vectors(np.array([_window_id(library, report.hits[0])]))[0]
        assert report.hits[0].score == pytest.approx(float(whole @ vector), abs=1e-6)
        assert list(report.hits[0].matched) == ["text", "image"]
        assert report.hits[0].matched["text"] != report.hits[0].matched["image"]
        assert library.search([Item(image=image), "green"], k=1).hits == report.hits

    def test_what_is_asked_alone_is_embedded_once(self, library, folder, monkeypatch):
        sketch = library._embedder("sketch")
        ran, encode = [], sketch.encode_query
        monkeypatch.setattr(
            sketch, "encode_query", lambda items, instruction=None: ran.append(len(items)) or encode(items, instruction)
        )
        library.search("green")
        library.search(Item(image=np.full((9, 9, 3), (0, 255, 0), np.uint8)))
        library.search(Item(video=folder / "green.mp4"))
        library.search(["green", "red"], without="green")
        assert ran == [1, 1, 1, 2]

    def test_what_it_does_not_take_together_is_the_mean(self, library, folder):
        report = library.search(["red", Item(video=folder / "green.mp4"), "blue"], k=9)
        assert (report.query.text, report.query.video) == (["red", "blue"], [str(folder / "green.mp4")])
        for hit in report.hits:
            assert list(hit.matched) == ["text", "video", "text 2"]
        one, two = (library.search(["red", "green"], k=3), library.search(["green", "red"], k=3))
        assert [(h.path, h.start) for h in one.hits] == [(h.path, h.start) for h in two.hits]

    def test_without_pushes_down(self, library):
        assert best(library, "cyan", without=["blue"]) == "green.mp4"
        assert best(library, "cyan", without=["green"]).startswith("blue")
        plain = {(hit.path, hit.start): hit.score for hit in library.search("cyan", k=50).hits}
        pushed = library.search("cyan", without=["blue", Item(image=np.full((9, 9, 3), (0, 0, 255), np.uint8))], k=50)
        assert pushed.query.without == ["blue", "<9×9 image>"]
        assert [hit.score for hit in pushed.hits] == sorted((hit.score for hit in pushed.hits), reverse=True)
        assert all(
            hit.score <= plain[hit.path, hit.start] + 1e-6 for hit in pushed.hits if (hit.path, hit.start) in plain
        )

    def test_without_takes_off_only_what_is_more_alike_than_usual(self, library):
        """What all candidates share with the unwanted is no reason to push anything down."""
        plain, unlike = library.search("red", k=50), library.search("red", without=["elephants"], k=50)
        assert [(h.path, h.start) for h in plain.hits] == [(h.path, h.start) for h in unlike.hits]
        assert [h.score for h in plain.hits] == pytest.approx([h.score for h in unlike.hits], abs=0.05)

    def test_pages_with_without_continue_one_ranking(self, library):
        whole = library.search(["red", "green"], without=["blue", "grey"], k=50).hits
        assert [
            h
            for page in (1, 2, 3, 4)
            for h in library.search(["red", "green"], without=["blue", "grey"], k=3, page=page).hits
        ] == whole

    def test_one_glob_may_be_a_string(self, library):
        assert set(names(library.search("red", within="green.mp4"))) == {"green.mp4"}

    def test_nothing_fits_by_the_models_calibration(self, library, monkeypatch):
        assert library.search("red").match is None
        background = np.random.default_rng(0).standard_normal((64, sketch.Sketch.dim)).astype(np.float32)
        background /= np.linalg.norm(background, axis=1, keepdims=True)
        monkeypatch.setattr(sketch.Sketch, "thresholds", {"text": (1.0, True)}, raising=False)
        monkeypatch.setattr(sketch.Sketch, "background", background, raising=False)
        red, elephants = library.search("red"), library.search("elephants")
        assert (red.match, elephants.match) == (True, False)
        assert elephants.hits
        assert library.search("red", page=99).match is True
        assert library.search(["red", "red"]).match is None  # a mean of vectors is not what was calibrated
        assert library.search(Item(image=np.full((9, 9, 3), 200, np.uint8))).match is None  # no threshold for it
        assert library.search("red", within=["nowhere"]).match is False

    def test_pages_continue_one_ranking(self, library):
        whole = library.search("green", k=50).hits
        pages = [hit for page in range(1, 6) for hit in library.search("green", k=2, page=page).hits]
        assert pages == whole
        assert [hit.rank for hit in whole] == list(range(1, len(whole) + 1))
        assert library.search("green", k=2, page=50).hits == []

    def test_no_more_than_asked_of_one_video(self, library):
        report = library.search("blue", k=50, per_video=1)
        assert len({hit.video for hit in report.hits}) == len(report.hits) == 6

    def test_filters(self, library, folder):
        assert names(library.search("red", within=["blue*"], k=9, per_video=1)) == [
            "blue-yellow-magenta.mp4",
            "blue.mp4",
        ]
        assert names(library.search("red", within=[f"{folder}/grey.mp4"])) == ["grey.mp4"]
        assert set(names(library.search("red", duration=(5, None), k=9))) == {
            "red-green.mp4",
            "blue-yellow-magenta.mp4",
        }
        assert set(names(library.search("red", duration=(5, 7), k=9))) == {"red-green.mp4"}
        os.utime(folder / "grey.mp4", (1000, 1000))
        library.index()
        assert names(library.search("red", dated=(None, 2000))) == ["grey.mp4"]
        assert "grey.mp4" not in names(library.search("red", dated=(2000, None), k=20))
        assert library.search("red", within=["*.avi"]).hits == []

    def test_a_filter_shows_the_copy_that_passes(self, library, folder):
        (folder / "z").mkdir()
        shutil.copy(folder / "red.mp4", folder / "z" / "copy.mp4")
        library.index()
        hit = library.search("red", within=["z"]).hits[0]
        assert (Path(hit.path).name, [Path(copy).name for copy in hit.copies]) == ("copy.mp4", ["red.mp4"])

    def test_a_filter_does_not_change_a_moment(self, library):
        free = {(hit.path, hit.start, hit.end, hit.score) for hit in library.search("red", k=50).hits}
        for name in ("red-green.mp4", "blue-yellow-magenta.mp4"):
            filtered = library.search("red", within=[name], k=50).hits
            assert {(hit.path, hit.start, hit.end, hit.score) for hit in filtered} <= free

    def test_equal_scores_are_ordered_by_content_whatever_the_order_of_indexing(self, tmp_path, plugin, folder):
        for number in range(6):  # same pictures, other bytes
            colour_clip(folder / f"same{number}.mp4", "cyan", seconds=3.0, metadata={"title": str(number)})
        orders = []
        for order in (sorted(folder.iterdir()), sorted(folder.iterdir(), reverse=True)):
            with Library.open(tmp_path / f"library{len(orders)}", model="sketch") as other:
                for path in order:
                    other.index(path)
                orders.append(other.search("cyan", k=20).hits)
        assert orders[0] == orders[1]
        assert [hit.video for hit in orders[0][:6]] == sorted(hit.video for hit in orders[0][:6])
        assert len({hit.score for hit in orders[0][:6]}) == 1

    def test_many_hidden_windows_do_not_use_up_the_answers(self, library, folder, tmp_path):
        many = tmp_path / "many"
        many.mkdir()
        colour_clip(many / "long.mp4", *["red", "yellow"] * 15, seconds=2.0)
        library.index(many, windowing=Fixed(0.1, 0.1))
        assert library.status().windows > 500
        (many / "long.mp4").unlink()
        assert best(library, "red") in ("red.mp4", "red-green.mp4")

    def test_caches_can_be_deleted_at_any_time(self, library):
        before = library.search("red", k=20)
        shutil.rmtree(library.path / "cache")
        assert library.search("red", k=20) == before  # what is mapped stays
        with Library.open(library.path) as again:
            assert again.search("red", k=20) == before
        shutil.rmtree(library.path / "cache")
        hit = before.hits[0]
        assert library.thumbnail(hit).startswith(b"\xff\xd8")

    def test_a_hit_has_a_thumbnail_of_what_it_shows(self, library, folder):
        import io

        from PIL import Image

        def colour():
            return np.asarray(Image.open(io.BytesIO(library.thumbnail(hit)))).mean(axis=(0, 1))

        hit = library.search("yellow", k=1).hits[0]
        assert np.allclose(colour(), (255, 255, 0), atol=12)
        shutil.rmtree(library.path / "cache" / "thumbnails")
        assert np.allclose(colour(), (255, 255, 0), atol=12)
        assert len(list((library.path / "cache" / "thumbnails").rglob("*.jpg"))) == 1
        shutil.rmtree(library.path / "cache" / "thumbnails")
        Path(hit.path).unlink()
        with pytest.raises(MediaError, match="no thumbnail"):
            library.thumbnail(hit)

    def test_questions_that_cannot_be_meant_or_read_are_refused(self, library, tmp_path):
        with pytest.raises(ItemError, match="no query"):
            library.search([])
        with pytest.raises(ItemError, match="blank"):
            library.search(" ")
        with pytest.raises(ItemError, match="strings and Items"):
            library.search([3])
        with pytest.raises(ItemError, match="count from 1"):
            library.search("red", k=0)
        with pytest.raises(MediaError):
            library.search(Item(image=tmp_path / "none.png"))
        (tmp_path / "junk.mp4").write_bytes(b"junk")
        with pytest.raises(MediaError):
            library.search(Item(video=tmp_path / "junk.mp4"))
        with pytest.raises(EncodeError, match="nothing to see"):
            library.search(Item(image=np.zeros((8, 8, 3), np.uint8)))

    def test_searching_from_many_threads(self, library):
        expected = library.search("red", k=20)
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(library.search("red", k=20))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [expected] * 8


def _window_id(library, hit):
    rows = database(library).execute(
        "SELECT vectors.id FROM vectors JOIN windows ON windows.id = vectors.window "
        "JOIN videos ON videos.id = windows.video WHERE hash = ? AND start = ?",
        (hit.video, hit.start),
    )
    return rows.fetchone()[0]


class TestModels:
    def test_another_model_gets_its_own_space_and_use_goes_there_and_back(self, library, folder):
        library.index(folder)
        windows = _windows(library)
        before = library.search("red", k=20)
        with pytest.raises(LibraryError, match="--model sketch2"):
            library.use("sketch2")
        report = library.index(model="sketch2")
        assert (report.model, counts(report), report.windows) == ("sketch2", {"embedded": 6}, 9)
        assert _windows(library) == windows
        assert library.search("red", k=20) == before
        library.use("sketch2")
        assert [(s.model, s.active, s.complete) for s in library.models()] == [
            ("sketch", False, True),
            ("sketch2", True, True),
        ]
        after = library.search("red", k=20)
        assert (after.model, names(after)) == ("sketch2", names(before))
        library.use("sketch")
        assert library.search("red", k=20) == before

    def test_a_space_must_be_complete_to_be_used(self, library, folder):
        library.index(folder)
        library.index(model="sketch2")
        colour_clip(folder / "cyan.mp4", "cyan")
        library.index()
        assert [s.complete for s in library.models()] == [True, False]
        with pytest.raises(LibraryError, match="only a part"):
            library.use("sketch2")
        assert counts(library.index(model="sketch2")) == {"unchanged": 6, "embedded": 1}
        library.use("sketch2")

    def test_an_interrupted_build_resumes(self, library, folder):
        library.index(folder)

        def interrupt(progress):
            if progress.files_done == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            library.index(model="sketch2", progress=interrupt)
        report = library.index(model="sketch2")
        assert report.unchanged >= 2
        assert report.unchanged + report.embedded == 6
        library.use("sketch2")

    def test_a_library_can_be_opened_with_another_of_its_models(self, library, folder):
        library.index(folder)
        library.index(model="sketch2")
        with Library.open(library.path, model="sketch2") as other:
            assert other.search("red").model == "sketch2"
        assert library.search("red").model == "sketch"

    def test_a_model_that_changed_under_its_name_is_told_apart(self, library, folder, monkeypatch):
        library.index(folder)
        monkeypatch.setattr(sketch.Sketch, "version", 2)
        with Library.open(library.path) as changed:
            with pytest.raises(LibraryError, match="another version of sketch"):
                changed.search("red")

            def refused(progress):
                with pytest.raises(LibraryError, match="another version"):
                    changed.search("red")

            report = changed.index(progress=refused)
            assert counts(report) == {"embedded": 6}
            assert "sketch has changed" in report.notes[0]
            assert [(s.active, s.complete) for s in changed.models()] == [(False, True), (True, True)]
            assert best(changed, "red") == "red.mp4"
            changed.index(prune=True)
            assert len(changed.models()) == 1

    def test_a_file_that_only_one_model_can_embed_stays_searchable_there(self, library, folder, monkeypatch):
        library.index(folder)
        grid = sketch._grid

        def colour_blind(pixels):
            if pixels[..., 0].mean() > 200 and pixels[..., 1].mean() < 50:
                raise MediaError("red is not seen")
            return grid(pixels)

        monkeypatch.setattr(sketch, "_grid", colour_blind)
        report = library.index(model="sketch2")
        assert (report.embedded, report.failed) == (5, 0)
        monkeypatch.undo()
        assert best(library, "red") == "red.mp4"
        assert library.status().failed == 0

    def test_a_model_that_drifted_undeclared_adds_nothing(self, library, folder):
        library.index(folder / "red.mp4")
        with database(library) as db:
            other = np.roll(np.frombuffer(db.execute("SELECT vector FROM canaries").fetchone()[0], "<f4"), 1)
            db.execute("UPDATE canaries SET vector = ?", (other.tobytes(),))
        with pytest.raises(ModelError, match="canaries"):
            library.index(folder)
        assert library.status().indexed == 1

    def test_a_model_gone_blind_is_refused(self, library, folder, monkeypatch):
        monkeypatch.setattr(
            sketch.Sketch,
            "_run",
            lambda self, rows: np.eye(len(rows) * 0 + 1, self.dim, dtype=np.float32).repeat(len(rows), 0),
        )
        with pytest.raises(ModelError, match="one vector"):
            library.index(folder)


def _windows(library):
    return database(library).execute('SELECT id, video, start, "end" FROM windows ORDER BY id').fetchall()


class TestOpening:
    def test_the_location_is_given_or_the_environments_or_the_users(self, tmp_path, monkeypatch, plugin):
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        with Library.open(tmp_path / "given") as library:
            assert library.path == tmp_path / "given"
        monkeypatch.setenv("REELSPACE_LIBRARY", str(tmp_path / "env"))
        with Library.open() as library:
            assert library.path == tmp_path / "env"
        monkeypatch.delenv("REELSPACE_LIBRARY")
        with Library.open() as library:
            assert library.path == tmp_path / "data" / "reelspace"

    def test_nothing_is_made_where_it_is_not_wanted(self, tmp_path):
        with pytest.raises(LibraryError, match="no library here"):
            Library.open(tmp_path / "none", create=False)
        assert not (tmp_path / "none").exists()

    def test_an_empty_library_says_what_to_do(self, library):
        with pytest.raises(LibraryError, match="reelspace index"):
            library.search("red")
        assert library.status().indexed == 0
        assert library.models() == []

    def test_a_newer_catalogue_is_refused(self, library):
        with database(library) as db:
            db.execute("PRAGMA user_version = 99")
        with pytest.raises(LibraryError, match="newer Reelspace"):
            Library.open(library.path)

    def test_another_database_and_junk_are_refused(self, tmp_path):
        for name, write in {
            "other": lambda path: sqlite3.connect(path).execute("CREATE TABLE t (x)"),
            "junk": lambda path: path.write_bytes(b"no database " * 500),
        }.items():
            (tmp_path / name).mkdir()
            write(tmp_path / name / "catalogue.sqlite")
            with pytest.raises(LibraryError, match="catalogue"):
                Library.open(tmp_path / name)

    def test_a_library_inside_an_indexed_folder_does_not_index_itself(self, folder, plugin):
        with Library.open(folder / "library", model="sketch") as library:
            library.index(folder)
            before = counts(library.index())
            assert counts(library.index()) == before


class TestVerifying:
    @pytest.fixture(autouse=True)
    def indexed(self, library, folder):
        library.index(folder)

    def found(self, library, sample=4):
        return [finding.what for finding in library.verify(sample).findings]

    def test_nothing_is_wrong(self, library):
        report = library.verify(sample=5)
        assert (report.ok, report.files, report.vectors, report.sampled) == (True, 6, 9, 5)
        assert report.drift < 1e-6
        assert report.canary_drift < 1e-6
        assert report.recall is None
        assert library.verify(sample=100).sampled == 9

    def test_files_that_are_gone_or_changed(self, library, folder):
        (folder / "red.mp4").unlink()
        (folder / "green.mp4").write_bytes(b"x")
        assert [what.split(":")[0] for what in self.found(library, sample=0)] == [
            "the file has changed since it was indexed",
            "the file is gone",
        ]

    @pytest.mark.parametrize(
        ("vector", "what"),
        [
            (np.zeros(65, "<f4").tobytes(), "damaged"),
            (np.full(65, np.nan, "<f4").tobytes(), "damaged"),
            (b"short", "damaged"),
            (np.eye(1, 65, 7, dtype="<f4").tobytes(), "differs by"),
        ],
    )
    def test_vectors_that_are_not_what_they_should_be(self, library, vector, what):
        with database(library) as db:
            db.execute("UPDATE vectors SET vector = ? WHERE id = 4", (vector,))
        shutil.rmtree(library.path / "cache")
        with Library.open(library.path) as again:
            report = again.verify(sample=100)
        assert not report.ok
        assert any(what in finding.what for finding in report.findings)
        assert all(finding.remedy for finding in report.findings)

    def test_a_cache_that_lies(self, library):
        with Library.open(library.path) as again:
            again.search("red")
        matrix = next((library.path / "cache").rglob("*.f32"))
        with matrix.open("r+b") as file:
            file.seek(4 * 65 * 4 + 8)  # a row that opening does not look at
            file.write(b"\x01\x02")
        with Library.open(library.path) as again:
            report = again.verify(sample=0)
        assert [finding.what for finding in report.findings] == ["the cache of vectors differs from the catalogue"]
        shutil.rmtree(report.findings[0].where)
        with Library.open(library.path) as again:
            assert again.verify(sample=0).ok

    def test_one_vector_for_all(self, library):
        with database(library) as db:
            db.execute("UPDATE vectors SET vector = (SELECT vector FROM vectors WHERE id = 1)")
        shutil.rmtree(library.path / "cache")
        with Library.open(library.path) as again:
            assert "6 of 6 videos share one vector" in self.found(again, sample=0)

    def test_a_model_that_drifted(self, library):
        with database(library) as db:
            other = np.roll(np.frombuffer(db.execute("SELECT vector FROM canaries").fetchone()[0], "<f4"), 1)
            db.execute("UPDATE canaries SET vector = ?", (other.tobytes(),))
        assert any("drifted" in what for what in self.found(library, sample=0))

    def test_references_that_lead_nowhere(self, library):
        with database(library) as db:
            db.execute("PRAGMA foreign_keys = OFF")
            db.execute("DELETE FROM windows WHERE id = 1")
        assert any("not there" in what for what in self.found(library, sample=0))


class TestApproximateSearch:
    @pytest.fixture(autouse=True)
    def _small_libraries_too(self, monkeypatch):
        monkeypatch.setattr("reelspace.index.ann._FEWEST", 2)

    def test_it_is_asked_for_stays_and_is_taken_back(self, library, folder):
        library.index(folder)
        exact = [(hit.path, hit.score) for hit in library.search("red", k=3).hits]
        assert library.verify().recall is None
        library.index(approximate=True)
        assert library.verify().recall == 1
        assert [(hit.path, hit.score) for hit in library.search("red", k=3).hits] == exact
        (folder / "red.mp4").unlink()
        library.index()
        assert best(library, "red") != "red.mp4"
        assert library.verify().recall == 1
        library.index(approximate=False)
        assert library.verify().recall is None

    def test_its_size_calls_for_it(self, library, folder, monkeypatch):
        library.index(folder)
        assert library.verify().recall is None
        monkeypatch.setattr("reelspace.library.WORTHWHILE", 9)
        library.index()
        assert library.verify().recall == 1
        library.index(approximate=False)
        assert library.verify().recall is None

    def test_a_space_of_a_model_that_has_changed_is_left_as_it_is(self, library, folder, monkeypatch):
        library.index(folder)
        monkeypatch.setattr(sketch.Sketch, "version", 2)
        with Library.open(library.path) as again:
            assert again.index(model="sketch2", approximate=True).failed == 0
        assert not list(library.path.rglob("*.groups.npz"))  # what it would ask with is of another space

    def test_without_faiss_it_is_refused_at_once_and_searches_stay_exact(self, library, folder, monkeypatch):
        library.index(folder / "red.mp4", approximate=True)
        monkeypatch.setattr("reelspace.library.available", lambda: False)
        monkeypatch.setitem(sys.modules, "faiss", None)
        assert library.index(folder).embedded == 5
        with pytest.raises(LibraryError, match=r"reelspace\[ann\]"):
            library.index(approximate=True)

    def test_verify_names_an_index_that_finds_too_little(self, library, folder, monkeypatch):
        library.index(folder, approximate=True)
        monkeypatch.setattr("reelspace.index.ann.AnnStore.recall", lambda *_: 0.5)
        report = library.verify()
        assert not report.ok
        assert "finds only 0.500 of the ten best" in report.findings[0].what


class TestManyAtOnce:
    def test_a_search_does_not_mind_that_another_thread_follows_what_was_removed(self, library, folder, monkeypatch):
        library.index(folder)
        before = {str(hit): hit.score for hit in library.search("red", k=20).hits}
        look, others = Catalogue.windows, [lambda: library.remove(folder / "red.mp4"), lambda: library.search("blue")]

        def slowly(self, *args):
            windows = look(self, *args)
            while others:
                thread = threading.Thread(target=others.pop(0))
                thread.start()
                thread.join()
            return windows

        monkeypatch.setattr(Catalogue, "windows", slowly)
        hits = library.search("red", k=20).hits
        assert hits
        assert all(before[str(hit)] == hit.score for hit in hits if str(hit) in before)

    def test_verify_does_not_take_the_work_of_others_for_damage(self, library, folder, monkeypatch):
        library.index(folder)
        check = Verifier._check_files

        def slowly(self):
            files = check(self)
            library.remove(folder / "red.mp4")
            return files

        monkeypatch.setattr(Verifier, "_check_files", slowly)
        assert library.verify().ok


class TestDamage:
    @pytest.mark.parametrize("ask", [lambda lib: lib.status(), lambda lib: lib.search("red"), lambda lib: lib.verify(),
                                     lambda lib: lib.index(), lambda lib: lib.models()])  # fmt: skip
    def test_a_catalogue_with_torn_pages_is_said_to_be_damaged(self, library, folder, ask):
        library.index(folder)
        where = library.path
        db = database(library)
        pages = [page for (page,) in db.execute("SELECT rootpage FROM sqlite_schema WHERE name IN ('files', 'spaces')")]
        (size,) = db.execute("PRAGMA page_size").fetchone()
        db.close()
        library.close()
        with (where / "catalogue.sqlite").open("r+b") as file:
            for page in pages:
                file.seek(size * (page - 1))
                file.write(b"\xa5" * size)
        with Library.open(where, model="sketch") as torn, pytest.raises(LibraryError, match="is damaged"):
            ask(torn)


class TestPlugins:
    """An embedder that breaks its contract after it has passed the self-test."""

    @pytest.fixture
    def breaking(self, library, folder, monkeypatch):
        def breaks(spoil):
            encode = sketch.Sketch.encode_candidate

            def spoilt(self, items):
                vectors = encode(self, items)
                return vectors if any(item.video is None for item in items) else spoil(vectors)

            monkeypatch.setattr(sketch.Sketch, "encode_candidate", spoilt)
            return library.index(folder)

        return breaks

    @pytest.mark.parametrize("factor", [np.nan, 0, 3], ids=str)
    def test_rows_that_are_no_unit_vectors_are_failures(self, breaking, library, factor):
        report = breaking(lambda vectors: vectors * np.float32(factor))
        assert counts(report) == {"failed": 6}
        assert library.status().windows == 0

    @pytest.mark.parametrize("spoil", [lambda v: v[:, :-1], lambda v: v[:-1], lambda v: v.tolist(), lambda v: None])
    def test_another_shape_ends_the_run_and_stores_nothing(self, breaking, library, spoil):
        with pytest.raises(ModelError, match="contract"):
            breaking(spoil)
        assert library.status().windows == 0
