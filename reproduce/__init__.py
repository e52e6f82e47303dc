"""The paper's figures and applications, on the public interface of `ocbnn` alone.

    python -m reproduce fig1 --setting ours --seed 3 --out reproduced

- `experiments.py`: the table of experiments, and `reproduce`, which runs them.
- `plans.py`: `settings/{paper,reference,ours}.toml`, read as options of models, engines and runs.
- `runs.py`: from a plan, rows and rules to a posterior, its figures, and a folder that `ocbnn.load` opens.
- `outcome.py`: what an experiment gives, its bounds, and its JSON; `notes.toml`: what limits a missed bound.
- `tables.py`: what was written, read again: verdicts on bounds, and seeds together beside the paper's tables.
- `progress.py`: one bar for all fits.  `pictures.py`: the paper's kinds of picture.
- `figures/`, `applications/`: the experiments.  `data/`: their tables, and where they come from.
"""
