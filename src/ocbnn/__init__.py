"""ocbnn: neural networks that obey what experts know."""

from ocbnn._version import __version__

__all__ = ["__version__"]
