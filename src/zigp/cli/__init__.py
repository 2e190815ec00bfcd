"""The command line: results on stdout or in files, progress and errors on stderr."""

from zigp.cli.app import app, main

__all__ = ["app", "main"]
