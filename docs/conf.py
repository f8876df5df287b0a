"""Sphinx configuration; `make docs` runs it."""

project = "Kerolox"
author = "Kerolox"
extensions = ["myst_parser"]
root_doc = "README"
exclude_patterns = ["__pycache__"]
# Heading anchors as on GitHub, where these pages are read too.
myst_heading_anchors = 4
# Pages link to each other without a toctree; a test checks that each can be reached.
suppress_warnings = ["toc.not_included"]
html_theme = "alabaster"
html_theme_options = {
    "description": "Apache RocketMQ for people who work in Python",
    "font_family": "system-ui, sans-serif",
    "head_font_family": "system-ui, sans-serif",
    # Drawings and tables are wide.
    "page_width": "1180px",
    "code_font_size": "0.74em",
    "body_max_width": "none",
}
html_sidebars = {"**": ["about.html", "searchbox.html"]}
html_show_copyright = False
html_copy_source = False
