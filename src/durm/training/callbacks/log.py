"""One line of JSON for each validation, to follow a trial while it runs; and a call of `progress`."""

import json
from typing import Any

from durm._files import write_lines
from durm.training.callbacks.callback import Callback


class LogCallback(Callback):
    def setup(self) -> None:
        folder = self.trainer.context.folder
        self.path = None if folder is None or self.trainer.engine.global_rank > 0 else folder / "metrics.jsonl"
        self._write([], append=False)

    def on_validation(self, entry: dict[str, float]) -> None:
        self._write([entry], append=True)
        self.trainer.context.progress(entry, self.trainer.epochs)

    def load_state(self, state: Any) -> None:
        self._write(self.trainer.progress.curves, append=False)

    def _write(self, entries: list[dict[str, float]], *, append: bool) -> None:
        if self.path is not None:
            write_lines(self.path, "".join(json.dumps(entry) + "\n" for entry in entries), append=append)
