"""The renderings of a report, in one place for who calls them."""

from steelyard.report.builder import build_document
from steelyard.report.html import render_html
from steelyard.report.markdown import render_markdown
from steelyard.report.summary import summary
from steelyard.report.terminal import render_terminal

__all__ = ["build_document", "render_html", "render_markdown", "render_terminal", "summary"]
