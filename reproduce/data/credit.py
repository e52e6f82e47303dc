"""Give Me Some Credit: who runs into serious financial distress within two years (Kaggle, 2011).

frame = credit.table()                    # trimmed as in the paper's code
train, test = credit.split(frame, seed=0)
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.utils import resample

from reproduce.data.sources import Anywhere, Source, locate

TARGET = "SeriousDlqin2yrs"
UTILISATION = "RevolvingUtilizationOfUnsecuredLines"
YOUNG = 35
"""Below this age a borrower is "young" in the paper."""
PAPER_SPLIT = 13
"""The seed with which scikit-learn splits and resamples to the paper's figures: 133,608 rows (111,325 without
the young), and 0.287 as the difference of utilisation between the young with and without distress."""

SOURCE = Source(
    folder="credit",
    file="cs-training.csv",
    url="https://www.kaggle.com/api/v1/competitions/data/download/GiveMeSomeCredit/cs-training.csv",
    sha256="1bd46da486a5708c58c7b01a034fae2a13b327f6f7b62ea7ba4fe3b5824b24ac",
    remedy=(
        "Kaggle gives the file to those who are signed in: take cs-training.csv from "
        "https://www.kaggle.com/c/GiveMeSomeCredit/data."
    ),
)

TRIMMED: tuple[tuple[str, float], ...] = (
    ("NumberOfTime30-59DaysPastDueNotWorse", 0.95),
    ("DebtRatio", 0.95),
    ("MonthlyIncome", 0.95),
    (UTILISATION, 0.998),
    ("NumberOfTimes90DaysLate", 0.998),
    ("NumberRealEstateLoansOrLines", 0.998),
    ("NumberOfTime60-89DaysPastDueNotWorse", 0.998),
    ("NumberOfDependents", 0.998),
)
"""Column and the quantile up to which rows are kept, one after the other, each on what is left."""
WHOLE = ("MonthlyIncome", "NumberOfDependents")
"""Whole numbers that a table with gaps stores as floats."""


def table(path: Anywhere | None = None) -> pd.DataFrame:
    """The rows the paper works with; `path` as in `sources.locate`."""
    return trimmed(read(path))


def read(path: Anywhere | None = None) -> pd.DataFrame:
    """The rows as they are published, without their numbers."""
    return pd.read_csv(locate(SOURCE, path), index_col=0).reset_index(drop=True)


def trimmed(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows without gaps and without the largest values of some columns, as in the paper's code."""
    kept = frame.dropna()
    for name, quantile in TRIMMED:
        kept = kept[kept[name] <= kept[name].quantile(quantile)]
    return kept.astype(dict.fromkeys(WHOLE, np.int64)).reset_index(drop=True)


def split(
    frame: pd.DataFrame, seed: int = PAPER_SPLIT, share: float = 0.1
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows to learn from and `share` of them to test on; with the paper's seed, the paper's own split."""
    train, test = train_test_split(frame, test_size=share, random_state=seed)
    return train.reset_index(drop=True), test.reset_index(drop=True)


def upsampled(frame: pd.DataFrame, seed: int = PAPER_SPLIT, ratio: float = 0.5) -> pd.DataFrame:
    """All negatives, and positives drawn with replacement, `ratio` times as many (errata E3: 1:2)."""
    negative, positive = frame[frame[TARGET] == 0], frame[frame[TARGET] == 1]
    drawn = resample(positive, n_samples=int(ratio * len(negative)), random_state=seed)
    return pd.concat([negative, drawn], ignore_index=True)


def young(frame: pd.DataFrame) -> pd.Series:
    """Which rows are of borrowers below 35."""
    return frame["age"] < YOUNG


def utilisation_threshold(train: pd.DataFrame, quantile: float = 0.6) -> float:
    """The 60% quantile of utilisation among the young, where the paper's rule begins."""
    return float(train.loc[young(train), UTILISATION].quantile(quantile))
