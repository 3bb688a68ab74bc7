"""A reader of a daemon, as a process of its own: `python -m benchmarks.reader URL PATH HEADERS CONNECTIONS`.

For each line of its standard input it reads the path once on every connection, or the next event of a stream of events.
Then it prints when it asked, when all answers were complete, and the size of the largest, as JSON.
"""

import json
import sys
import time
from http.client import HTTPConnection, HTTPResponse
from urllib.parse import urlsplit

ANSWER_SECONDS = 30.0


def _next_event(answer: HTTPResponse) -> int:
    size = 0
    for line in answer:
        size += len(line)
        if line.startswith(b"data:"):
            break
    return size


def read(url: str, path: str, headers: dict[str, str], connections: int) -> None:
    opened = [HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_SECONDS) for _ in range(connections)]

    def ask() -> list[HTTPResponse]:
        for connection in opened:
            connection.request("GET", path, headers=headers)
        return [connection.getresponse() for connection in opened]

    streams = ask() if path.endswith("/events") else []
    for stream in streams:
        _next_event(stream)
    print(flush=True)
    for _ in sys.stdin:
        asked = time.monotonic()
        sizes = [_next_event(stream) for stream in streams] or [len(answer.read()) for answer in ask()]
        print(json.dumps((asked, time.monotonic(), max(sizes))), flush=True)


if __name__ == "__main__":
    read(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]))
