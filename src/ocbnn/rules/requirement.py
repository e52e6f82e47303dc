"""What a rule asks of the function: the answers that every kind of rule gives about itself.

A kind is one file in `rules/kinds`. Terms, searches, checks, enforcement, lint, pictures and reports ask these
questions and nothing else, so that a new kind touches no other file. The unit is a *case*: the inputs that are
compared with each other. A bound looks at one input, a contrast at two, and a statement about a population
makes a single case of all its points.

Conventions. `points` are coded inputs `(T, Q + coordinates)`. `cases` are coded inputs `(m, k, Q)`. A `demand`
is any pytree of arrays whose first axis is the case, in the units asked for. `values` are what the functions say
at the cases: y `(…, m, k)`, or class probabilities `(…, m, k, C)`; the axis k is left out where k is 1. Margins
and views take NumPy and JAX arrays alike.
"""  # noqa: E501

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from ocbnn.errors import OCBNNError
from ocbnn.rules.divergences import class_divergences, moment_gaps, normal_divergences

if TYPE_CHECKING:
    from ocbnn.regions import Region
    from ocbnn.rules.bounding import Boxes, MarginBound
    from ocbnn.rules.ranges import Ranges
    from ocbnn.schema import Label, Schema, Target

Array = Any  # a NumPy or a JAX array


class Units(NamedTuple):
    """Units of y: (t − center) / scale, where t is y, or log y. Probabilities have none."""

    center: float = 0.0
    scale: float = 1.0
    log: bool = False

    @classmethod
    def of_model(cls, target: Target) -> Units:
        """The units in which the network speaks."""
        return cls() if target.classes else cls(target.center, target.scale, target.is_log)

    @classmethod
    def of_noise(cls, target: Target) -> Units:
        """The units in which noise is added to the function: raw ones, or log y."""
        return cls(log=target.is_log)

    def of(self, raw: Array) -> Array:
        """Raw values of y in these units; where there is no log, −inf."""
        if self.log:
            above = np.asarray(raw) > 0
            raw = np.where(above, np.log(np.where(above, raw, 1.0)), -np.inf)
        return (raw - self.center) / self.scale

    def ends(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Ends of intervals in these units; an interval without a log is (∞, −∞), as an unused slot is."""
        low, high = self.of(lower), self.of(upper)
        return (np.where(np.asarray(upper) > 0, low, np.inf) if self.log else low), high

    def raw(self, values: Array) -> Array:
        """Values in these units as raw ones."""
        found = values * self.scale + self.center
        with np.errstate(over="ignore"):
            return np.exp(found) if self.log else found

    def log_slope(self, raw: Array) -> Array:
        """Log of the derivative of these units by raw ones: what a log density gains in raw units."""
        return -np.log(raw * self.scale if self.log else np.full_like(raw, self.scale))


RAW = Units()


class Shares(NamedTuple):
    """The total probability of the chosen classes lies in one of the intervals; unused slots are (∞, −∞)."""

    members: Array  # (m, C) bool
    lower: Array  # (m, K)
    upper: Array  # (m, K)


class Allowed(NamedTuple):
    """What a rule about single outputs allows at each case; a field is None where nothing is said of it.

    Attributes:
        outputs: lower and upper ends `(m, K)` of disjoint intervals of y; unused slots are (∞, −∞).
        classes: of which classes `(m, C)` the most probable one has to be.
        shares: bounds on the total probability of some classes.
    """

    outputs: tuple[Array, Array] | None = None
    classes: Array | None = None
    shares: Shares | None = None


class Normals(NamedTuple):
    """A mixture of normals at each case, `(m, K)` each; components of weight 0 do not count."""

    weight: Array
    mean: Array
    sd: Array


class Asked(NamedTuple):
    """The distribution D_y that a probabilistic rule asks for.

    Attributes:
        probability: of each event `(m, E)`; None for numbers.
        events: the classes of each event `(m, E, C)`; None where each class is an event of its own.
        normals: the distribution of y, for numbers.
    """

    probability: Array | None = None
    events: Array | None = None
    normals: Normals | None = None

    def of_classes(self, probabilities: Array) -> Array:
        """The probability of each event `(…, m, E)` under class probabilities `(…, m, C)`."""
        if self.events is None:
            return probabilities
        xp = probabilities.__array_namespace__()
        return xp.sum(xp.where(self.events, probabilities[..., None, :], 0.0), axis=-1)


class Peaks(NamedTuple):
    """Values with weights that sum to one, `(m, K)`, and how near one of them has to be met, `(m,)`."""

    values: Array
    weights: Array
    margin: Array


class Groups(NamedTuple):
    """Groups of rows that are compared.

    Attributes:
        column: whose values are the groups.
        classes: whose probability is meant; none: y.
        above: what is compared is the share of rows above this number, raw; None: the mean.
    """

    column: str
    classes: tuple[Label, ...]
    above: float | None = None


class Requirement(abc.ABC):
    """What is asked of the function in a rule's region.

    A kind is a frozen dataclass that answers `demand`, `text`, `margin` where it is judged draw by draw, and
    whatever else applies:

        @dataclass(frozen=True)
        class AtMost(Requirement):
            most: float
            def demand(self, cases, schema, units): return (np.full(len(cases), units.of(self.most)),)
            def margin(self, demand, values): return values - demand[0]
            def text(self, target_name="y", names=()): return f"{target_name} <= {self.most:g}"

    Attributes:
        judged: whether a violation is an event of one draw, or of all draws together (D_y).
        default_tolerance: the violation that is accepted where the rule does not say.
        default_term: the name of the term that scores it where nobody asks for another.
        strength_is_found: whether more strength means less violation, so that pilots can look for it.
        speaks_of_noise: whether it is about observations rather than the function.
        margin_of_logs: whether `margin` may be asked of logarithms of class probabilities. It is a log-odds
            then, which keeps its slope however small a probability is; the wall on the margin uses that.
        monotone: whether it can be asked exactly of any increasing function of y, such as log y: it compares
            y with limits, or takes y in raw units. A rule about distances or spreads of y cannot.
        lists_forbidden: whether `forbidden` says which sets are forbidden.
        in_words: whether `text` can be parsed, so that the rule can be saved.
        inputs: inputs of a case; None: the rule's points are a population, and together one case.
        coordinates: further axes of a point, each in [0, 1], that are sampled and searched along with x.
    """

    judged: ClassVar[Literal["draw", "predictive"]] = "draw"
    default_tolerance: ClassVar[float] = 0.01
    default_term: ClassVar[str] = "distance"
    strength_is_found: ClassVar[bool] = True
    speaks_of_noise: ClassVar[bool] = False
    margin_of_logs: ClassVar[bool] = False
    monotone: ClassVar[bool] = False
    lists_forbidden: ClassVar[bool] = False
    in_words: ClassVar[bool] = True
    inputs: int | None = 1
    coordinates: int = 0

    @property
    def is_pointwise(self) -> bool:
        """Whether it asks something of each input alone."""
        return self.inputs == 1 and not self.coordinates

    # What every kind answers -------------------------------------------------------------------------------

    @abc.abstractmethod
    def demand(self, cases: Array, schema: Schema, units: Units) -> Any:
        """What is asked at each case, as a tuple of arrays; y in the given units."""

    @abc.abstractmethod
    def text(self, target_name: str = "y", names: Collection[str] = ()) -> str:
        """Canonical words; labels that are also one of `names` are quoted."""

    # What a kind may answer --------------------------------------------------------------------------------

    def margin(self, demand: Any, values: Array) -> Array:
        """By how much each case is violated `(…, m)`: above 0 violates, 0 and below satisfies.

        Every kind that is judged draw by draw answers it.
        """
        raise OCBNNError(
            "The rule is about a distribution: one draw alone neither satisfies nor violates it."
        )

    def violation(self, demand: Any, values: Array) -> np.ndarray:
        """The margin for those who judge: infinite where it is not a number, so that such an output violates.

        Terms take gradients of `margin` itself.
        """
        with np.errstate(all="ignore"):
            found = np.asarray(self.margin(demand, values))
        return np.where(np.isnan(found), np.inf, found)

    def cases(self, points: np.ndarray, schema: Schema, region: Region) -> np.ndarray:
        """The inputs that are compared, `(m, k, Q)`: one case for each point, or one of a population.

        A kind that compares several inputs says here which. `region` is the rule's, in which the points lie,
        for kinds that have to stay in it.
        """
        inputs = points[:, : len(schema.columns)]
        return inputs[None] if self.inputs is None else inputs[:, None]

    def population(
        self, rows: np.ndarray, schema: Schema, generator: np.random.Generator
    ) -> np.ndarray | None:
        """Which of the table's rows in the region `(n, Q)` are the population; None: points are sampled.

        For kinds whose points make one case.
        """
        return None

    def row_errors(
        self, demand: Any, values: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray | None:
        """How far margins may be off `(R, …, m)` from having these rows and no others; None: not known.

        R of them by lot, for kinds whose points make one case: its rows are a sample of a population.
        """
        return None

    def along(self) -> tuple[tuple[str, tuple[Label, ...]], ...]:
        """Columns along which a picture shows what it asks, and whose probability is meant; `()` is y."""
        return ()

    def groups(self) -> Groups | None:
        """The groups that it compares, and what of them."""
        return None

    def require_region(self, region: Region) -> None:
        """Raise a `RuleError` where a rule of this kind cannot have such a region."""
        return

    def columns(self) -> frozenset[str]:
        """The columns that the demand depends on."""
        return frozenset()

    def impossible(self, demand: Any) -> np.ndarray:
        """At which cases `(m,)` nothing can satisfy it; empty where that is not known."""
        return np.zeros(0, dtype=bool)

    def scale(self, demand: Any) -> float:
        """The rule's own length, by which margins are divided so that units do not matter."""
        return 1.0

    def raw_unit(self, target: Target) -> float:
        """One raw unit of what its inequalities are written in, for values in model units."""
        return 1.0 if target.classes else 1.0 / target.raw_scale

    def allowed(self, demand: Any) -> Allowed | None:
        """The outputs it allows at each case; None where they cannot be listed."""
        return None

    def forbidden(self, demand: Any, values: Array) -> list[list[Array]] | None:
        """Forbidden sets, each where all of its g `(…, m)` are ≤ 0 (paper eq. 6); see `lists_forbidden`."""
        return None

    def peaks(self, demand: Any) -> Peaks | None:
        """The values that have to be met; None: not applicable."""
        return None

    def asked(self, demand: Any) -> Asked | None:
        """The distribution asked for; None: not applicable."""
        return None

    def distances(
        self, demand: Any, values: np.ndarray, noise: np.ndarray | None, weights: np.ndarray
    ) -> dict[str, np.ndarray]:
        """For rules judged by all draws together: named divergences `(rows, m)` from what is asked.

        "total_variation" is among them: it is what the tolerance is about.

        Args:
            demand: in the units of the values.
            values: what the draws say, `(S, m)` or `(S, m, C)`.
            noise: standard deviation of an observation under each draw, `(S, m)`, in the same units; None
                where the kind does not speak of it.
            weights: of the draws; one predictive for each row `(rows, S)`.
        """
        asked = self._asked(demand)
        if asked.normals is None:
            return class_divergences(asked, np.tensordot(weights, values, axes=1))
        assert noise is not None, "a predictive of numbers has noise"
        return normal_divergences(asked.normals, values, noise, weights)

    def gaps(self, demand: Any, values: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        """A quick stand-in for the distance of all draws' predictive `(m,)`: what a search climbs."""
        asked = self._asked(demand)
        if asked.normals is None:
            return class_divergences(asked, values.mean(axis=0))["total_variation"]
        assert noise is not None, "a predictive of numbers has noise"
        return moment_gaps(asked.normals, values, noise)

    def _asked(self, demand: Any) -> Asked:
        asked = self.asked(demand)
        assert asked is not None, "a kind judged by all draws together says what is asked, or overrides this"
        return asked

    def against(self, demand: Any, observed: np.ndarray) -> np.ndarray | None:
        """Which observed outcomes contradict it `(m,)`; None where no single row can.

        `observed` is y `(m,)` in the demand's units, or one-hot classes `(m, C)`.
        """
        if self.judged != "draw" or not self.is_pointwise:
            return None
        return np.broadcast_to(self.violation(demand, observed) > 0, len(observed))

    def against_rows(self, coded: np.ndarray, observed: np.ndarray, schema: Schema) -> np.ndarray | None:
        """Which pairs of rows contradict it together `(n, 2)`; None where no pair can.

        For kinds that compare inputs. `coded` are rows of the region `(n, Q)`, `observed` is raw y `(n,)`.
        """
        return None

    def differences(
        self, column: str, first: float, second: float, schema: Schema
    ) -> dict[tuple[Label, ...], tuple[float, float]]:
        """What it allows for an answer at one value of a column less that at another, all else equal.

        Ends in raw units, by whose answer it is: the classes whose probability is meant, `()` for y. Empty
        where it says nothing about such a difference.
        """
        return {}

    def ignores(self) -> frozenset[str]:
        """Columns on which no output may depend."""
        return frozenset()

    def form(self, schema: Schema) -> Mapping[str, int] | None:
        """How a network keeps it by its form, where it is asked everywhere: the sign of each of its columns.

        Its first output (y, or the logit of the second of two classes) then increases along columns of sign 1
        and decreases along those of sign −1. None: it cannot be kept so.
        """
        return None

    def ranges(self, schema: Schema, tolerance: float) -> Ranges | None:
        """What it asks at any x, with ends that are affine in x, for exact lint; None: judged at points."""
        return None

    def bound(self, boxes: Boxes, schema: Schema, units: Units) -> MarginBound | None:
        """How large its margin can be anywhere in a box, for proofs; None: it cannot be bounded.

        A bound of at most 0 has to mean that the margin is at most 0 at every point of the box. A proof
        takes its sign alone, a term on bounds its length as that of the margin.
        """
        return None

    def words(self, demand: Any, schema: Schema) -> str | None:
        """What it asks at the first case, with numbers instead of expressions; None: as in `text`."""
        return None

    def clipped(self, points: np.ndarray, schema: Schema) -> str | None:
        """Where a probability that it computes from columns leaves [0, 1], in words; None where none does."""
        return None
