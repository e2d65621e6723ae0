"""Measures of a page in a browser: its width, tables that are cut, texts with too little contrast."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import Page

WIDTHS = (390, 700, 1280)
"""A phone, half a screen, a laptop."""
CONTRAST_MIN = 4.5
"""WCAG 2.2, level AA, for text of ordinary size."""

_FAINT = """(least) => {
  const parse = (text) => {
    const parts = (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    return [...parts.slice(0, 3), parts[3] ?? 1];
  };
  const over = (top, below) => below.map((value, at) => at < 3 ? top[at] * top[3] + value * (1 - top[3]) : 1);
  const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const light = (color) => {
    const [r, g, b] = color.slice(0, 3).map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const opacity = (node) => node ? Number(getComputedStyle(node).opacity) * opacity(node.parentElement) : 1;
  const faint = new Set(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.textContent.trim(), node = walk.currentNode.parentElement;
    if (!text || !node.checkVisibility() || node.closest("script, style, :disabled, title")) continue;
    const style = getComputedStyle(node), paper = behind(node);
    const color = parse(node.closest("svg") ? style.fill : style.color);
    const seen = over([...color.slice(0, 3), color[3] * opacity(node)], paper);
    const [high, low] = [light(seen), light(paper)].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05), size = parseFloat(style.fontSize);
    const large = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700;
    if (contrast < (large ? 3 : least)) faint.add(`${contrast.toFixed(1)}: ${text.slice(0, 40)}`);
  }
  return [...faint];
}"""
_FITS = "(width) => document.documentElement.scrollWidth === width"
_CUT = """() => [...document.querySelectorAll(".scroll")]
  .filter((box) => box.clientWidth && box.scrollWidth > box.clientWidth + 1)
  .map((box) => `${box.ariaLabel}: ${box.scrollWidth} in ${box.clientWidth}`)"""


def in_each_look(page: Page, widths: tuple[int, ...] = WIDTHS) -> Iterator[int]:
    """Show the page at each width, on light and on dark paper, until it fits; yield the width."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in widths:
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(_FITS, arg=width)  # what draws to a width has drawn
            yield width


def page_width(page: Page) -> int:
    """The width of the whole document: more than the window's where something sticks out."""
    width: int = page.evaluate("document.documentElement.scrollWidth")
    return width


def cut_tables(page: Page) -> list[str]:
    """The tables that must be scrolled sideways, and their widths."""
    cut: list[str] = page.evaluate(_CUT)
    return cut


def faint_texts(page: Page) -> list[str]:
    """The texts whose contrast to what is behind them is below ``CONTRAST_MIN``, each with its contrast."""
    faint: list[str] = page.evaluate(_FAINT, CONTRAST_MIN)
    return faint
