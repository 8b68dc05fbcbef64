"""Shards as tasks of a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from reelspace.errors import LibraryError
from reelspace.index.jobs import PATIENCE, Runner, Running, Told, run
from reelspace.index.shards import ShardJob


def on_ray(address: str) -> Runner:
    """Runs each job as a task of the Ray cluster at `address`: `auto`, `ray://HOST:PORT`; `local` starts one here.

    The machines of the cluster must see the videos and the library's folder under the same paths.

    Raises:
        LibraryError: Ray is not installed; later, where the cluster cannot be reached.
    """
    try:
        import ray  # noqa: F401
    except ImportError as error:
        raise LibraryError('Ray is not installed: pip install "reelspace[ray]"') from error
    return partial(_on, address)


def _on(address: str, jobs: Sequence[ShardJob]) -> Running:
    import ray

    started = not ray.is_initialized()
    if started:
        own: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        try:
            ray.init(address=address, log_to_driver=False, **own)
        except Exception as error:
            raise LibraryError(f"The Ray cluster “{address}” cannot be reached: {error}") from error
    tasks = {ray.remote(_task).remote(job.to_json()): number for number, job in enumerate(jobs)}
    try:
        while tasks:
            ready, _ = ray.wait(list(tasks), timeout=1.0)
            if not ready:
                yield None
            for task in ready:
                yield _told(tasks.pop(task), task)
    finally:
        for task in tasks:
            ray.cancel(task)
        if tasks:
            ray.wait(list(tasks), num_returns=len(tasks), timeout=PATIENCE)
        if started:
            ray.shutdown()


def _told(number: int, task: Any) -> Told:
    import ray

    try:
        failed = ray.get(task)
    except Exception as error:  # whatever ended it: memory, its machine, a bug
        failed = f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"
    return Told(number, failed=failed)


def _task(plain: dict[str, Any]) -> str | None:
    return run(ShardJob.from_json(plain))
