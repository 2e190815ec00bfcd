"""Tables, grids and streams, and the layout of their rows."""
