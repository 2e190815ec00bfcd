"""Parquet files and Zarr lattices larger than memory, read block by block."""

from zigp.data.streams.buffers import prefetched
from zigp.data.streams.stream import Block, Stream, open_stream

__all__ = ["Block", "Stream", "open_stream", "prefetched"]
