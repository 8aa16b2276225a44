"""What instar costs on this machine: `python -m bench`, or `make bench`."""
