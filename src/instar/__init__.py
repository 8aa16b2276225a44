"""instar: a self-evolving agent runtime."""

__version__ = "0.1.0"
