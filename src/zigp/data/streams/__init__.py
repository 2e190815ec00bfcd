"""Data larger than memory, block by block: Parquet files and Zarr lattices, here or far away."""

from zigp.data.streams.prefetch import prefetched
from zigp.data.streams.stream import Block, Stream, open_stream

__all__ = ["Block", "Stream", "open_stream", "prefetched"]
