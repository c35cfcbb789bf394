"""The packages of iclab: which may use which, what is at the front, and how long files are."""

import ast
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import iclab

SOURCE = Path(iclab.__file__).parent
MAY_USE = {
    "prompts": set(),
    "text": {"prompts"},
    "models": {"prompts"},
    "engines": {"prompts", "models"},
    "probes": {"prompts", "models", "engines", "theory"},
    "theory": set(),
    "lab": {"prompts", "models", "engines", "probes"},
    "study": {"prompts", "models", "engines", "probes", "theory", "lab"},
    "papers": {"prompts", "text", "models", "engines", "probes", "theory", "lab", "study"},
    "beyond": {"prompts", "models", "engines", "probes", "theory", "lab", "study", "papers", "catalog"},
    "report": {"theory", "lab", "study", "papers", "catalog"},
    "playground": {"models", "theory"},
    "testing": {"prompts", "models", "engines"},
    "api": {"prompts", "models", "engines", "probes", "theory", "lab", "study", "catalog"},
    "score": {"prompts", "models", "engines", "probes", "lab", "testing", "api"},
    "audit": {"probes", "lab", "study"},
}
EVERYONES = {"config", "glossary", "threads", "_version"}


def imported(path):
    """Yield the first part of every module of the package that a file imports, and every name it takes from one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("iclab"):
            parts = node.module.split(".")
            if len(parts) > 1:
                yield parts[1], [alias.name for alias in node.names]
            else:
                for alias in node.names:
                    yield alias.name, []


def test_every_package_is_an_attribute():
    script = "import iclab; print([getattr(iclab, package).__name__ for package in iclab._PACKAGES])"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert ast.literal_eval(told) == [f"iclab.{package}" for package in MAY_USE]


def test_packages_use_only_what_they_may():
    for package, allowed in MAY_USE.items():
        files = [*(SOURCE / package).rglob("*.py"), *SOURCE.glob(f"{package}.py")]
        assert files
        for file in files:
            used = {name for name, _ in imported(file)} - {package} - EVERYONES
            assert used <= allowed, f"{file.name} in {package} uses {used - allowed}"


def test_no_file_takes_anothers_private_names():
    for file in SOURCE.rglob("*.py"):
        for module, names in imported(file):
            private = [name for name in names if name.startswith("_") and name != "__version__"]
            assert not private, f"{file.relative_to(SOURCE)} takes {private} from {module}"


def test_everything_at_the_front_can_be_had():
    for name in dir(iclab):
        assert getattr(iclab, name) is not None
    assert not hasattr(iclab, "nothing_of_the_kind")


def test_help_names_everything_at_the_front_within_two_screens():
    text = pydoc.plain(pydoc.render_doc(iclab))
    assert len(text.splitlines()) < 100
    for name in set(dir(iclab)) - {"__version__"}:
        assert re.search(rf"\b{name}\b", text), name


def test_files_and_functions_stay_short():
    for file in (*SOURCE.rglob("*.py"), *Path(__file__).parent.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        assert text.count("\n") <= 400, f"{file.name} is long: it may be two files"
        if file.is_relative_to(SOURCE):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef):
                    assert (node.end_lineno or 0) - node.lineno < 60, f"{file.name}: {node.name} is long"
