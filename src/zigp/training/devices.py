"""Several devices: the data are divided among them, and all else is on each of them.

Arrays carry their placement with them, and XLA adds up over devices what a step sums over the data.
Nothing else in the package depends on the number of devices.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from zigp.gp.batch import Batch

_AXIS = "devices"


@dataclass(frozen=True)
class Devices:
    """Devices in a row, of one process or of several."""

    mesh: Mesh

    @property
    def count(self) -> int:
        return self.mesh.size

    @property
    def here(self) -> int:
        """The number of devices that belong to this process."""
        return len(self.mesh.local_devices)

    def divide(self, data: Batch) -> Batch:
        """Divide data along their longest axis; each of several processes gives its own part."""

        def place(values: Array, axis: int) -> Array:
            where = NamedSharding(self.mesh, Spec(*(None,) * axis, _AXIS))
            return jax.make_array_from_process_local_data(where, np.asarray(values))

        return data.along(data.longest, place)

    def on_each(self, tree: Any) -> Any:
        """Constrain the arrays of a compiled program to be whole on every device."""
        return eqx.filter_shard(tree, NamedSharding(self.mesh, Spec()))

    def agreed(self, seconds: float) -> float:
        """Return the longest that any process measured, so that all of them decide the same."""
        if jax.process_count() == 1:
            return seconds
        from jax.experimental.multihost_utils import process_allgather

        return float(np.max(process_allgather(np.asarray(seconds))))


def available() -> Devices | None:
    """Return all devices of all processes, or None if there is only one.

    They are of the kind of JAX's default device, which may have been chosen.
    """
    chosen = jax.config.jax_default_device  # a device, or the name of a kind
    devices = np.asarray(jax.devices(getattr(chosen, "platform", chosen)))
    return Devices(Mesh(devices, (_AXIS,))) if len(devices) > 1 else None
