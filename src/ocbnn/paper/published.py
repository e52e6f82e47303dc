"""What the paper's tables 1 (test rows), 2 and 3 say."""

from __future__ import annotations

from collections.abc import Mapping

Published = Mapping[str, Mapping[str, float]]

PUBLISHED: Mapping[str, Published] = {
    "clinical": {
        "bnn": {"accuracy": 0.738, "f1": 0.222, "points_violating": 0.783},
        "ocbnn": {"accuracy": 0.706, "f1": 0.290, "points_violating": 0.136},
    },
    "recidivism": {
        "bnn": {
            "accuracy": 0.837,
            "f1": 0.611,
            "high_risk_african_american": 0.355,
            "high_risk_others": 0.108,
            "gap": 0.247,
        },
        "ocbnn": {
            "accuracy": 0.708,
            "f1": 0.424,
            "high_risk_african_american": 0.335,
            "high_risk_others": 0.306,
            "gap": 0.029,
        },
        "bnn_without_race": {
            "accuracy": 0.835,
            "f1": 0.590,
            "high_risk_african_american": 0.309,
            "high_risk_others": 0.123,
            "gap": 0.186,
        },
        "ocbnn_without_race": {
            "accuracy": 0.734,
            "f1": 0.274,
            "high_risk_african_american": 0.203,
            "high_risk_others": 0.156,
            "gap": 0.047,
        },
    },
    "credit": {
        "truth": {"recourse": 0.287},
        "bnn_full": {"accuracy": 0.890, "f1": 0.355, "recourse": 0.419},
        "bnn_blind": {"accuracy": 0.871, "f1": 0.346, "recourse": 0.529},
        "ocbnn": {"accuracy": 0.895, "f1": 0.350, "recourse": 0.379},
    },
}
