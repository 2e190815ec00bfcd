"""Several devices: the data divided among them, or restarts.

Each device differentiates its own share of the bound, and shares are added up: nothing above this
room knows how many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from zigp.gp.batch import Batch
from zigp.training.minibatches import longest

__all__ = ["Devices", "available"]

_AXIS = "devices"


@dataclass(frozen=True)
class Devices:
    """Devices in a row, and what is divided among them: `data` or `restarts`."""

    mesh: Mesh
    split: Literal["data", "restarts"] = "data"

    @property
    def count(self) -> int:
        return self.mesh.size

    @property
    def here(self) -> int:
        """How many of them belong to this process."""
        return len(self.mesh.local_devices)

    @property
    def share(self) -> float:
        """The part of what does not depend on data that a device adds to the bound."""
        return 1.0 / self.count if self.split == "data" else 1.0

    def total(self, parts: Any) -> Any:
        """What the devices found, added up, for use inside `over`."""
        return jax.lax.psum(parts, _AXIS) if self.split == "data" else parts

    def over(self, function: Callable, state: Any, data: Batch, *args: Any) -> Any:
        """function(state, data, *args) on every device at once, each with its part."""
        states = self.state_specs(state)
        return jax.shard_map(
            function,
            mesh=self.mesh,
            in_specs=(states, self.data_specs(data), *(Spec() for _ in args)),
            out_specs=states,
            check_vma=False,
        )(state, data, *args)

    def state_specs(self, state: Any) -> Any:
        """How the state of training lies on the devices."""

        def spec(path: tuple[Any, ...], _: Any) -> Spec:
            name = path[0].name
            if self.split == "restarts":
                return Spec() if name in ("step", "order") else Spec(_AXIS)
            return Spec(_AXIS) if name == "order" else Spec()

        return jax.tree_util.tree_map_with_path(spec, state)

    def data_specs(self, data: Batch) -> Batch:
        """How data lie on the devices: divided along their longest axis, if they are."""
        if self.split == "restarts":
            return jax.tree.map(lambda _: Spec(), data)
        along, dims = longest(data.at), len(data.at.shape)

        def lies(path: tuple[Any, ...], values: Array) -> Spec:
            match [getattr(entry, "name", getattr(entry, "idx", None)) for entry in path]:
                case ["at", "X"]:
                    return Spec(_AXIS)
                case ["at", "axes", int(group)]:
                    return Spec(_AXIS) if group == along else Spec()
            return Spec(*(None,) * (values.ndim - dims + along), _AXIS)

        return jax.tree_util.tree_map_with_path(lies, data)

    def agreed(self, seconds: float) -> float:
        """The longest that any process measured: what they decide by time must be the same."""
        if jax.process_count() == 1:
            return seconds
        from jax.experimental.multihost_utils import process_allgather

        return float(np.max(process_allgather(np.asarray(seconds))))

    def put(self, tree: Any, specs: Any) -> Any:
        """Arrays on the devices; where there are several processes each gives its own part."""

        def place(spec: Spec, value: Any) -> Array:
            where = NamedSharding(self.mesh, spec)
            if jax.process_count() > 1:
                return jax.make_array_from_process_local_data(where, np.asarray(value))
            return jax.device_put(value, where)

        return jax.tree.map(place, specs, tree, is_leaf=lambda leaf: isinstance(leaf, Spec))


def available(split: Literal["data", "restarts"], restarts: int = 1) -> Devices | None:
    """All devices there are, of all processes, or None if that is one.

    They are of the kind of JAX's default device, which may have been chosen. Restarts are divided
    among as many as divide them evenly.
    """
    devices = np.asarray(jax.devices(_platform()))
    if split == "restarts":
        devices = devices[: max(n for n in range(1, len(devices) + 1) if restarts % n == 0)]
    return Devices(Mesh(devices, (_AXIS,)), split) if len(devices) > 1 else None


def _platform() -> str | None:
    """The kind of device that was chosen, or None for the one that JAX prefers."""
    chosen = jax.config.jax_default_device
    return getattr(chosen, "platform", chosen)
