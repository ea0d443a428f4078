"""Run `site`: collect the rendered pages, and the files that a static host needs, in one folder."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("rendered", type=click.Path(path_type=Path), default=Path("rendered"))
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), default=Path("site"), show_default=True, help="Folder to write."
)
@click.option("--url", "address", required=True, help="Address at which the site will be published.")
def site(rendered: Path, out: Path, address: str) -> None:
    """Collect the pages in a folder that a web host can serve.

    RENDERED is the folder of traces and pages, by default `rendered`.

    \b
    Example:
      trace-tools site --url https://example.org/lecture/
    """
    from trace_tools.errors import UsageError
    from trace_tools.pages.static_site import INSIDE, static_site
    from trace_tools.util.files import MANIFEST, update_folder

    files = static_site(rendered, address)
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).exists():
        raise UsageError(f"{out}: contains files that `site` did not write; choose another folder with -o")
    update_folder(out, files, INSIDE)
    size = sum(map(len, files.values()))
    pages = sum(name.endswith(".html") for name in files)
    click.echo(f"{out}: {pages} pages, {len(files)} files, {size / 1e6:.1f} MB")
