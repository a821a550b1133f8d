"""What Postgres tells about the queues of the profile `lite`: that messages arrived."""

from __future__ import annotations

import threading
from collections import defaultdict
from datetime import timedelta

from trace_core.adapters.lite.notify import ChannelListener

CHANNEL = "trace_pgqueue"


class QueueArrivals:
    """Counts what Postgres tells about each queue, so that others can wait for more of it."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._changed = threading.Condition()
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._of_all = 0
        self._listener: ChannelListener | None = None
        self._closed = False

    def next(self, queue: str, seen: int | None, timeout: timedelta) -> int | None:
        count = self.heard_of(queue)
        if seen == count:
            self.wait(queue, seen, timeout.total_seconds())
            count = self.heard_of(queue)
        return None if self._closed else count

    def heard_of(self, queue: str) -> int:
        """So many arrivals until now; the first call starts to listen."""
        with self._changed:
            if self._listener is None and not self._closed:
                self._listener = ChannelListener(self._dsn, CHANNEL, self._heard)
                self._listener.start()
            return self._counts[queue] + self._of_all

    def wait(self, queue: str, seen: int, seconds: float) -> None:
        """Until there were more arrivals than those seen, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._counts[queue] + self._of_all != seen, seconds)

    def close(self) -> None:
        """Stop listening; nobody waits any longer, now or later."""
        with self._changed:
            listener, self._listener, self._closed = self._listener, None, True
            self._of_all += 1
            self._changed.notify_all()
        if listener is not None:
            listener.close()

    def _heard(self, queue: str | None) -> None:
        with self._changed:
            if queue is None:
                self._of_all += 1
            else:
                self._counts[queue] += 1
            self._changed.notify_all()
