import pytest

from reelspace.worlds.tiny import tokens


@pytest.fixture(scope="session")
def writer():
    return tokens.Writer(tokens.learnt(tokens.samples(60)))
