"""The house's promises about what is imported when."""

import subprocess
import sys
from pathlib import Path

import reelspace

HEAVY = ("torch", "transformers", "pydantic", "onnxruntime", "av", "PIL", "numpy", "rich")


def _imported(statement):
    code = f"import sys; {statement}; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def test_importing_the_package_imports_nothing_heavy():
    assert _imported("import reelspace") == []


def test_the_torch_free_rooms_stay_torch_free():
    rooms = "import reelspace.item, reelspace.media, reelspace.embed, reelspace.index.verify, reelspace.library"
    assert not {"torch", "transformers"} & set(_imported(rooms))


def test_the_engine_loads_no_decoder_and_no_runtime_before_they_are_needed():
    assert not {"av", "onnxruntime", "PIL", "torch", "transformers"} & set(_imported("from reelspace import Library"))


def test_the_package_carries_less_than_40_mb_of_data():
    package = Path(reelspace.__file__).parent
    files = (file for file in package.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc"))
    assert 30e6 < sum(file.stat().st_size for file in files) < 40e6
