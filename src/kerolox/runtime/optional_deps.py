"""The pip command that installs an optional dependency."""

from pathlib import Path


def install_command(extra: str) -> str:
    """Return the command that installs an extra: from the source folder Kerolox was installed from, else by name."""
    return f"pip install '{_installed_from() or 'kerolox'}[{extra}]'"


def _installed_from() -> Path | None:
    """Return the source folder from direct_url.json, which pip writes beside the package, if it still exists."""
    # Imported here because they load slowly and are needed only for an error message.
    import json
    from importlib import metadata
    from urllib.parse import unquote, urlsplit

    try:
        direct_url = json.loads(metadata.distribution("kerolox").read_text("direct_url.json") or "{}")
        address = urlsplit(direct_url["url"])
    except (metadata.PackageNotFoundError, KeyError, ValueError):
        return None
    folder = Path(unquote(address.path))
    is_project = address.scheme == "file" and (folder / "pyproject.toml").is_file()
    return folder if is_project else None
