"""The version, alone, so that `--version` needs nothing else."""

__version__ = "0.1.0"
