"""Give Me Some Credit: the paper's preparation, and the facts of the published file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ocbnn.errors import FileError
from real_data import folder_of
from reproduce.data import credit


def made_up(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame({name: generator.integers(0, 50, rows) for name in dict(credit.TRIMMED)})
    frame["age"] = generator.integers(21, 80, rows)
    frame[credit.TARGET] = generator.binomial(1, 0.1, rows)
    return frame


def test_trimming_goes_column_by_column_on_what_is_left() -> None:
    frame = made_up()
    frame.loc[0, "MonthlyIncome"] = np.nan
    expected = frame.drop(index=0)
    for name, quantile in credit.TRIMMED:
        expected = expected[expected[name] <= np.quantile(expected[name], quantile)]
    found = credit.trimmed(frame)
    assert len(found) == len(expected)
    assert found["MonthlyIncome"].tolist() == expected["MonthlyIncome"].tolist()
    assert found["MonthlyIncome"].dtype == np.int64


def test_upsampling_repeats_positives_to_half_the_negatives() -> None:
    frame = made_up()
    found = credit.upsampled(frame)
    negatives = int((frame[credit.TARGET] == 0).sum())
    assert int((found[credit.TARGET] == 0).sum()) == negatives
    assert int((found[credit.TARGET] == 1).sum()) == negatives // 2
    positives = found[found[credit.TARGET] == 1].drop_duplicates()
    assert len(positives.merge(frame.drop_duplicates(), how="inner")) == len(positives)


def test_a_split_is_a_partition_that_its_seed_repeats() -> None:
    frame = made_up().reset_index(names="row")
    train, test = credit.split(frame, seed=3)
    assert sorted([*train["row"], *test["row"]]) == list(range(len(frame)))
    assert len(test) == 40
    assert credit.split(frame, seed=3)[1].equals(test)


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cs-training.csv"
    path.write_text(",SeriousDlqin2yrs\n1,0\n")
    with pytest.raises(FileError, match=r"not the file that was expected.*kaggle"):
        credit.read(path)


def test_facts_of_the_published_rows() -> None:
    folder = folder_of("credit")
    frame = credit.read(folder)
    assert len(frame) == 150_000
    assert round(frame[credit.TARGET].mean(), 5) == 0.06684
    assert len(frame.dropna()) == 120_269
    table = credit.trimmed(frame)
    assert len(table) == 105_228
    train, test = credit.split(table)
    assert (len(train), len(test)) == (94_705, 10_523)
    upsampled = credit.upsampled(train)
    assert len(upsampled) == 133_608
    assert int((~credit.young(upsampled)).sum()) == 111_325


def test_the_papers_ground_truth_is_that_of_its_split() -> None:
    _, test = credit.split(credit.table(folder_of("credit")))
    young = test[credit.young(test)]
    means = young.groupby(credit.TARGET)[credit.UTILISATION].mean()
    assert round(means[1] - means[0], 3) == 0.287
