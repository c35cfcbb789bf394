"""Experiments from outside the package: found, run, remembered by the store, and refused in one line if bad."""

from importlib.metadata import EntryPoint

import pytest

from iclab import catalog
from iclab.config import InputError
from iclab.lab import Store

OWN = '''
from iclab import Model, Prompts, Recipe
from iclab.engines import Training
from iclab.study import Claim, Experiment, Settings, error_points, every_below, in_groups, judged


class MineSettings(Settings):
    lengths: tuple[int, ...] = (5, 10)
    test_prompts: int = 20
    step_size: float = 0.05


class Mine(Experiment[MineSettings]):
    """Error against length."""

    id = "mine"
    settings = MineSettings

    def conditions(self, settings):
        recipe = Recipe(steps=3, batch_size=4, step_size=settings.step_size)
        training = Training(model=Model(name="linear"), prompts=Prompts(), recipe=recipe)
        tests = {length: Prompts(context_length=length) for length in settings.lengths}
        return [c for length, p in tests.items() for c in in_groups(settings, {"length": length}, training, prompts=p)]
'''
CLAIM = """
    def claims(self, settings):
        points = lambda rows: error_points(rows, settings.seeds, [("l = 5", {"length": 5})])
        return [Claim("mine.small", "small", "error < 0.9", judged(points, every_below, 0.9))]
"""


@pytest.fixture
def run(cli, user_module, tmp_path):
    """Return a function that writes ``my_own.py`` and runs a command on it."""

    def run(command, *words, code=OWN, module="my_own", name="Mine"):
        if code:
            user_module(module, code)
        places = ("--store", tmp_path / "store", "--out", tmp_path / "out")
        workers = ("--workers", 1) if command == "run" else ()
        return cli(command, f"{module}:{name}", *words, *(places if command != "experiments" else places[:2]), *workers)

    return run


# Good ones.


def test_one_without_claims_chart_or_table_runs(run, tmp_path):
    said = run("run", "--quick", "--seeds", 2)
    assert said.code == 0, said.err
    assert "mine: Error against length" in said.out
    assert list((tmp_path / "out").glob("mine-*/mine.png"))
    assert run("show", "--quick", "--seeds", 2, code=None).out == said.out


def test_its_settings_claims_and_rows_are_there_for_programs(run, tmp_path):
    said = run("run", "--set", "lengths=[5]", "--seeds", 2, "--json", code=OWN + CLAIM).json
    assert (said["id"], said["settings"]["lengths"], len(said["rows"])) == ("mine", [5], 2)
    assert [claim["id"] for claim in said["claims"]] == ["mine.small"]
    (described,) = run("experiments", "--json", code=None).json["experiments"]
    assert (described["own"], described["run as"]) == (True, "my_own:Mine")
    assert {"name": "lengths", "value": [5, 10], "disclosed": False, "why": "chosen by you"} in described["settings"]
    assert [record["settings"]["lengths"] for record in Store(tmp_path / "store").records()] == [[5]]


def test_it_runs_until_decided(run, tmp_path):
    said = run("run", "--until-decided", "--most", 8, "--set", "lengths=[5]", code=OWN + CLAIM)
    assert said.code == 0, said.err
    assert list((tmp_path / "out").glob("mine-*-until-decided/mine.png"))
    (record,) = Store(tmp_path / "store").records()
    assert record["until decided"]


def test_the_same_request_is_remembered_once(run, tmp_path):
    for _ in range(2):
        assert run("run", "--seeds", 2).code == 0
    assert len(Store(tmp_path / "store").records()) == 1


def test_a_store_knows_it_by_its_id_and_says_where_it_was(run, cli, tmp_path, contents):
    run("run", "--seeds", 2)
    words = ("--store", tmp_path / "store")
    assert "yours, my_own:Mine" in cli("experiments", *words).out
    assert cli("show", "mine", "--seeds", 2, *words, "--out", tmp_path / "out").code == 0
    before = contents(tmp_path / "store")
    (tmp_path / "my_own.py").unlink()
    run("show", code="raise ValueError('broken')")
    said = cli("experiments", *words)
    assert said.code == 0
    (line,) = said.err.splitlines()
    assert "my_own:Mine: cannot be imported (ValueError: broken)" in line
    assert line.endswith(f"it was run in {tmp_path}")
    assert contents(tmp_path / "store") == before


def test_a_folder_of_experiments_is_searched(cli, user_module, tmp_path):
    user_module("my_own", OWN)  # the fixture forgets the module afterwards
    user_module("my_broken", "raise ValueError('broken')")
    user_module("my_exit", "import sys\nsys.exit('done')")
    user_module("my_greedy", OWN + "\n    def __init__(self, size): pass")
    words = ("--experiments", tmp_path, "--store", tmp_path / "store")
    said = cli("experiments", *words)
    assert "Error against length (yours, my_own:Mine)" in said.out
    broken, exits, greedy = said.err.splitlines()
    assert broken == f"iclab: {tmp_path / 'my_broken.py'}: cannot be imported (ValueError: broken)"
    assert exits == f"iclab: {tmp_path / 'my_exit.py'}: cannot be imported (SystemExit: done)"
    assert greedy.startswith("iclab: my_greedy:Mine: cannot be made without arguments (TypeError: ")
    experiment = catalog.find("MINE", str(tmp_path))
    assert (experiment.id, experiment.folder) == ("mine", str(tmp_path))
    assert cli("run", "mine", "--seeds", 2, "--workers", 1, *words, "--out", tmp_path / "out").code == 0
    assert "is not a folder" in cli("experiments", "--experiments", tmp_path / "nowhere").complaint


def test_entry_points_are_searched(user_module, monkeypatch):
    user_module("my_own", OWN)
    entries = [
        EntryPoint("mine", "my_own:Mine", catalog.GROUP),
        EntryPoint("lost", "no_such_module:Mine", catalog.GROUP),
    ]
    monkeypatch.setattr(catalog, "entry_points", lambda group: entries if group == "iclab.experiments" else [])
    found, problems = catalog.own()
    assert found["mine"].address == "my_own:Mine"
    assert len(problems) == 1
    assert "no_such_module:Mine" in problems[0]
    assert catalog.find("mine").id == "mine"


def test_users_experiments_are_not_taken_for_built_in_ones(user_module):
    user_module("my_own", OWN)
    mine = catalog.find("my_own:Mine")
    catalog.experiments.cache_clear()
    assert "mine" not in catalog.experiments()
    assert mine.own
    assert not catalog.find("M-fig2").own


# Bad ones: one line, and nothing in the store.

NO_ID = OWN.replace('    id = "mine"\n', "")
BAD = {
    "no id": (NO_ID, "my_own:Mine: has no id; give it one, such as id = 'mine'"),
    "a built-in id": (OWN.replace('"mine"', '"m-FIG2"'), "id = 'm-FIG2' of my_own:Mine: is the id of a built-in"),
    "the name of the store": (OWN.replace('"mine"', '"store"'), "is the name of the store"),
    "an id that is no name": (OWN.replace('"mine"', '"../mine"'), "must be letters, digits"),
    "an inherited id": (
        "from iclab.papers.mamba.fig2 import OutlierFraction\nclass Mine(OutlierFraction): pass",
        "id = 'M-fig2' of my_own:Mine: is the id of a built-in",
    ),
    "no conditions": (OWN.replace("def conditions", "def cells"), "my_own:Mine: needs a method conditions"),
    "conditions that raise": (
        OWN.replace("tests = {", "settings.nothing, {"),
        "its conditions cannot be made (AttributeError: 'MineSettings' object has no attribute 'nothing'; my_own.py, ",
    ),
    "conditions that are none": (
        OWN.replace("return [c for", "return [0 for"),
        "must be a list of one Condition or more",
    ),
    "a module that raises": ("raise ValueError('broken')", "my_own:Mine: cannot be imported (ValueError: broken)"),
    "a module that exits": ("raise SystemExit(3)", "my_own:Mine: cannot be imported (SystemExit: 3)"),
    "a class that needs more": (
        OWN + "\n    def __init__(self, size): pass",
        "my_own:Mine: cannot be made without arguments (TypeError: ",
    ),
    "a class that is none": ("class Mine: pass", "my_own:Mine: must be a class of iclab.study.Experiment"),
    "settings that are none": (
        OWN.replace("settings = MineSettings", "settings = dict"),
        "must be a class of iclab.study",
    ),
    "a setting without a default": (
        OWN.replace(" = (5, 10)", ""),
        "every field needs a default (lengths: field required)",
    ),
    "a claim of another name": (
        (OWN + CLAIM).replace("mine.small", "M-fig2.small"),
        "claim = 'M-fig2.small': must be mine.",
    ),
    "a training that cannot be": (OWN.replace("= 0.05", "= -1.0"), "step_size = -1.0"),
}


@pytest.mark.parametrize("code, words", BAD.values(), ids=BAD)
def test_a_bad_one_is_one_line_and_writes_nothing(run, tmp_path, code, words):
    assert words in run("run", "--seeds", 2, code=code).complaint
    assert not (tmp_path / "store").exists()
    assert not (tmp_path / "out").exists()


def test_two_of_the_same_id_are_refused(run, user_module, cli, tmp_path):
    user_module("other_own", OWN)
    user_module("my_own", OWN)
    places = ("--store", tmp_path / "store", "--out", tmp_path / "out")
    assert "id = 'mine' of other_own:Mine" in cli("run", "my_own:Mine", "other_own:Mine", *places).complaint
    assert not (tmp_path / "store").exists()
    assert run("run", "--seeds", 2).code == 0
    said = cli("run", "other_own:Mine", "--seeds", 2, *places)
    assert said.complaint == "id = 'mine' of other_own:Mine: is the id of my_own:Mine too; choose another"
    assert len(Store(tmp_path / "store").records()) == 1


CHART = """
    def chart(self, rows, settings):
        raise KeyError("no such column")
"""


def test_a_chart_that_raises_is_one_line_and_loses_no_results(run, tmp_path):
    said = run("run", "--seeds", 2, code=OWN + CHART)
    assert said.code == 2
    assert "mine: its chart cannot be made (KeyError: 'no such column'; my_own.py, line" in said.err
    assert "Traceback" not in said.err
    assert run("show", "--seeds", 2, code=OWN).code == 0


def test_a_built_in_experiments_errors_are_not_hidden():
    with pytest.raises(ZeroDivisionError), catalog.find("M-fig2").guarded("chart"):
        raise ZeroDivisionError
    with pytest.raises(InputError, match="must be one of"):
        catalog.find("M-fig99")
