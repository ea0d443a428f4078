"""The other machines of a site → their roofs over a page's statements, each with what it achieved there.

other_roofs(document.sections, counterparts)      [Roof("NVIDIA H200", (("bfloat16", 9.9e14),), 4.8e12, (…))]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trace_tools.publishing.columns import Counterparts
from trace_tools.rendering.charts.of_pages import section_points
from trace_tools.rendering.charts.roofline import Roof, roof_of
from trace_tools.rendering.document import Execution, Section, execution


def other_roofs(sections: Sequence[Section], others: Sequence[Counterparts], *, index: bool = False) -> list[Roof]:
    """Return the roof of each other machine over the statements of some sections; on an index they link to pages."""
    found = []
    for other in others:
        pages = ((section, f"{section.slug}.html" if index else "") for section in sections)
        points = [point for section, page in pages for point in section_points(section, page, _there(other))]
        if points:
            found.append(roof_of(other.name, other.machine, points))
    return found


def _there(other: Counterparts) -> Callable[[Execution], Execution | None]:
    def there(here: Execution) -> Execution | None:
        counterpart = other.steps.get(here.step.id)
        step = counterpart.step if counterpart is not None else None
        return execution(step, other.machine) if step is not None else None

    return there
