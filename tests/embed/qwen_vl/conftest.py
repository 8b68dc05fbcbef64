import pytest

import tinies


@pytest.fixture(scope="session", params=tinies.KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Architecture → folder of a random model of it."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    return {kind: tinies.write(tmp_path_factory.mktemp(kind), kind) for kind in tinies.KINDS}


@pytest.fixture(scope="session")
def embedder(folders):
    """A Qwen2.5-VL."""
    from reelspace.embed import load

    return load(str(folders["qwen2_5_vl"]))
