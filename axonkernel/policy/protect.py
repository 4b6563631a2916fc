"""What is read-only inside write grants unless ``fs.protect`` says otherwise.

Files that something outside the box runs or obeys later: an agent that can write them has
left the box with a delay.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "DEFAULT_PROTECT",
    "DEVICES",
    "GIT_CONFIG",
    "GIT_FILE",
    "GIT_HEAD",
    "NEVER_BROUGHT",
    "is_folder_name",
]

_NAMES: Final = (
    # git runs hooks, and programs its configuration names
    ".git/hooks", ".git/config", ".git/config.worktree", ".git/info/attributes",
    ".git/commondir", ".git/worktrees/**/commondir", ".git/worktrees/**/gitdir",
    ".git/worktrees/**/config.worktree",
    ".git/modules/**/hooks", ".git/modules/**/config", ".git/modules/**/commondir",
    ".git/modules/**/config.worktree", ".git/modules/**/info/attributes",
    ".gitmodules", ".gitconfig", ".config/git",
    ".githooks", ".husky", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml",
    # shells and environment loaders read these when a person starts them
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc",
    ".inputrc", ".envrc", ".direnvrc", ".mise.toml", ".tool-versions",
    ".xprofile", ".xinitrc", ".xsessionrc", ".tmux.conf", ".gdbinit", ".local/bin",
    ".config/direnv", ".config/mise", ".config/environment.d",
    ".config/fish", ".config/autostart", ".config/systemd", ".ssh",
    # editors run tasks from these, other agents obey them
    ".vscode", ".idea", ".zed", ".nvim.lua", ".exrc", ".nvimrc", ".vimrc", ".vim",
    ".config/nvim", ".emacs", ".emacs.d", ".dir-locals.el",
    ".devcontainer", ".claude", ".cursor", ".codex", ".gemini", ".windsurf", ".mcp.json",
    # what decides about the agent itself
    "axon.config.py", "policy.toml", "policy.json", ".axonkernel",
)  # fmt: skip

#: Path patterns, since the default holds in every write grant.
DEFAULT_PROTECT: Final = tuple(f"/**/{name}" for name in _NAMES)

#: The file (never the folder) by which a submodule or worktree says where its repository is.
GIT_FILE: Final = "/**/.git"

#: Where this is protected, so is all else by which git runs programs (box/gitfiles.py).
GIT_CONFIG: Final = "/**/.git/config"
#: Every folder that is a repository has it, whatever its name.
GIT_HEAD: Final = "/**/HEAD"

#: Names of the list that are folders; one that a policy names and that is missing is held as
#: what its readers expect.
_FOLDERS: Final = frozenset(
    (
        "hooks", ".githooks", ".husky", "fish", "autostart", "systemd", "git", "direnv", "mise",
        "environment.d", "nvim", "bin", ".ssh", ".vscode", ".idea", ".zed", ".vim", ".emacs.d",
        ".devcontainer", ".claude", ".cursor", ".codex", ".gemini", ".windsurf", ".axonkernel",
    )
)  # fmt: skip

#: Devices that hold no data and control nothing; always usable.
DEVICES: Final = tuple(
    f"/dev/{name}"
    for name in (
        "null", "zero", "full", "random", "urandom", "tty", "fd", "stdin", "stdout", "stderr",
    )
)  # fmt: skip

#: Folders of the running host that a grant of a folder above does not bring along.
NEVER_BROUGHT: Final = ("/dev", "/run", "/tmp", "/var/tmp")


def is_folder_name(path: str) -> bool:
    """Whether what usually lies at ``path`` is a folder."""
    return path.rpartition("/")[2] in _FOLDERS
