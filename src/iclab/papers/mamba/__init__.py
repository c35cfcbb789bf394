"""Paper M: Mamba, linear attention and outliers."""
