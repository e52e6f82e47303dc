"""Pictures and the report of a fitted estimator: its posterior, handed to `plots` and `report`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ocbnn.errors import OCBNNError
from ocbnn.estimators.base import OCBNNEstimator
from ocbnn.estimators.defaults import positive, require_options

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_CALL = 2000
"""Characters of the call that fits the model again: beyond it, scikit-learn leaves out its middle."""


class PlotMethods(OCBNNEstimator):
    """An estimator and what can be looked at; every picture takes `ax`, and gives it back."""

    def plot_band(
        self, column: str, X: Any = None, y: Any = None, *, ax: Axes | None = None, **options: Any
    ) -> Axes:
        """Predictions along a column, with the rules that apply; options as in `plots.predictive_band`.

        Args:
            column: the horizontal axis.
            X: rows to draw as points.
            y: their target.
            ax: where to draw; new axes unless given.
            options: such as `at={"age": 40}`, `coverage=(0.5, 0.9)`, `kind="observation"`.
        """
        from ocbnn.plots import predictive_band

        check_is_fitted(self)
        return predictive_band(self.posterior_, column, data=self._beside(X, y), ax=ax, **options)

    def plot_classes(
        self,
        columns: tuple[str, str],
        X: Any = None,
        y: Any = None,
        *,
        ax: Axes | None = None,
        **options: Any,
    ) -> Axes:
        """The predicted class over two columns; options as in `plots.class_regions`."""
        from ocbnn.plots import class_regions

        check_is_fitted(self)
        return class_regions(self.posterior_, columns, data=self._beside(X, y), ax=ax, **options)

    def plot_prior(self, column: str, *, ax: Axes | None = None, **options: Any) -> Axes:
        """Functions of the base prior along a column, before any row and before the rules, which are marked.

        Args:
            column: the horizontal axis.
            ax: where to draw; new axes unless given.
            options: of `plots.prior_functions`, such as `at={"age": 40}`, `functions=30` or `key=1`.
        """
        from ocbnn.plots import prior_functions

        check_is_fitted(self)
        require_options(prior_functions, options)
        return prior_functions(self.posterior_.model, column, ax=ax, **options)

    def plot_satisfaction(self, *, ax: Axes | None = None, **options: Any) -> Axes:
        """How far each rule is kept, beside its tolerance; options as in `check_rules`."""
        from ocbnn.plots import satisfaction

        return satisfaction(self.check_rules(**options), ax=ax)

    def plot_diagnostics(self, *, ax: Axes | None = None) -> Axes:
        """The chains at the input where they agree least."""
        from ocbnn.plots import diagnostics

        check_is_fitted(self)
        return diagnostics(self.posterior_, ax=ax)

    def plot_calibration(self, X: Any, y: Any, *, ax: Axes | None = None, **options: Any) -> Axes:
        """What was said against how often it was so, on rows not fitted; options as in `calibration`."""
        from ocbnn.plots import calibration as draw
        from ocbnn.posterior.calibration import calibration

        held_out = self._rows_and_target(X, y)
        if held_out is None:
            raise OCBNNError("Calibration is of rows that were not in the fit: give X and y.")
        return draw(calibration(self.posterior_, *held_out, **options), ax=ax)

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        y: Any = None,
        *,
        compare: bool = True,
        **options: Any,
    ) -> Path:
        """Write the report as one HTML file, and its JSON twin beside it; the path of the page.

        Args:
            path: of the page.
            X: rows that were not in the fit, for calibration and scores.
            y: their target.
            compare: also fit a twin without the rules on the same rows, and show both. A loaded model does
                not hold its rows, and is shown alone.
            options: of `report.gather`, such as `without=` for a posterior that is at hand, or `seed=`.
        """
        from ocbnn.report import gather, write

        check_is_fitted(self)
        if not isinstance(path, str | os.PathLike):
            raise OCBNNError(f"The path of the report is text or a Path, not {path!r}.")
        table, target = self._rows_and_target(X, y) or (None, None)
        require_options(gather, options, ours=("frame", "y", "enforcement", "proofs", "command"))
        positive(options.get("points", 1), "points")
        can_compare = self.posterior_.model.data is not None and self.posterior_.rules
        if compare and can_compare and "without" not in options:
            options["without"] = self._twin(())
        known: dict[str, Any] = {"enforcement": self.enforcement_, "proofs": self.proof_}
        estimator: Any = self  # scikit-learn's repr takes a length, and object's does not
        known["command"] = f"{estimator.__repr__(N_CHAR_MAX=LONGEST_CALL)}.fit(X, y)"
        evidence = gather(self.posterior_, frame=table, y=target, **known, **options)
        return write(evidence, self.posterior_, path)

    def _beside(self, X: Any, y: Any) -> pd.DataFrame | None:
        """Rows with their target among the columns."""
        held_out = self._rows_and_target(X, y)
        if held_out is None:
            return None
        assert self.schema_.target is not None
        frame, target = held_out
        return frame.assign(**{self.schema_.target.name: target})
