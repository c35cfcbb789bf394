"""The papers: one folder each, with the paper's settings and one file per figure, table or theorem."""
