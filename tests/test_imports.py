"""The house's promises about what is imported when."""

import subprocess
import sys

HEAVY = ("torch", "transformers", "pydantic", "onnxruntime", "av", "PIL", "numpy", "rich")


def _imported(statement):
    code = f"import sys; {statement}; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def test_importing_the_package_imports_nothing_heavy():
    assert _imported("import reelspace") == []


def test_the_torch_free_rooms_stay_torch_free():
    rooms = "import reelspace.item, reelspace.media, reelspace.embed, reelspace.index, reelspace.answers"
    assert not {"torch", "transformers"} & set(_imported(rooms))
