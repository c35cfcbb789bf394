"""Paper S: what attention selects, and what the MLP decides by."""
