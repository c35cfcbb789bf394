"""What cannot be done is refused in one line that says what is allowed, before anything is computed or written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
RUN = ("run", "M-fig2", "--set", "steps=5", "--set", "test_prompts=20", "--seeds", 2, "--workers", 1)
TRAIN = ("train", "--steps", 5, "--test-prompts", 20, "--seeds", 2, "--workers", 1)
LINEAR = (*TRAIN, "--model", "linear")


def setting(text: str) -> tuple[object, ...]:
    """Run the figure with another setting."""
    return (*RUN, "--set", text)


def key(text: str) -> tuple[object, ...]:
    """Train with another key of the description."""
    return (*LINEAR, "--set", text)


# What is asked for, and words of the refusal: the field and its value, and what is allowed.
REFUSED: dict[str, tuple[tuple[object, ...], tuple[str, ...]]] = {
    # settings of an experiment
    "unknown setting": (setting("nonsense=1"), ("nonsense", "unknown key")),
    "unknown setting with a dash": (setting("test-prompts=50"), ("test-prompts", "unknown key")),
    "unknown setting with a dot": (setting("recipe.steps=5"), ("recipe.steps", "unknown key")),
    "unknown setting in capitals": (setting("Steps=5"), ("Steps", "unknown key")),
    "setting called self": (setting("self=1"), ("self", "unknown key")),
    "setting without value": (setting("steps"), ("--set steps", "KEY=VALUE")),
    "unknown experiment": (("run", "M-fig99"), ("experiment = 'M-fig99'", "did you mean M-fig")),
    "unknown experiment to show": (("show", "M-fig99"), ("experiment = 'M-fig99'", "M-fig2")),
    "too many patterns": (setting("dimension=10"), ("dimension = 10", "at least", "6 + 10 + 3 = 19")),
    "fraction above 1": (
        setting("outlier_fractions=[0.2,1.5]"),
        ("outlier_fractions.1 = 1.5", "less than or equal to 1"),
    ),
    "fraction below 0": (setting("outlier_fractions=[-0.5]"), ("outlier_fractions.0 = -0.5", "equal to 0")),
    "training fraction above 1": (setting("train_outlier_fraction=2"), ("train_outlier_fraction = 2", "equal to 1")),
    "negative K": (setting("train_irrelevant_scale=-1"), ("irrelevant_scale = -1", "greater than or equal to 0")),
    "no context": (setting("context_length=0"), ("context_length = 0", "greater than or equal to 1")),
    "unknown model in a figure": (setting('models=["gru"]'), ("'gru'", "mamba, linear, softmax")),
    "model without step size": (setting('models=["gpt2"]'), ("step_sizes", "gpt2")),
    "users model without step size": (setting('models=["my_mod:Good"]'), ("step_sizes", "my_mod:Good")),
    "unknown rule in a figure": (setting('label_rules=["invert"]'), ("label_rules.0 = 'invert'", "'flip', 'target'")),
    "count that is not whole": (
        (*setting("counting=exact"), "--set", "context_length=7"),
        ("context_length = 7", "whole"),
    ),
    "unknown balance": (setting("balance=fair"), ("balance = 'fair'", "'independent' or 'stratified'")),
    "tasks of a missing pattern": (setting("train_tasks=ring:6"), ("tasks", "6", "below relevant = 6")),
    "list without brackets": (
        setting("models=mamba,linear"),
        ("models = 'mamba,linear'", """write 'models=["mamba","linear"]'"""),
    ),
    "number for a list": (setting("outlier_fractions=0.5"), ("write 'outlier_fractions=[0.5]'",)),
    "text for a number": (setting("steps=many"), ("steps = 'many'", "valid integer")),
    "no seeds": ((*RUN, "--seeds", 0), ("seeds = 0", "greater than or equal to 1")),
    "no workers": ((*RUN, "--workers", 0), ("workers = 0", "at least 1")),
    # a training of one's own
    "unknown key": (key("nonsense=1"), ("nonsense", "unknown key")),
    "misspelt key": (key("prompts.taks=all"), ("prompts.taks: unknown key", "did you mean prompts.tasks?")),
    "unknown key further down": (key("prompts.outliers.nonsense=1"), ("prompts.outliers.nonsense", "unknown key")),
    "unknown key with a dash": (key("prompts.context-length=9"), ("prompts.context-length", "unknown key")),
    "unknown test key": (key("test.mine.nonsense=1"), ("nonsense", "unknown key")),
    "too many patterns to train": ((*LINEAR, "--dimension", 18), ("dimension = 18", "at least", "= 19")),
    "outlier fraction": ((*LINEAR, "--outlier-fraction", 1.01), ("fraction = 1.01", "less than or equal to 1")),
    "test outlier fraction": ((*LINEAR, "--test-outlier-fraction", -0.1), ("fraction = -0.1", "equal to 0")),
    "fraction and count": ((*LINEAR, "--outlier-fraction", 0.5, "--outlier-count", 2), ("count = 2", "not both")),
    "more outliers than examples": ((*LINEAR, "--outlier-count", 21), ("count = 21", "at most context_length = 20")),
    "K below 0": ((*LINEAR, "--irrelevant-scale", -0.5), ("irrelevant_scale = -0.5", "equal to 0")),
    "context length": ((*LINEAR, "--context-length", 0), ("context_length = 0", "equal to 1")),
    "no model": (TRAIN, ("model", "say which one, such as `iclab train mamba`")),
    "unknown model": ((*TRAIN, "--model", "gru"), ("model", "'gru'", "mamba, linear, softmax", "module:Class")),
    "unknown label rule": ((*LINEAR, "--outlier-labels", "invert"), ("labels = 'invert'", "random, flip, target")),
    "unknown placement": ((*LINEAR, "--placement", "middle"), ("placement = 'middle'", "random, farthest, closest")),
    "unknown mixture": ((*LINEAR, "--outlier-patterns", "mine"), ("patterns = 'mine'", "'training', 'paper'")),
    "unknown optimizer": ((*LINEAR, "--optimizer", "lbfgs"), ("optimizer = 'lbfgs'", "sgd, adam")),
    "optimizer that is a list": (key('recipe.optimizer=["adam"]'), ("optimizer", "sgd, adam")),
    "unknown loss": (key("recipe.loss=hing"), ("loss = 'hing'", "hinge, linear, squared, logistic")),
    "loss that does not exist": (key("recipe.loss=no_such:loss"), ("no_such:loss", "cannot be imported")),
    "warm-up longer than the training": (key("recipe.warmup=6000"), ("warmup = 6000", "at most steps = 5")),
    "early stopping that never stops": (key("recipe.stop={window=3}"), ("stop", "needs loss")),
    "snapshots by another name": (key("recipe.snapshots=powers:3"), ("snapshots", "geometric:N")),
    "unknown optimizer option": (key("recipe.optimizer_options={warmup=3}"), ("optimizer_options", "warmup")),
    "contradicting optimizer options": (
        key("recipe.optimizer_options={foreach=true,fused=true}"),
        ("optimizer_options", "fused"),
    ),
    "step size of 0": ((*LINEAR, "--step-size", 0), ("step_size = 0", "greater than 0")),
    "unknown dtype": ((*LINEAR, "--dtype", "float16"), ("dtype = 'float16'", "'float32' or 'float64'")),
    "unknown probe": ((*LINEAR, "--probe", "errors"), ("probe = 'errors'", "one of error, worst, worst-placement")),
    "unknown tasks": ((*LINEAR, "--tasks", "some"), ("tasks = 'some'", "'all', 'ring:U'")),
    "tasks that name a missing pattern": ((*LINEAR, "--tasks", "0-1,5-6"), ("tasks = 5-6", "0 to 5")),
    "a task of one pattern": ((*LINEAR, "--tasks", "2-2"), ("tasks = 2-2", "two different")),
    "test tasks that name a missing pattern": ((*LINEAR, "--test-tasks", "0-9"), ("tasks = 0-9", "0 to 5")),
    "no seeds to train": ((*LINEAR, "--seeds", 0), ("seeds = 0", "equal to 1")),
    "no test prompts": ((*LINEAR, "--test-prompts", 0), ("test_prompts = 0", "equal to 1")),
    "no workers to train": ((*LINEAR, "--workers", 0), ("workers = 0", "at least 1")),
    "unknown model option": (key("model.options.depth=2"), ("model.options.depth = 2", "state_size, init_scale")),
    "model option of the wrong kind": (key("model.options.init_scale=big"), ("init_scale", "big")),
    "model option that is not whole": (key("model.options.state_size=40.5"), ("state_size", "40.5")),
    "model option that is not finite": (key("model.options.init_scale=inf"), ("init_scale", "inf")),
    "model option out of range": (key("model.options.state_size=0"), ("state_size = 0", "at least 1")),
    "unknown form": ((*TRAIN, "--model", "mamba", "--set", "model.options.form=fast"), ("form = 'fast'", "closed")),
    # papers T and S
    "noise below 0": (key("prompts.noise=-0.1"), ("prompts.noise = -0.1", "greater than or equal to 0")),
    "signal of 0": (key("prompts.signal=[0.0,1.0]"), ("signal.0 = 0.0", "greater than 0")),
    "signal the wrong way round": (key("prompts.signal=[0.9,0.5]"), ("signal = (0.9, 0.5)", "at most the second")),
    "α above 1": ((*LINEAR, "--relevant-fraction", 1.2), ("relevant_fraction = 1.2", "less than or equal to 1")),
    "α' above 1": ((*LINEAR, "--test-relevant-fraction", 1.2), ("relevant_fraction = 1.2", "less than or equal to 1")),
    "mixtures of the wrong length": (
        key("test.out.relevant_mixtures=[[0.5,0.5]]"),
        ("relevant_mixtures = (0.5, 0.5)", "each of the 6 relevant patterns"),
    ),
    "more mixtures than patterns": (
        key(f"test.out.relevant_mixtures={[[1.0] * 6] * 7}"),
        ("relevant_mixtures = 7 of them", "at most the 6"),
    ),
    "pruning rate above 1": (key("pruning.rate=1.5"), ("pruning.rate = 1.5", "less than or equal to 1")),
    "pruning rate below 0": (key("pruning.rate=-0.5"), ("pruning.rate = -0.5", "greater than or equal to 0")),
    "pruning a model without neurons": (key("pruning.rate=0.5"), ("pruning", "linear has none")),
    "probe of weights that are not there": ((*LINEAR, "--probe", "neurons"), ("probe = neurons", "linear")),
    "rates outside 0 to 1": (("run", "T-fig5", "--set", "rates=[0.0,1.1]"), ("rates.1 = 1.1", "equal to 1")),
    "τ below 0 in a figure": (("run", "S-fig1", "--set", "noises=[-1.0]"), ("noises.0 = -1.0", "equal to 0")),
    "training of a classical learner": ((*TRAIN, "--model", "classical"), ("no parameters to train", "steps = 0")),
    "heads of GPT-2": ((*TRAIN, "--model", "gpt2", "--set", "model.options.heads=7"), ("heads = 7", "hidden = 64")),
    # files
    "missing file": (("train", "nowhere.toml"), ("nowhere.toml", "cannot be read")),
    "broken file": (("train", "broken.toml"), ("broken.toml", "cannot be read", "line 2")),
    "file with an unknown key": (("train", "unknown.toml"), ("recipe.stepsize", "unknown key")),
    "file with a wrong value": (("train", "wrong.toml"), ("recipe.steps = -1", "equal to 0")),
    # users' models
    "module that is not there": ((*TRAIN, "--model", "no_such_mod:Net"), ("no_such_mod:Net", "cannot be imported")),
    "class that is not there": ((*TRAIN, "--model", "my_mod:Nothing"), ("= 'my_mod:Nothing': cannot be imported",)),
    "class with a slip in its name": ((*TRAIN, "--model", "my_mod:Goood"), ("my_mod:Goood", "did you mean Good?")),
    "path for a module": ((*TRAIN, "--model", "./my_mod:Good"), ("./my_mod:Good", "package.module:name")),
    "file for a module": ((*TRAIN, "my_mod.py:Good"), ("'my_mod.py:Good'", "did you mean my_mod:Good?")),
    "module of a package on its own": (
        (*TRAIN, "--model", "inside:Net"),
        ("no known parent package) in inside.py, line 1; import it from the folder above, as package.module:Class",),
    ),
    "module with a slip": ((*TRAIN, "--model", "slip:Net"), ("slip:Net", "cannot be imported")),
    "module that fails": (
        (*TRAIN, "--model", "failing:Net"),
        ("failing:Net", "cannot be imported", "in failing.py, line "),
    ),
    "model that is a number": ((*TRAIN, "--model", "math:pi"), ("math:pi",)),
    "model that is a function": ((*TRAIN, "--model", "my_mod:function"), ("function", "torch.nn.Module")),
    "model with an argument left open": ((*TRAIN, "--model", "my_mod:Needy"), ("Needy", "hidden")),
    "model without parameters": ((*TRAIN, "--model", "my_mod:Bare"), ("Bare", "no parameters")),
    "model of the wrong output shape": ((*TRAIN, "--model", "my_mod:Wide"), ("output shape = (2, 3)", "(2, 1)")),
    "model that returns nothing": ((*TRAIN, "--model", "my_mod:Mute"), ("output = NoneType", "(2, 1)")),
    "model of the wrong input width": ((*TRAIN, "--model", "my_mod:Narrow"), ("Narrow", "(2, 21, 31)")),
    "model of the wrong input rank": ((*TRAIN, "--model", "my_mod:Flat"), ("Flat", "(2, 21, 31)")),
    "model that raises without a word": ((*TRAIN, "--model", "my_mod:Sulking"), ("Sulking", "(2, 21, 31)")),
    "model of float16": ((*TRAIN, "--model", "my_mod:Half"), ("Half", "read.weight is of float16", "float32 or")),
    "model of whole numbers": ((*TRAIN, "--model", "my_mod:Whole"), ("Whole", "output dtype = int64", "float32 or")),
    "model without gradient": ((*TRAIN, "--model", "my_mod:Detached"), ("Detached", "the output has no gradient")),
    "model that cannot be built": ((*TRAIN, "--model", "my_mod:Unbuilt"), ("Unbuilt, seed 0", "OSError: no file")),
    "model that cannot be measured": (
        (*TRAIN, "--model", "my_mod:Unmeasured"),
        ("Unmeasured, in evaluation, seed 0", "ZeroDivisionError: not now (my_mod.py, line "),
    ),
    "model for prompts of one length": (
        (*TRAIN, "--model", "my_mod:OneLength", "--test-context-length", 30),
        ("OneLength, in evaluation", "(2, 31, 31)", "trained on context_length = 20"),
    ),
    "rule that raises": (
        (*LINEAR, "--outlier-fraction", 0.5, "--outlier-labels", "my_mod:raising"),
        ("linear", "seed 0", "my_mod:raising: raised KeyError: 'x' (my_mod.py, line "),
    ),
    "test rule that raises": (
        (*LINEAR, "--test-outlier-fraction", 0.5, "--test-outlier-labels", "my_mod:raising"),
        ("linear, in evaluation, seed 0", "my_mod:raising: raised KeyError: 'x' (my_mod.py, line "),
    ),
    "rule that is not there": (
        (*LINEAR, "--outlier-labels", "my_mod:nothing"),
        ("my_mod:nothing", "cannot be imported"),
    ),
    # the store
    "store below a file": (
        (*LINEAR, "--store", "broken.toml/store"),
        ("store = broken.toml/store", "cannot be written"),
    ),
    "store that cannot be made": (
        (*LINEAR, "--store", "/proc/nowhere"),
        ("store = /proc/nowhere", "cannot be written"),
    ),
    "file for a store": ((*LINEAR, "--store", "broken.toml"), ("store = broken.toml", "must be a directory")),
    "directory that is no store": ((*LINEAR, "--store", "."), ("store = .", "not a store")),
}

FILES = {
    "broken.toml": 'model = "linear"\nseeds = = 2\n',
    "unknown.toml": 'model = "linear"\n[recipe]\nstepsize = 1.0\n',
    "wrong.toml": 'model = "linear"\n[recipe]\nsteps = -1\n',
}
MODULES = {
    "slip": "class Net(:\n",
    "failing": "1 / 0\n",
    "inside": "from .other import Net\n",
    "my_mod": """
        import torch

        class Good(torch.nn.Module):
            def __init__(self, width, outputs=1):
                super().__init__()
                self.read = torch.nn.Linear(width, outputs)

            def forward(self, prompts):
                return self.read(prompts.mean(1))

        class Wide(Good):
            def __init__(self, width):
                super().__init__(width, outputs=3)

        class Narrow(Good):
            def __init__(self, width):
                super().__init__(width - 1)

        class Mute(Good):
            def forward(self, prompts):
                self.read(prompts.mean(1))

        class Flat(Good):
            def forward(self, prompts):
                batch, width = prompts.shape

        class Sulking(Good):
            def forward(self, prompts):
                raise RuntimeError

        class Needy(Good):
            def __init__(self, width, hidden):
                super().__init__(width)

        class Bare(torch.nn.Module):
            def forward(self, prompts):
                return prompts.mean((1, 2))

        class Half(Good):
            def __init__(self, width):
                super().__init__(width)
                self.half()

        class Whole(Good):
            def forward(self, prompts):
                return super().forward(prompts).long()

        class Detached(Good):
            def forward(self, prompts):
                return super().forward(prompts).detach()

        class Unbuilt(Good):
            def __init__(self, width):
                raise OSError("no file")

        class Unmeasured(Good):
            def forward(self, prompts):
                if not self.training:
                    raise ZeroDivisionError("not now")
                return super().forward(prompts)

        class OneLength(Good):
            def __init__(self, width, context_length):
                super().__init__(width * (context_length + 1))

            def forward(self, prompts):
                return self.read(prompts.flatten(1))

        class Tires(Good):
            calls = 0

            def forward(self, prompts):
                self.calls += self.training
                if self.calls > 3:
                    raise KeyError("tired")
                return super().forward(prompts)

        def raising(examples):
            return {}["x"]

        def function(width):
            return width
        """,
}


WRONG_WORDS: dict[str, tuple[tuple[object, ...], tuple[str, ...]]] = {
    "misspelt option": (("run", "M-fig2", "--quik"), ("--quik: unknown option of iclab run", "did you mean --quick?")),
    "misspelt option with a value": ((*TRAIN, "mamba", "--optimizr", "adam"), ("--optimizr", "mean --optimizer?")),
    "misspelt option with =": ((*TRAIN, "mamba", "--optimizr=adam"), ("--optimizr: ", "did you mean --optimizer?")),
    "option unlike any other": (("run", "M-fig2", "--zzzzz"), ("--zzzzz: unknown option", "see `iclab run --help`")),
    "word too many": (("show", "M-fig2", "M-fig3"), ("M-fig3: unknown word of iclab show",)),
    "misspelt command": (("trian",), ("command = 'trian'", "one of experiments, run", "did you mean train?")),
    "misspelt action": (("store", "chek"), ("action = 'chek'", "check, repair", "did you mean check?")),
    "option without its value": (("run", "M-fig2", "--seeds"), ("--seeds: expected one argument", "iclab run --help")),
    "file for a model": ((*TRAIN, "./my_mod.py"), ("model = './my_mod.py'", "not a path; did you mean my_mod:Class?")),
    "path for a model": ((*TRAIN, "a dir/pkg/rel:Rel"), ("a built-in name or your own as module:Class, not a path",)),
}
"""Mistakes that only the words of a command line can have."""


@pytest.fixture
def place(tmp_path: Path, user_module: Callable[[str, str], None]) -> Path:
    """The working directory, with a person's files and modules."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for name, text in MODULES.items():
        user_module(name, text)
    return tmp_path


@pytest.mark.parametrize("words, expected", REFUSED.values(), ids=REFUSED)
def test_refused_in_one_line_before_anything_is_written(
    words: tuple[object, ...], expected: tuple[str, ...], cli: Cli, place: Path, contents: Callable[[Path], Any]
):
    before = contents(place)
    store = () if "--store" in words else ("--store", "store")
    complaint = cli(*words, *store).complaint
    for word in expected:
        assert word in complaint
    assert contents(place) == before


@pytest.mark.parametrize("words, expected", WRONG_WORDS.values(), ids=WRONG_WORDS)
def test_wrong_words_are_refused_in_one_line(
    words: tuple[object, ...], expected: tuple[str, ...], cli: Cli, place: Path
):
    complaint = cli(*words).complaint
    for word in expected:
        assert word in complaint


ON_A_USED_STORE = ("unknown setting", "no workers", "tasks of a missing pattern", "model of the wrong output shape")


@pytest.mark.parametrize("name", ON_A_USED_STORE)
def test_refused_without_touching_a_store(
    name: str, cli: Cli, place: Path, figure_run: Any, contents: Callable[[Path], Any]
):
    store = shutil.copytree(figure_run.store, place / "store")
    before = contents(store)
    assert cli(*REFUSED[name][0], "--store", store).complaint
    assert contents(store) == before


def test_the_good_model_is_not_refused(cli: Cli, place: Path):
    """Otherwise the refusals above would say nothing."""
    assert cli(*TRAIN, "--model", "my_mod:Good", "--store", "store").code == 0


def test_a_model_that_raises_in_training_is_named_with_its_step(cli: Cli, place: Path):
    complaint = cli(*TRAIN, "--model", "my_mod:Tires", "--store", "store").complaint
    assert complaint.startswith("model = Tires, step 3, seeds 0 to 7: raised KeyError: 'tired' (my_mod.py, line ")


def test_a_store_of_another_format_is_refused(cli: Cli, tmp_path: Path, contents: Callable[[Path], Any]):
    (tmp_path / "store.json").write_text('{"format": 99}')
    before = contents(tmp_path)
    complaint = cli(*LINEAR, "--store", tmp_path).complaint
    assert all(word in complaint for word in (str(tmp_path), "format 99", "format 1"))
    assert contents(tmp_path) == before


# Allowed, with a warning.


@pytest.mark.parametrize("where", ["prompts", "test.mine"])
@pytest.mark.parametrize("weights", ["[0.5,-0.5,0.0]", "[-1.0,0.2,0.1]"], ids=["sum 0", "sum below 0"])
def test_mixtures_outside_the_theorem_run_with_one_warning(where: str, weights: str, cli: Cli, tmp_path: Path):
    words = (
        "--set",
        f"{where}.outliers={{fraction=0.5,patterns=[{{weights={weights}}}]}}",
        "--store",
        tmp_path / "store",
    )
    said = cli(*LINEAR, *words, "--json", show_warnings=True)
    assert said.code == 0, said.err
    (line,) = [line for line in said.err.splitlines() if "warning" in line]
    assert line.startswith("iclab: warning: ")
    assert "no theorem covers" in line
    assert said.json["measurements"]


def test_mixtures_inside_the_theorem_run_without_a_warning(cli: Cli, tmp_path: Path):
    words = ("--outlier-fraction", 0.5, "--outlier-patterns", "paper", "--store", tmp_path / "store")
    said = cli(*LINEAR, *words, show_warnings=True)
    assert said.code == 0
    assert "warning" not in said.err
