"""COMPAS: 6,172 defendants of Broward County, and whether COMPAS called them high-risk (ProPublica, 2016).

    frame = compas.table()            # nine features and `high_risk`

The rows and features are those of the paper's appendix; numbers are in raw units (years, counts, days), for
standardising is the schema's work.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from reproduce.data.sources import Anywhere, Source, locate, read_columns

TARGET = "high_risk"
RACE = "race"
FEATURES = (
    "age",
    "two_year_recid",
    "priors_count",
    "length_of_stay",
    "c_charge_degree_F",
    "c_charge_degree_M",
    "sex_Female",
    "sex_Male",
    "race",
)
"""In the order of the paper's appendix; `race` is 1 for African-American."""

_READ = (
    "id",
    "age",
    "two_year_recid",
    "priors_count",
    "c_jail_in",
    "c_jail_out",
    "c_charge_degree",
    "sex",
    "race",
    "days_b_screening_arrest",
    "is_recid",
    "score_text",
)

SOURCE = Source(
    folder="compas",
    file="compas-scores-two-years.csv",
    url="https://raw.githubusercontent.com/propublica/compas-analysis/master/compas-scores-two-years.csv",
    sha256="14070ad842aec5bf4e99d8b06379446d7a9b42d54ffeec3f4ba4a01f5bb7e5ea",
    columns=_READ,
    remedy="Get compas-scores-two-years.csv from https://github.com/propublica/compas-analysis.",
)


def table(path: Anywhere | None = None) -> pd.DataFrame:
    """The features and the target; `path` as in `sources.locate`."""
    return prepared(read(path))


def read(path: Anywhere | None = None) -> pd.DataFrame:
    """The rows as they are published, with the columns that are used."""
    return read_columns(locate(SOURCE, path), _READ, keep_default_na=False, na_values=[""])


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """ProPublica's filter, and the paper's features.

    Kept are rows whose screening was within 30 days of the arrest, with a recidivism status, not for an
    ordinary traffic offence, and scored. The target is 1 where COMPAS says "High", not "Medium" or "Low".
    """
    kept = frame[
        frame["days_b_screening_arrest"].between(-30, 30)
        & (frame["is_recid"] != -1)
        & (frame["c_charge_degree"] != "O")
        & (frame["score_text"] != "N/A")
    ]
    stay = pd.to_datetime(kept["c_jail_out"]) - pd.to_datetime(kept["c_jail_in"])
    columns: dict[str, pd.Series] = {
        "age": kept["age"],
        "two_year_recid": kept["two_year_recid"],
        "priors_count": kept["priors_count"],
        "length_of_stay": stay.dt.days,
        "c_charge_degree_F": kept["c_charge_degree"] == "F",
        "c_charge_degree_M": kept["c_charge_degree"] == "M",
        "sex_Female": kept["sex"] == "Female",
        "sex_Male": kept["sex"] == "Male",
        "race": kept["race"] == "African-American",
        TARGET: kept["score_text"] == "High",
    }
    return pd.DataFrame({name: values.astype(np.int64) for name, values in columns.items()}).reset_index(
        drop=True
    )
