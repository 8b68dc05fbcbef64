import json

import pytest

from reelspace.train.mixture import TaskConfig, _opened


@pytest.fixture
def written(tmp_path):
    """Writes rows `(query, candidate, …)` of texts as JSONL and opens them as a task."""

    def write(pairs, name="task", **config):
        path = tmp_path / f"{name}.jsonl"
        rows = [
            {"id": f"{name}-{n}", "query": {"text": query}, "candidate": {"text": answer}, **(more[0] if more else {})}
            for n, (query, answer, *more) in enumerate(pairs)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return _opened(TaskConfig(name=name, source=path, batch_size=2, **config), tmp_path, seed=0)

    return write
