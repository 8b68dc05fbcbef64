"""The model's files: where they lie, whether they are the ones declared, and ONNX sessions on them."""

from __future__ import annotations

import hashlib
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from reelspace.errors import ModelError

if TYPE_CHECKING:
    import onnxruntime

DATA = Path(__file__).parent / "data"


@lru_cache(maxsize=1)
def declared() -> dict[str, str]:
    """File name → sha256, as `weights.json` declares them.

    Raises:
        ModelError: the declaration is missing or not readable.
    """
    path = DATA / "weights.json"
    try:
        sums: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["sha256"]
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{path}: the built-in model's list of files cannot be read ({error}); reinstall.") from error
    return sums


def read(name: str) -> bytes:
    """The bytes of one data file, checked against its declared sum (1 ms a megabyte, once a file and process).

    Raises:
        ModelError: the file is missing or is not the one declared.
    """
    path = DATA / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: the built-in model's file cannot be read ({error}); reinstall reelspace.") from error
    if hashlib.sha256(content).hexdigest() != declared().get(name):
        raise ModelError(f"{path}: the built-in model's file is damaged (its checksum is wrong); reinstall reelspace.")
    return content


def thresholds() -> dict[str, tuple[float, bool]]:
    """Query form → least score of a match, and whether it is relative. No part of the vectors, so not declared.

    Raises:
        ModelError: the file is missing or not readable.
    """
    path = DATA / "calibration.json"
    try:
        return {
            form: (float(least), bool(relative)) for form, (least, relative) in json.loads(path.read_text()).items()
        }
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(f"{path}: the built-in model's thresholds cannot be read ({error}); reinstall.") from error


def session(name: str) -> onnxruntime.InferenceSession:
    """An ONNX Runtime session on one data file, on the CPU.

    At most four threads, or `OMP_NUM_THREADS`: the networks are too small to feed more, and decoding wants the other
    cores. Idle threads sleep instead of spinning for the same reason.

    Raises:
        ModelError: the file is missing or damaged.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _threads()
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(read(name), options, providers=["CPUExecutionProvider"])


def _threads() -> int:
    told = os.environ.get("OMP_NUM_THREADS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4
    return max(1, min(4, cores, int(told) if told.isdecimal() else 4))
