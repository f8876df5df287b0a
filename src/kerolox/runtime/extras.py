"""What to type to get the packages that a part of Kerolox needs."""

from pathlib import Path


def installing(extra: str) -> str:
    """Returns the command that adds an extra: from the folder that Kerolox was installed from, else by name."""
    return f"pip install '{_installed_from() or 'kerolox'}[{extra}]'"


def _installed_from() -> Path | None:
    """The project's folder, if pip was given one and it is still there; pip notes that beside the package."""
    # They are only needed when something is missing, and take a while to load.
    import json
    from importlib import metadata
    from urllib.parse import unquote, urlsplit

    try:
        noted = json.loads(metadata.distribution("kerolox").read_text("direct_url.json") or "{}")
        address = urlsplit(noted["url"])
    except (metadata.PackageNotFoundError, KeyError, ValueError):
        return None
    folder = Path(unquote(address.path))
    is_project = address.scheme == "file" and (folder / "pyproject.toml").is_file()
    return folder if is_project else None
