"""JAX, files and signals of the process that zigp runs in."""
