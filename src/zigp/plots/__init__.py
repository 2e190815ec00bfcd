"""Pictures of data, of what a model makes of them, and of whether it can be believed.

Every function draws with matplotlib and returns the Axes that it drew on. A single picture takes
`ax=` and otherwise goes onto pyplot's current Axes; a set of panels takes `figure=`, a Figure or a
SubFigure, and otherwise makes a new one with pyplot. Curves of several models are compared by
drawing them onto the same Axes, each with a `label`.
"""

from zigp.plots.checks import (
    bound,
    error_distribution,
    pit_histogram,
    precision_recall,
    reliability,
)
from zigp.plots.lines import components_1d, fit_1d
from zigp.plots.maps import component_maps, lattice_map, scatter_map, time_slices
from zigp.plots.networks import network_panels

__all__ = [
    "bound",
    "component_maps",
    "components_1d",
    "error_distribution",
    "fit_1d",
    "lattice_map",
    "network_panels",
    "pit_histogram",
    "precision_recall",
    "reliability",
    "scatter_map",
    "time_slices",
]
