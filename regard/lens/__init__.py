"""Looking inside: attention as a grid, curves as charts."""
