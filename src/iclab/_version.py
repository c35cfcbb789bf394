"""The package's version, read by the build and by ``iclab --version``."""

__version__ = "0.2.0"
