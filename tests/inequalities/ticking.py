"""A process that sends ticks until SIGTERM, so that other work does not delay its stamps, and then prints them.

    python ticking.py '{"url": "https://127.0.0.1:6443", "ca": "ca.crt", "token": "…", "seed": 1, "trains": [...]}'

A train is the path of a collection and a number of ticks a second. It prints a JSON array of [sent, answered,
revision], in monotonic seconds.
"""

import json
import signal
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.writer import Writer

Stamped = list[tuple[float, float, int]]


def main(settings: Any) -> Stamped:
    """Run all trains until SIGTERM; return their ticks."""
    over, ticks = threading.Event(), Stamped()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    trains = [
        threading.Thread(target=_run, args=(settings, path, rate, Random(f"{settings['seed']} {number}"), over, ticks))
        for number, (path, rate) in enumerate(settings["trains"])
        if rate
    ]
    for train in trains:
        train.start()
    while not over.wait(1.0):
        assert all(train.is_alive() for train in trains), "a train ended with an error"
    for train in trains:
        train.join()
    return ticks


def _run(settings: Any, path: str, rate: float, random: Random, over: threading.Event, ticks: Stamped) -> None:
    with Writer(settings["url"], Path(settings["ca"]), settings["token"]) as writer:
        while not over.wait(random.uniform(0.5, 1.5) / rate):
            sent = time.monotonic()
            revision = writer.revision(path)
            ticks.append((sent, time.monotonic(), revision))


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
