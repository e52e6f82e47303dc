"""scikit-learn's own checks of its contract, all of them."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from small_estimators import small_classifier, small_regressor


@parametrize_with_checks([small_regressor(), small_classifier()])
def test_scikit_learns_contract(estimator, check):
    check(estimator)
