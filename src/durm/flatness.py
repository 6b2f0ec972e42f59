"""What version 1 called `durm.curvature`; its names are still found here."""

from durm.curvature import *  # noqa: F403
from durm.curvature import __all__ as __all__
