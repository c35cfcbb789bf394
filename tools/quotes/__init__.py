"""Every number in README and docs, and where it comes from.

Each page has a file here with *quotes*: fragments of the page with # in place of each number, and for each # a query
over the stored full edition (`sources`). `python -m quotes` (`make numbers`) reads a store, writes the answers into
``docs/numbers.json``, and says which printed numbers are otherwise. Tests compare the pages with that file, so that
they need no store, and look for numbers that nobody quotes.
"""
