"""The embedder that the engine's tests rest on is one."""

from reelspace.embed.conformance import violations
from sketch import load, load2


def test_it_holds_to_the_contract():
    for embedder in (load(), load2()):
        found = violations(embedder)
        # It leaves the opening of files to the engine, so only that is missing.
        assert [problem for problem in found if "missing file" not in problem] == []
