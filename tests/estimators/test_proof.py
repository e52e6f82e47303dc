"""`prove` and `enforce("proved")` on estimators, saved and loaded with their boxes."""

from __future__ import annotations

import numpy as np
import pytest

import ocbnn
from ocbnn.errors import FileError, OCBNNError
from ocbnn.posterior.allowed import EnforcementError
from ocbnn.proof import PROVED, verify_proof
from ocbnn.proof.certificate import BOXES, PROOF
from small_estimators import blood_pressures, small_regressor


@pytest.fixture(scope="module")
def fitted():
    frame, y = blood_pressures()
    return small_regressor(rules=["if age > 60 then pressure >= 60", "always pressure <= 2000"]).fit(frame, y)


@pytest.fixture(scope="module")
def proved(fitted):
    fitted.prove(boxes=200, seconds=60)
    return fitted


def test_the_proof_of_the_fits_own_rules_is_kept(proved):
    assert [each.name for each in proved.proof_] == [rule.text(proved.schema_) for rule in proved.rules_]
    assert proved.proof_[1].count(PROVED) == len(proved.posterior_.flat)
    before = proved.proof_
    other = proved.prove(rules="always pressure <= 3000", boxes=50)
    assert len(other) == 1
    assert proved.proof_ is before


def test_proved_draws_are_those_that_are_kept(proved):
    enforced = proved.enforce("proved", rules="always pressure <= 2000")
    assert enforced.enforcement_ == "proved"
    assert (enforced.posterior_.mask == proved.proof_[1].proved).all()
    with pytest.raises(EnforcementError, match="No draw is proved"):
        proved.enforce("proved", rules="always pressure <= 0", boxes=5)
    with pytest.raises(OCBNNError, match="no option 'points'"):
        proved.enforce("proved", points=5)


def test_a_saved_proof_comes_back_and_can_be_verified(proved, tmp_path):
    proved.save(tmp_path / "model")
    loaded = ocbnn.load(tmp_path / "model")
    for ours, theirs in zip(proved.proof_, loaded.proof_, strict=True):
        assert ours.to_json() == theirs.to_json() or ours.counts == theirs.counts
        assert (ours.status == theirs.status).all()
        assert all(np.array_equal(a, b) for a, b in zip(ours.cuts, theirs.cuts, strict=True))
        assert verify_proof(loaded.posterior_, theirs).holds


def test_a_damaged_proof_is_refused(proved, tmp_path):
    proved.save(tmp_path / "model")
    (path,) = (tmp_path / "model").rglob(BOXES)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(FileError):
        ocbnn.load(tmp_path / "model")


def test_a_model_without_a_proof_has_no_files_of_one(tmp_path):
    frame, y = blood_pressures()
    model = small_regressor().fit(frame, y)
    model.save(tmp_path / "model")
    assert not list((tmp_path / "model").rglob(PROOF))
    assert ocbnn.load(tmp_path / "model").proof_ is None
