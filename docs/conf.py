"""How the documentation is built: ``make docs``. Nothing is fetched while building or reading."""

import os
import sys
from importlib.metadata import version as version_of
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

# Cells may call `bayes-risk` and import PyMC; they see the environment that builds the pages.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ.update(COLUMNS="90", NO_COLOR="1", PYDEVD_DISABLE_FILE_VALIDATION="1")

project = "bayes_risk"
author = "The bayes_risk developers"
copyright = author
version = release = version_of("bayes-risk")

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
default_role = "autolink"  # `name` in a docstring is a link if the name is public
highlight_language = "none"
nitpicky = True
nitpick_ignore_regex = [("py:obj", r".*")]  # and plain text if it is not

# -- pages in Markdown, some of which are run --------------------------------------------------
myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "colon_fence"]
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / "executed")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 180
nb_execution_show_tb = True
nb_merge_streams = True
nb_output_stderr = "remove"  # progress of fits; what a reader must see is printed
nb_mime_priority_overrides = [("html", "text/html", 10)]

# -- reference ---------------------------------------------------------------------------------
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings say types, shapes and units
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the class template lists them
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

# -- formulas: MathML, which browsers draw themselves (MathJax would be fetched) -----------------
html_math_renderer = "mathml"


def _formula(translator, node):
    """Write a formula in the text."""
    translator.body.append(tex2mathml(node.astext(), as_block=False))
    raise SkipNode


def _displayed(translator, node):
    """Write a formula on a line of its own."""
    translator.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode


def setup(app):
    """Register what draws formulas."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_formula, None), block_renderers=(_displayed, None)
    )


# -- pages as HTML -----------------------------------------------------------------------------
html_theme = "furo"
html_title = f"bayes_risk {version}"
html_static_path = ["_static"]
html_css_files = ["quiet.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "footer_icons": [],
    "light_css_variables": {"color-brand-primary": "#1f4e79", "color-brand-content": "#1f4e79"},
    "dark_css_variables": {"color-brand-primary": "#9cc4ea", "color-brand-content": "#9cc4ea"},
}
pygments_style = "tango"
pygments_dark_style = "native"
