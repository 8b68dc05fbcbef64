"""Speech for tests and benchmarks: eSpeak NG, which its wheel brings along, in a process of its own.

A synthetic voice: each word is where it says, every time the same.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

RATE = 22_050  # samples a second, as eSpeak speaks


@lru_cache(maxsize=256)
def speak(text: str, voice: str = "en-us", words_a_minute: int = 150) -> NDArray[np.float32]:
    """Mono samples −1…1 at `RATE`. The library keeps state, and a crash in it must not be ours: it runs apart."""
    done = subprocess.run(
        [sys.executable, __file__, voice, str(words_a_minute)], input=text.encode(), capture_output=True, check=True
    )
    return np.frombuffer(done.stdout, np.int16).astype(np.float32) / 32768


def at_times(pieces: list[tuple[float, NDArray[np.float32]]], seconds: float) -> NDArray[np.float32]:
    """Pieces of sound at their times on one line of `seconds`."""
    line = np.zeros(round(seconds * RATE), np.float32)
    for start, samples in pieces:
        first = round(start * RATE)
        part = line[first : first + len(samples)]
        part += samples[: len(part)]
    return line


def _main(voice: str, words_a_minute: int) -> None:
    import espeakng_loader

    library = ctypes.CDLL(espeakng_loader.get_library_path())
    spoken: list[bytes] = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
    def keep(samples: object, count: int, events: object) -> int:
        if count:
            spoken.append(ctypes.string_at(samples, 2 * count))  # type: ignore[arg-type]
        return 0

    synchronous, utf8, rate, at_start = 2, 1, 1, 1
    if library.espeak_Initialize(synchronous, 0, espeakng_loader.get_data_path().encode(), 0) != RATE:
        raise RuntimeError("eSpeak NG cannot begin, or speaks at another rate.")
    library.espeak_SetSynthCallback(keep)
    library.espeak_SetVoiceByName(voice.encode())
    library.espeak_SetParameter(rate, words_a_minute, 0)
    text = sys.stdin.buffer.read()
    library.espeak_Synth(text, len(text) + 1, 0, at_start, 0, utf8, None, None)
    library.espeak_Synchronize()
    sys.stdout.buffer.write(b"".join(spoken))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
