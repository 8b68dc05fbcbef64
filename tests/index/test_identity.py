import os
import threading

import pytest

from reelspace.index.identity import Stamp, content_hash


@pytest.mark.parametrize("seconds", [32503680000, -9999999999999], ids=["year 3000", "long before 1970"])
def test_any_time_of_a_file_fits_into_the_catalogue(seconds):
    status = os.stat_result([0] * 19, {"st_mtime_ns": seconds * 10**9})
    assert -(2**63) <= Stamp.of(status).mtime_ns < 2**63


def test_a_pipe_in_place_of_a_file_is_an_error_and_no_wait(tmp_path):
    os.mkfifo(tmp_path / "a.mp4")
    raised = []

    def read():
        with pytest.raises(OSError, match="not a regular file"):
            content_hash(str(tmp_path / "a.mp4"))
        raised.append(True)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(10)
    assert raised
