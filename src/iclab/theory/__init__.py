"""What the theorems predict and ask for. Nothing here knows how anything is measured."""
