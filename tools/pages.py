"""Pages of the documentation that are more than Markdown: notebooks with their outputs, and equations.

    python tools/pages.py docs/notebooks/*.ipynb

runs every cell from top to bottom and writes what it prints, shows and draws into the file. As a hook of
mkdocs (`hooks:` in mkdocs.yml) the module turns each notebook into a page with these outputs, and blocks of
"```math" into drawn equations, so that nothing has to be fetched from elsewhere to show them.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import html
import io
import json
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Cell = dict[str, Any]
EQUATION = re.compile(r"^```math\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TAG = re.compile(r"\\tag\{([^}]*)\}")


def run(cells: Sequence[Cell], name: str) -> list[list[Cell]]:
    """The outputs of every cell, in the format of notebooks; cells without code have none."""
    import matplotlib as mpl

    mpl.use("agg")
    names: dict[str, Any] = {"__name__": name}
    return [_outputs("".join(cell["source"]), name, names) if _is_code(cell) else [] for cell in cells]


def _is_code(cell: Cell) -> bool:
    return bool(cell["cell_type"] == "code")


def _outputs(code: str, name: str, names: dict[str, Any]) -> list[Cell]:
    """What a cell prints and warns of, the value of its last line, and what it draws."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        exec(compile(tree, name, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    said = [f"{each.category.__name__}: {each.message}\n" for each in warned]
    found = [_stream("stdout", printed.getvalue()), _stream("stderr", "".join(said))]
    pictures = _pictures()
    if value is not None and not pictures:
        found.append(
            {"output_type": "display_data", "metadata": {}, "data": {"text/plain": _lines(repr(value))}}
        )
    return [each for each in found if each is not None] + pictures


def _stream(name: str, text: str) -> Cell | None:
    return {"output_type": "stream", "name": name, "text": _lines(text)} if text else None


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _pictures() -> list[Cell]:
    from matplotlib import pyplot

    found = []
    for number in pyplot.get_fignums():
        buffer = io.BytesIO()
        pyplot.figure(number).savefig(buffer, format="png", dpi=90, bbox_inches="tight")
        data = {"image/png": base64.b64encode(buffer.getvalue()).decode()}
        found.append({"output_type": "display_data", "metadata": {}, "data": data})
    pyplot.close("all")
    return found


def page(notebook: Cell) -> str:
    """The notebook as Markdown, with its stored outputs."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(f"```python\n{source}\n```" if _is_code(cell) else source)
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            text = "".join(output.get("text", data.get("text/plain", ())))
            if "image/png" in data:
                words = cell["metadata"].get("alt", "What the cell above draws")
                parts.append(f"![{words}](data:image/png;base64,{data['image/png']})")
            elif text:
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def on_files(files: Any, config: Any) -> Any:
    """A hook of mkdocs: each notebook becomes a page of the same place."""
    from mkdocs.structure.files import File

    for file in [each for each in files if each.src_uri.endswith(".ipynb")]:
        content = page(json.loads(Path(file.abs_src_path).read_text("utf-8")))
        files.remove(file)
        files.append(File.generated(config, file.src_uri.replace(".ipynb", ".md"), content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A hook of mkdocs: equations are drawn."""
    return EQUATION.sub(lambda found: equation(found[1]), markdown)


LINE = "display: flex; justify-content: space-between; align-items: center; gap: 1em; margin: 1em 0"
INK = {
    "#000000": "currentColor",
    "fill: #ffffff": "fill: none",
    "<svg": '<svg fill="currentColor" overflow="visible"',
}


def equation(latex: str) -> str:
    """An equation as SVG in the colour of the text, with its number at the right."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import math_to_image

    tag, buffer = TAG.search(latex), io.BytesIO()
    font = FontProperties(size=15, math_fontfamily="stix")
    math_to_image(f"${' '.join(TAG.sub('', latex).split())}$", buffer, prop=font, dpi=72, format="svg")
    svg = buffer.getvalue().decode()
    svg = svg[svg.index("<svg") :]
    for old, new in INK.items():
        svg = svg.replace(old, new)
    words = html.escape(latex.strip(), quote=True)
    number = "" if tag is None else f"<span>({tag[1]})</span>"
    return f'<div style="{LINE}"><span role="img" aria-label="{words}">{svg}</span>{number}</div>'


def store(path: Path) -> None:
    """Run a notebook and write its outputs into it."""
    notebook = json.loads(path.read_text("utf-8"))
    for cell, outputs in zip(notebook["cells"], run(notebook["cells"], path.name), strict=True):
        if _is_code(cell):
            cell["outputs"] = outputs
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        store(Path(each))
