"""The open demo of MIMIC-III (100 patients, ODbL 1.0): where its files are published, and their checksums."""

from __future__ import annotations

from pathlib import Path

from ocbnn.datasets.sources import Source, downloaded

URL = "https://physionet.org/files/mimiciii-demo/1.4"
FOLDER = "mimic3_demo"

CONTENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "PATIENTS": (
        "86d8c9ad5f63319abe003eb26670e14085bb30a7c3a188569d2f9501d9c2d678",
        ("row_id", "subject_id", "dob"),
    ),
    "ICUSTAYS": (
        "5ed0cf3336dfa92d0c1fa5f58cd704a8bc11b7996e6ade05e63207805343d25f",
        ("row_id", "icustay_id", "subject_id", "intime", "outtime"),
    ),
    "D_ITEMS": (
        "fb91352e20a07cc33b74fd151ff3650cf83c6525cf1261c302d6a86b2743f128",
        ("row_id", "itemid", "label"),
    ),
    "D_LABITEMS": (
        "afe15f541818c3e91505c75d824725e6b9e426bf8068f55e65dd9993163d0325",
        ("row_id", "itemid", "label"),
    ),
    "CHARTEVENTS": (
        "ed3ebb328b46d4eaff4d64fd775f80f0fa03d2c9c4beda9dc311e00a096e7edc",
        ("row_id", "icustay_id", "itemid", "charttime", "valuenum", "valueuom", "error"),
    ),
    "OUTPUTEVENTS": (
        "375ec431fc967e10b19544cdc5db838d6207ba98c044e097f7c3a816e218cfb7",
        ("row_id", "icustay_id", "itemid", "charttime", "value", "valueuom", "iserror"),
    ),
    "LABEVENTS": (
        "6d6c6bae895888b727bd96de2f289e7b5080eaf5305e46fd8bde6fc2add27252",
        ("row_id", "subject_id", "itemid", "charttime", "valuenum", "valueuom"),
    ),
    "INPUTEVENTS_CV": (
        "68be94a551eb90663745bad678ef5f13537868a0301dc5510220afc633a91a8f",
        ("row_id", "icustay_id", "itemid", "charttime", "amount", "amountuom", "rate"),
    ),
    "INPUTEVENTS_MV": (
        "79493e4369623c87723f701474705cd3df77a3b45fd3d8d5ff6bcf19c7d13738",
        (
            "row_id",
            "icustay_id",
            "itemid",
            "starttime",
            "endtime",
            "amount",
            "amountuom",
            "statusdescription",
        ),
    ),
}
"""For each table the checksum of the columns that the cohort is made from."""


def sources() -> tuple[Source, ...]:
    """The demo's files."""
    return tuple(
        Source(
            folder=FOLDER,
            file=f"{table}.csv",
            url=f"{URL}/{table}.csv",
            sha256=sha256,
            columns=columns,
            remedy="Get the demo from https://physionet.org/content/mimiciii-demo/1.4/.",
        )
        for table, (sha256, columns) in CONTENTS.items()
    )


def downloaded_folder(cache: Path | None = None) -> Path:
    """The folder in the user's cache with all of them."""
    return [downloaded(source, cache).parent for source in sources()][-1]
