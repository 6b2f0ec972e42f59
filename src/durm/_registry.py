"""Names for things that live one to a file: data sets, objectives, averagers, probes.

A new one is a new file in its package that registers one class or function; nothing else needs to know of it.
"""

import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Generic, TypeVar

from durm.errors import unknown

T = TypeVar("T")


@cache
def import_files(package: str) -> None:
    """Imports every file of the package, once: they register what they hold."""
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")


@cache
def _file_names(package: str) -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(import_module(package).__path__))


class Registry(Generic[T]):
    """Name → thing. A file of `package` that has the name looked up is imported for it; otherwise all are."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._things: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        def keep(thing: T) -> T:
            self._things[name] = thing
            return thing

        return keep

    def names(self) -> list[str]:
        import_files(self._package)
        return sorted(self._things)

    def __getitem__(self, name: str) -> T:
        if name not in self._things and name in _file_names(self._package):
            import_module(f"{self._package}.{name}")
        if name not in self._things and name not in self.names():
            raise unknown(self.kind, name, self.names())
        return self._things[name]
