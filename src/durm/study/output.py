"""What a trial prints, in a file of limited size: the beginning as it comes, and the end when it is over."""

import codecs
from collections import deque
from pathlib import Path
from types import TracebackType

from durm._files import write_lines

MOST = 10_000_000
"""Characters of a file, half of them from the beginning and half from the end."""


class LimitedFile:
    """A text file to print to. `last_line` is the last line that is not empty."""

    encoding = "utf-8"

    def __init__(self, path: Path, most: int = MOST) -> None:
        self.path, self.half = path, most // 2
        self.written = self.kept = self.dropped = 0
        self._tail: deque[str] = deque()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        write_lines(path, "", append=False)

    def write(self, text: str) -> int:
        head, rest = text[: self.half - self.written], text[max(0, self.half - self.written) :]
        if head:
            write_lines(self.path, head, append=True)
            self.written += len(head)
        if rest:
            self._tail.append(rest[-self.half :])
            self.kept += len(self._tail[-1])
            self.dropped += len(rest) - len(self._tail[-1])
            while self.kept - len(self._tail[0]) >= self.half:
                self.kept -= len(self._tail[0])
                self.dropped += len(self._tail.popleft())
        return len(text)

    def write_bytes(self, content: bytes) -> None:
        self.write(self._decoder.decode(content))

    def flush(self) -> None:
        """Nothing waits to be written but the end."""

    def isatty(self) -> bool:
        return False

    def close(self) -> None:
        if self._tail:
            tail = "".join(self._tail)
            self.dropped += max(0, len(tail) - self.half)
            left_out = f"\n… {self.dropped:,} characters are left out …\n" if self.dropped else ""
            write_lines(self.path, left_out + tail[-self.half :], append=True)
            self.written += len(tail[-self.half :])
            self.kept = 0
            self._tail.clear()

    def last_line(self) -> str:
        """Of a file that is closed."""
        with self.path.open(encoding="utf-8", errors="replace") as file:
            return next((line.strip() for line in reversed(file.readlines()) if line.strip()), "")

    def __enter__(self) -> "LimitedFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
