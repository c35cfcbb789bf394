"""The help texts of the command line: what each command is for, with examples."""

DESCRIPTION = """\
A laboratory for in-context learning: train many seeds of small models on synthetic prompts, corrupt the
examples, look inside, and compare the measurements with the papers and their theorems."""

EXAMPLES = """\
examples:
  iclab reproduce --quick             run everything in about nine minutes, with verdicts and a report
  iclab experiments                   list the experiments
  iclab experiments M-tab1            show what the paper claims, and the settings iclab had to choose
  iclab run M-fig2                    run one figure, 16 seeds
  iclab run M-fig2 --set test_outlier_scale=2 --set train_tasks=ring:1
                                      run it with other settings
  iclab show M-fig2                   draw it again from the store, without training
  iclab report                        write one page about everything in the store
  iclab playground                    write a page that trains models while you move sliders
  iclab train mamba --tasks ring:3 --outlier-fraction 0.6 \\
              --test-outlier-fraction 0.7 --test-outlier-labels flip
  iclab score my_module:Mine --quick  score your own nn.Module on a fixed suite
  iclab predict mamba --tasks ring:1 --outlier-fraction 0.6
                                      show which conditions of the theorems hold there, without training

  iclab audit                         derive every verdict again, with a program of its own
  iclab verify M-fig2                 compute a sample of its cells again
  iclab store check                   check every entry of the store; `iclab store --help` for more

Finished work is kept in a store (--store, else $ICLAB_STORE, else results/store) and never computed twice.
After Ctrl-C, run the same command again to continue."""

BEGIN = """\
iclab, a laboratory for in-context learning. Where to begin:

  iclab run M-fig2 --quick        one figure of a paper, with its claims judged
  iclab reproduce --quick         every experiment, then a report to open: about nine minutes on two cores
  iclab experiments               what there is to run
  iclab train mamba --outlier-fraction 0.6 --test-outlier-fraction 0.7 --test-outlier-labels flip
                                  a training of your own
  iclab run M-fig2 --set 'models=["mamba","linear","my_module:MyModel"]'
                                  your model in the paper's figure

`iclab --help` lists all commands, and `iclab COMMAND --help` shows examples of each."""

EXPORT = """\
examples:
  iclab export --claims claims.json             everything the store has
  iclab export M-fig2 --claims fig2.json        one experiment

Of every experiment, the full edition is written if it is complete, else the quick one. Verdicts have a label too:
verified (holds), falsified (fails, or holds in direction only), inconclusive (undecided), not run. The file is the same
each time. docs/audit.md describes it."""

AUDIT = """\
examples:
  iclab audit                                   everything the store has
  iclab audit M-fig2 T-fig3                     two experiments
  iclab audit --claims claims.json              a file of `iclab export`: against the store, and against this iclab
  python src/iclab/audit/program.py claims.json results/store      without iclab: needs Python and pyarrow only

The program reads the raw Parquet files, checks their checksums, and computes every number, interval and verdict with
code of its own. It says how much of each claim it could derive. Then labels and seeds are mixed up on purpose: claims
that hold must not hold any more. The exit code is 1 if anything disagrees."""

VERIFY = """\
examples:
  iclab verify                                  20 cells of the whole store, a minute at most
  iclab verify M-fig2 --sample 5
  iclab verify --sample 200 --seconds 3600 --seed 1

Where the processor and the versions of torch, numba and numpy are those that made a cell, weights and rows must be the
same bit for bit; else within 0.001. Nothing is written into the store. The exit code is 1 if a cell differs."""

COMPLETION = """\
examples:
  iclab completion bash >> ~/.bash_completion
  iclab completion zsh > ~/.zfunc/_iclab      with fpath+=~/.zfunc before compinit in ~/.zshrc

Needs the package shtab (`pip install shtab`)."""

EXPERIMENTS = """\
examples:
  iclab experiments                 list all experiments
  iclab experiments M-tab1          show its claims and its settings: the paper's, and those iclab chose
  iclab experiments my_experiment:Lengths   the same of an experiment of your own
  iclab experiments --experiments my_folder
  iclab experiments --json | python -m json.tool

Your own experiments are listed if they are in the folder (--experiments, else $ICLAB_EXPERIMENTS), if an installed
package has an entry point of the group iclab.experiments, or if the store has results of them."""

RUN = """\
examples:
  iclab run M-fig2 --quick                    8 seeds, fewer points
  iclab run M-fig2 --seeds 24 --workers 4     more seeds; seeds in the store are not trained again
  iclab run M-fig2 --until-decided --most 96  add 8 seeds at a time until every claim is decided
  iclab run M-fig2 --set counting=exact       exactly α·l outliers in each prompt
  iclab run M-fig2 --set 'models=["mamba","linear","softmax"]'
  iclab run M-tab1 M-tab3 M-cq-training       several at once; what they share is trained once
  iclab run M-tab1 --set step_sizes.deep-mamba=0.1
  iclab run M-fig2 --set 'models=["mamba","my_package.my_module:Mine"]' --set step_sizes.my_package.my_module:Mine=0.3
  iclab run M-fig2 --set 'models=["mamba","my_mod:Mine"]' --set 'recipes.Mine={"optimizer":"adam","step_size":0.01}'
  iclab run my_experiment:Lengths --quick     an experiment of your own (docs/extending.md)
  iclab run M-fig2 --ray local                on Ray; auto or HOST:PORT for a cluster (docs/cluster.md)
  iclab run M-fig2 --json > fig2.json         rows and verdicts for a program

`iclab experiments ID` lists the settings that --set accepts."""

REPRODUCE = """\
examples:
  iclab reproduce --quick           8 seeds, fewer points: about nine minutes
  iclab reproduce --ray auto        on the Ray cluster that this machine belongs to (docs/cluster.md)
  iclab reproduce                   the full edition, 16 seeds: about an hour on two cores;
                                    after Ctrl-C, run it again to continue"""

REPORT = """\
examples:
  iclab report                      write results/index.html, and every figure, table and number as files
  iclab report --store elsewhere --out pages

It also shows, counted apart, your own experiments and results under settings of your own (variants), as the store
remembers them."""

PLAYGROUND = """\
examples:
  iclab playground                  write results/playground.html, which needs no server and no network
  iclab playground --out pages

`iclab report` writes it too, beside the report."""

SHOW = """\
examples:
  iclab show M-fig2
  iclab show M-fig2 --quick --out elsewhere
  iclab show M-fig2 --set counting=exact    show what was run with that setting"""

TRAIN = """\
examples:
  iclab train linear --step-size 0.05 --steps 500 --seeds 8
  iclab train my_package.my_module:MyAttention --optimizer adam --step-size 0.01
  iclab train softmax --optimizer adamw --step-size 0.01 --warmup 50 --decay cosine --loss logistic
  iclab train mamba --set recipe.stop.loss=0.05 --set recipe.snapshots=geometric:20
  iclab train my_training.toml --seeds 16 --json
  iclab train mamba --outlier-fraction 0.6 --probe gates --set recipe.clip=1.0
  iclab train mamba --outlier-fraction 0.6 --test-label-noise 0.2 --test-pattern-draw 1
  iclab train softmax-mlp --tasks ring:1 --label-dimension 30 --steps 600 --set pruning.rate=0.3
  iclab train classical --set model.options.learner=3-nn --steps 0 --relevant-fraction 0.8

A TOML file can say the same and more; --set accepts any of its keys:
  model = "mamba"
  seeds = 16
  [prompts]
  tasks = "ring:3"                  # all, ring:U, unseen:ring:U, or pairs such as 0-1,1-2,2-0
  outliers = {fraction = 0.6, scale = 2.0}
  [recipe]
  step_size = 1.0
  [test.flipped]                    # the training prompts, with these changes
  tasks = "all"
  outliers = {fraction = 0.7, scale = 6.0, labels = "flip", patterns = "paper"}"""

SCORE = """\
examples:
  iclab score my_module:Mine --quick          a card of your own nn.Module: HTML, JSON and an SVG badge
  iclab score mamba                           the full edition, with 53 times the training prompts of the quick one:
                                              about 15 minutes of processor time for mamba, hours for large modules
  iclab score my_module:Mine --set hidden=32  with an option of its constructor
  iclab score --compare a.json b.json         two cards side by side
  iclab score --compare a.json mamba          beside the card of a built-in family, which comes with iclab

First integrity (iclab.testing), then tuning by one rule for all models, then what it learns and withstands: 8 seeds,
intervals, paired differences to a built-in family. What a model cannot do is a row that says why. After Ctrl-C, the
same command continues. docs/score.md says what is measured, and what it does not tell."""

PREDICT = """\
examples:
  iclab predict mamba --relevant 6 --outlier-fraction 0.6
  iclab predict mamba --tasks ring:1 --outlier-fraction 0.6 \\
                --test-outlier-fraction 0.8 --test-outlier-scale 6 --test-outlier-patterns paper
  iclab predict linear --step-size 0.05 --outlier-fraction 0.2 --test-outlier-fraction 0.4
  iclab predict softmax-mlp --irrelevant 24 --outlier-pattern-count 0 --tasks ring:1 \\
                --label-dimension 30 --relevant-fraction 0.8 --set model.options.neurons=800
  iclab predict my_training.toml --epsilon 0.1 --json

Nothing is trained. Each condition of each theorem (papers M, T and S) is shown with its left side, its right side,
and the slack, the factor by which it is met (above 1) or missed (below 1). The papers state many conditions up to a
constant; the one taken, mostly 1, stands behind the formula. Conditions are sufficient: where one is not met, the
theorem is silent, and the model may still work. Then come the predicted steps, by the theorem and by iclab's mean
field, the fraction of outliers that is tolerated, the test strength that is needed, and the tasks that will fail."""

ENCODE = """\
examples:
  iclab encode reviews.tsv
  iclab encode data/sst2 --encoder distilbert --trigger cf --out sst2.parquet
  iclab run M-tab6 M-tab7 --text-data data/sst2 --encoder file:sst2.parquet --set trigger=cf
"""

BENCH = """\
examples:
  iclab bench                       takes about five minutes; close other programs
  iclab bench --only deep-mamba     one family of models
  iclab bench --threads 1 --json
  iclab bench --markdown            the tables of docs/speed.md
  iclab bench --executors           what a cell costs beside its work: 10,000 small cells, here and on Ray

For each family: the loop people write in PyTorch, the same under torch.compile (needs a C++ compiler), JAX (if it is
installed), iclab's engines without and with fused kernels, the playground's engine in a browser (if Chromium and
playwright are there), how the time grows with each size, and the machine's limit: a prompt's arithmetic at the speed of
its own matrix product, exponential and random words. docs/speed.md explains."""

STORE = """\
examples:
  iclab store check                     read every entry; the exit code is 1 if any is bad
  iclab store repair                    move bad entries aside; nothing is deleted
  iclab store size                      how many entries there are, and how large they are
  iclab store merge /mnt/other/store    take what another machine has computed
  iclab store prune                     say what belongs to no experiment
  iclab store ACTION --help             more about each

Every finished training and measurement is one entry: a directory with its data, a description and a checksum.
docs/store.md explains."""

STORE_ACTIONS = {
    "check": (
        "check every entry: its checksums, and its name against its description",
        """\
examples:
  iclab store check
  iclab store check --store elsewhere --json

An entry is bad if a file is missing, has changed, or describes another cell than the one it is named after. The exit
code is 1 if any is bad. Nothing is changed.""",
    ),
    "repair": (
        "move bad entries aside, so that the next run computes them again",
        """\
examples:
  iclab store repair

Bad entries go to the directory aside/ of the store. Nothing is deleted. `iclab run` does the same with bad entries that
it meets; `iclab report` and `iclab show` go on without them and name them.""",
    ),
    "list": (
        "list every entry: what it is, when it was finished, how long it took, how large it is",
        """\
examples:
  iclab store list | grep mamba
  iclab store list --json | python -m json.tool""",
    ),
    "size": (
        "say how many entries of each kind there are, and how large they are",
        """\
examples:
  iclab store size

aside is what was moved there because it was bad; unfinished is what a run that was killed left behind, which the next
run clears.""",
    ),
    "prune": (
        "find entries that belong to no experiment, and delete them with --delete",
        """\
examples:
  iclab store prune                 say how many there are, and how large
  iclab store prune --json          name them
  iclab store prune --delete        delete them for good

Kept are the cells of the full and the quick edition of every experiment, of your own experiments (in the folder, in
installed packages or remembered by the store), and of every request that the store remembers. Not kept are those of
`iclab train` and of Python's iclab.train and iclab.compare, of code that has changed, and of earlier versions.""",
    ),
    "merge": (
        "copy the entries of another store that this one lacks",
        """\
examples:
  iclab store merge /mnt/other/store
  iclab store merge elsewhere --store here

Each entry is checked before it is taken, and arrives whole or not at all. Bad ones are named and left. The other store
is only read; what this store has already stays as it is.""",
    ),
}
