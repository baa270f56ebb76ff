"""Walking through a server's paged lists (tools-plugins MCP-05)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hookwork.errors import BackendError

#: Pages of one list, at most.
MAX_PAGES = 1000


async def all_pages(page: Callable[[str | None], Awaitable[Any]], items: str, what: str) -> list[Any]:
    """The items of all pages, in the server's order.

    Args:
        page: gives the page of a cursor; None is the first.
        items: attribute of a page that holds its items.
        what: names the list in errors.

    Raises:
        BackendError: a cursor came twice, or there are more pages than `MAX_PAGES`.
    """
    found: list[Any] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        result = await page(cursor)
        found += getattr(result, items)
        cursor = result.next_cursor
        if not cursor:
            return found
        if cursor in seen:
            raise BackendError(f"{what}: the server gave the cursor {cursor!r} twice; its paging goes round in circles")
        seen.add(cursor)
    raise BackendError(f"{what}: more than {MAX_PAGES} pages; the server's paging does not end")
