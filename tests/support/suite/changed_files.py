"""What git says of a working copy: its files, and those that differ from the branch it goes to."""

import subprocess

UPSTREAM = ("origin/HEAD", "origin/main", "main")
"""Where changes go, the first that there is."""


def changed_files(root):
    """The paths of files that the working copy changes: added, deleted, and not yet committed too.

    Args:
        root: A folder.

    Returns:
        All that differs from the newest commit which the upstream branch has as well, and what git
        neither knows nor ignores. None if git knows nothing of the folder.
    """
    if _git(root, "rev-parse", "--verify", "HEAD") is None:
        return None
    bases = (_git(root, "merge-base", "HEAD", branch) for branch in UPSTREAM)
    base = next((base[0].strip() for base in bases if base), "HEAD")
    differing = _git(root, "diff", "--name-only", "--no-renames", "-z", base)
    return {*differing, *_git(root, "ls-files", "--others", "--exclude-standard", "-z")}


def texts(root):
    """The texts of all files that git does not ignore by their paths, "" for what is no text."""
    found = {}
    for path in _git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z"):
        file = root / path
        if file.is_file():  # neither deleted nor a link to a folder
            content = file.read_bytes()
            found[path] = "" if b"\0" in content else content.decode(errors="replace")
    return found


def _git(root, *arguments):
    """What git prints, split at NUL. None if it fails, or if there is no git."""
    try:
        result = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    if result.returncode:
        return None
    return [path for path in result.stdout.split("\0") if path]
