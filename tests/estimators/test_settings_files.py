"""Settings files: an estimator's options written and read again, and mistakes in them as sentences."""

import pytest

from ocbnn import OCBNNClassifier, OCBNNRegressor
from ocbnn.errors import FileError
from ocbnn.estimators.settings_files import read_settings, written_settings
from ocbnn.inference.engines import ENGINES
from ocbnn.inference.engines.bbb import Bbb
from ocbnn.inference.prepare import Settings
from ocbnn.inference.strength import StrengthSearch
from ocbnn.inference.warmstart import WarmStart

OPTIONS = [
    {"engine": Bbb(steps=60), "hidden": (20, 5), "prior": 0.2, "class_weight": "balanced", "draws": 7},
    {"preparation": Settings(strength=StrengthSearch(rounds=6, ratio=1.25))},
    {"preparation": Settings(warm=None, strength=None, nodes=False), "engine": "svgd"},
    {"preparation": Settings(start="base")},
    {"preparation": Settings(warm=WarmStart(steps=3))},
    *({"engine": engine()} for engine in ENGINES.values()),
    {},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "none")
def test_options_survive_a_file(options, tmp_path):
    given = OCBNNClassifier(**options)
    (tmp_path / "fit.toml").write_text(written_settings(given))
    read = OCBNNClassifier(**read_settings(tmp_path / "fit.toml"))
    known, expected = read.get_params(), given.get_params()
    if isinstance(expected["engine"], str) and expected["engine"] != "auto":
        expected["engine"] = ENGINES[expected["engine"]]()
    assert known == expected


@pytest.mark.parametrize("noise", ["varying", 0.3])
def test_noise_survives_a_file(noise, tmp_path):
    (tmp_path / "fit.toml").write_text(written_settings(OCBNNRegressor(noise=noise)))
    assert OCBNNRegressor(**read_settings(tmp_path / "fit.toml")).noise == noise


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('noise = "loud"', "noise"),
        ("drws = 3", "has no option 'drws'; .* Did you mean 'draws'?"),
        ('draws = "many"', "draws: Input should be a valid integer"),
        ('prior = "far"', "prior: Input should be a valid number"),
        ("hidden = 3", "hidden: Input should be a valid tuple"),
        ('engine = "bbb"', r"engine is a table of options, \[engine\]"),
        ("[engine]\nsteps = 3", r"\[engine\] needs a name"),
        ('[engine]\nname = "bbd"', "Did you mean 'bbb'?"),
        ('[engine]\nname = "bbb"\nstep = 3', r"\[engine\] has no option 'step'.* Did you mean 'steps'?"),
        ('[engine]\nname = "bbb"\nsteps = "x"', r"\[engine\] steps: Input should be a valid integer"),
        ("[preparation]\nround = 3", "'round'"),
        ("[preparation]\nwarm = 3", r"\[preparation.warm\]"),
        ("[preparation.strength]\nround = 3", "Did you mean 'rounds'?"),
        ("draws =", "not well-formed TOML"),
        ("#" * 1_000_001, "more than the limit"),
    ],
)
def test_a_mistake_is_a_sentence_with_its_place(text, said, tmp_path):
    (tmp_path / "fit.toml").write_text(text)
    with pytest.raises(FileError, match=said):
        read_settings(tmp_path / "fit.toml")
    with pytest.raises(FileError, match=r"no\.toml: this is missing"):
        read_settings(tmp_path / "no.toml")
