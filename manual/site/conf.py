"""Settings of the site: Sphinx, MyST (Markdown) and furo (what it looks like)."""

import tomllib
from pathlib import Path

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Punctuation, String, Text
from sphinx.application import Sphinx

_PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "Cuesta"
release = version = _PROJECT["version"]
copyright = "the authors of Cuesta"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
html_theme = "furo"
html_title = f"Cuesta {version}"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["cuesta.css"]
pygments_style = "tango"
pygments_dark_style = "monokai"
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
suppress_warnings = ["misc.highlighting_failure"]  # elided parts of programs, `…`, are in no language


class MlirLexer(RegexLexer):
    """Programs of any of our levels."""

    name = "MLIR"
    aliases = ["mlir"]
    tokens = {
        "root": [
            (r"//.*$", Comment.Single),
            (r'"[^"\n]*"', String),
            (r"[%^][\w.$]+(#\d+)?", Name.Variable),
            (r"@[\w.$]+", Name.Function),
            (r"[!#][a-z][\w.]*", Keyword.Type),
            (r"(?:vector|tensor|memref|complex)(?=<)", Keyword.Type),
            (r"\b(?:bf16|f16|f32|f64|f8\w+|u?i(?:1|8|16|32|64)|index)\b", Keyword.Type),
            (r"[a-z_]\w*\.[\w.]+", Name.Builtin),
            (
                words(
                    ("outs", "if", "else", "lanes", "to", "min", "max", "mod", "floordiv", "schedule", "updates"),
                    prefix=r"\b",
                    suffix=r"\b",
                ),
                Keyword,
            ),
            (r"-?\b\d+(?:\.\d+)?(?:e[-+]?\d+)?\b", Number),
            (r"[{}()\[\]<>=:,*+?|-]", Punctuation),
            (r".", Text),
            (r"\n", Text),
        ]
    }


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_lexer("mlir", MlirLexer)
