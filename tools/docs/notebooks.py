"""Execute the notebooks of docs/notebooks, which are Python files with cells (jupytext), and write them as pages."""

from __future__ import annotations

import tempfile
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbconvert import MarkdownExporter


def rendered(source: Path, folder: Path) -> str:
    """Execute a notebook and return it as Markdown, its pictures written into a folder.

    A cell that raises ends the build. What a notebook keeps on disk goes into a folder that is thrown away.
    """
    notebook = jupytext.read(source)
    with tempfile.TemporaryDirectory() as place:
        patience = {"timeout": 600, "startup_timeout": 300}
        shown = {"coalesce_streams": True, "extra_arguments": ["--log-level=ERROR"]}
        NotebookClient(notebook, resources={"metadata": {"path": place}}, **patience, **shown).execute()
    for cell in notebook.cells:  # what iclab says while it works is for the terminal
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    exporter = MarkdownExporter()
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = True
    text, resources = exporter.from_notebook_node(
        notebook, {"unique_key": source.stem, "output_files_dir": source.stem}
    )
    for name, data in resources["outputs"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return text.replace("![svg]", "![What the code above draws]")
