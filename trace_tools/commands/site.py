"""`site`: the rendered pages, and what a host of static files needs besides, into one folder."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("rendered", type=click.Path(path_type=Path), default=Path("rendered"))
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("site"), show_default=True)
@click.option("--url", "address", required=True, help="Where it will stand: for the map and for previews.")
def site(rendered: Path, out: Path, address: str) -> None:
    """Collect the pages in RENDERED (default: rendered) for a host of static files."""
    from trace_tools.errors import UsageError
    from trace_tools.files import MANIFEST, update_folder
    from trace_tools.publishing.static_site import INSIDE, static_site

    files = static_site(rendered, address)
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).exists():
        raise UsageError(f"{out}: holds files that no site made; choose another folder with -o")
    update_folder(out, files, INSIDE)
    size = sum(map(len, files.values()))
    pages = sum(name.endswith(".html") for name in files)
    click.echo(f"{out}: {pages} pages, {len(files)} files, {size / 1e6:.1f} MB")
