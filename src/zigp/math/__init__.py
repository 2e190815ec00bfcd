"""Special functions and quadrature."""
