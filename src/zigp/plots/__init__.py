"""Plots of data, of fitted models and of checks whether they can be trusted.

Every function draws with matplotlib and returns the Axes that it drew on. A single plot takes `ax=`
and otherwise draws on pyplot's current Axes; a set of panels takes `figure=`, a Figure or a
SubFigure, and otherwise makes a new one with pyplot. Several models are compared by drawing their
curves on the same Axes, each with a `label`.
"""

from zigp.plots.amounts import (
    amount_histogram,
    error_distribution,
    means_along,
    observed_vs_predicted,
)
from zigp.plots.checks import bound, pit_histogram, reliability
from zigp.plots.lines import components_1d, fit_1d
from zigp.plots.maps import component_maps, lattice_map, scatter_map, time_slices
from zigp.plots.networks import network_panels

__all__ = [
    "amount_histogram",
    "bound",
    "component_maps",
    "components_1d",
    "error_distribution",
    "fit_1d",
    "lattice_map",
    "means_along",
    "network_panels",
    "observed_vs_predicted",
    "pit_histogram",
    "reliability",
    "scatter_map",
    "time_slices",
]
