"""Print the lowest direct versions that pyproject.toml allows, one `name==version` per line.

`make test-lowest` gives them to pip as constraints, so that a lower bound is a version that was tried.
"""

import re
import tomllib
from itertools import chain
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BOUND = re.compile(r"(?P<name>[\w.-]+)(\[[\w,]+\])?>=(?P<version>[\w.]+)(,<[\w.]+)?")


def lowest() -> dict[str, str]:
    """The lower bound of every direct dependency, of the package and of its extras."""
    versions: dict[str, str] = {}
    for requirement in chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        match = BOUND.fullmatch(requirement)
        if match is None:
            raise SystemExit(f"`{requirement}` in pyproject.toml has no lower bound. Write `name>=version`.")
        name, version = match["name"], match["version"]
        if versions.setdefault(name, version) != version:
            raise SystemExit(f"pyproject.toml has two lower bounds of {name}: {versions[name]}, {version}.")
    return versions


if __name__ == "__main__":
    print(*(f"{name}=={version}" for name, version in lowest().items()), sep="\n")
