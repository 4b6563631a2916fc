"""Names that make programs load or run other code, and files that command the host.

Environment variables of the first kind pass only when they are written out in
``env.unsafe_allow``; files of the second kind are granted only with ``fs.unsafe``. Both lists
grew from faults reported against other sandboxes, where a list by exact name kept missing
one: whole families are named by prefix.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["SOCKET_VARIABLES", "control_path", "is_control", "only_controls"]

#: Families of variables that a dynamic loader or an interpreter obeys.
_PREFIXES: Final = (
    "BASH_FUNC_",
    "CARGO_BUILD_",
    "CARGO_TARGET_",
    "CORECLR_",
    "COR_",
    "DOTNET_STARTUP",
    "DYLD_",
    "ERL_",
    "GIT_",
    "LD_",
    "LUA_",
    "NPM_CONFIG_",
    "OPENSSL_",
    "PERL",
    "PYTHON",
    "npm_config_",
)

_NAME_LIST: Final = """
    PATH SHELL ENV IFS CDPATH BASH_ENV BASHOPTS SHELLOPTS PS0 PS4 PROMPT_COMMAND ZDOTDIR FPATH
    EDITOR VISUAL PAGER MANPAGER BROWSER LESSOPEN LESSCLOSE SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR
    NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE BUN_OPTIONS BUN_INSTALL ELECTRON_RUN_AS_NODE
    DENO_DIR RUBYOPT RUBYLIB GEM_PATH GEM_HOME BUNDLE_GEMFILE PHPRC PHP_INI_SCAN_DIR
    JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_OPTS CLASSPATH MAVEN_OPTS GRADLE_OPTS
    ELIXIR_ERL_OPTIONS JULIA_LOAD_PATH JULIA_DEPOT_PATH R_PROFILE R_PROFILE_USER R_ENVIRON
    R_ENVIRON_USER R_LIBS TCLLIBPATH GUILE_LOAD_PATH EMACSLOADPATH VIMINIT EXINIT MYVIMRC
    RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTFLAGS RUSTDOCFLAGS GOFLAGS GOENV GOROOT
    CC CXX CPP AR LD MAKEFLAGS GNUMAKEFLAGS MFLAGS CMAKE_TOOLCHAIN_FILE
    MAKEFILES GCC_EXEC_PREFIX COMPILER_PATH PKG_CONFIG AWKPATH AWKLIBPATH GREP_OPTIONS ZIPOPT
    LESS LESSKEY LESSKEYIN LESSKEY_SYSTEM MORE MANOPT FCEDIT VIM VIMRUNTIME PSQL_PAGER PSQL_EDITOR
    SYSTEMD_PAGER SYSTEMD_EDITOR SYSTEMD_LESS SSH_SK_HELPER SSH_SK_PROVIDER SSH_PKCS11_HELPER
    CURL_HOME WGETRC SYSTEM_WGETRC XDG_CONFIG_HOME KUBECONFIG DOCKER_CONFIG AWS_CONFIG_FILE
    APT_CONFIG KRB5_CONFIG MYSQL_HOME YARN_RC_FILENAME GOTOOLCHAIN TEXMFCNF GS_OPTIONS GS_LIB
    GLIBC_TUNABLES MALLOC_TRACE FFREPORT SSLKEYLOGFILE TERMCAP
    PIP_CONFIG_FILE PYTEST_ADDOPTS PYTEST_PLUGINS RSYNC_RSH CVS_RSH SVN_SSH HGRCPATH HGEDITOR
    TAR_OPTIONS XZ_OPT XZ_DEFAULTS GZIP BZIP BZIP2 UNZIP UNZIPOPT ZIPINFO ZIPINFOOPT
    RIPGREP_CONFIG_PATH FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS ANSIBLE_CONFIG PSQLRC
    GCONV_PATH LOCPATH HOSTALIASES NLSPATH TERMINFO TERMINFO_DIRS
    GTK_MODULES GTK_PATH GIO_EXTRA_MODULES GIO_MODULE_DIR GST_PLUGIN_PATH
    QT_PLUGIN_PATH QT_QPA_PLATFORM_PLUGIN_PATH
"""

_NAMES: Final = frozenset(_NAME_LIST.split())

#: Variables that only name a socket, and what who can reach that socket can do.
SOCKET_VARIABLES: Final = {
    "SSH_AUTH_SOCK": "sign with every key the ssh agent holds",
    "GPG_AGENT_INFO": "sign and decrypt with the keys of the gpg agent",
    "DOCKER_HOST": "start containers as root of the host",
    "CONTAINER_HOST": "start containers with the rights of the user",
    "DBUS_SESSION_BUS_ADDRESS": "start programs outside the box through the session bus",
    "DBUS_SYSTEM_BUS_ADDRESS": "ask system services for anything the user may ask",
    "XDG_RUNTIME_DIR": "reach every control socket of the user's session",
    "DISPLAY": "read the keyboard and type into other windows",
    "WAYLAND_DISPLAY": "open windows and read the clipboard",
    "TMUX": "type into the user's other terminals",
}

_CONTROL_PATHS: Final = re.compile(
    r"""
    /(?:proc|sys)
    | /run/(?:docker|podman|containerd|crio|libvirt|dbus|lxd|incus|cups|avahi-daemon)
    | /run/(?:docker|podman|snapd|snapd-snap|acpid|rpcbind)\.(?:sock|socket)
    | /run/(?:systemd|udev|nscd)/(?:private|notify|control|io\.[^/]*|socket)
    | /run/systemd/(?:journal|userdb)
    | /run/user/[^/]+/(?:bus|gnupg|keyring|systemd|podman|docker\.sock|wayland-[^/]*|pipewire-[^/]*)
    | /tmp/(?:\.X11-unix|\.ICE-unix|ssh-[^/]*|tmux-[^/]*)
    | .*/(?:docker\.sock|podman\.sock|S\.gpg-agent[^/]*|containerd\.sock)
    """,
    re.VERBOSE | re.DOTALL,
)


def is_control(name: str) -> bool:
    """Whether an environment variable makes programs load or run other code.

    Names are compared as they are, as programs do.
    """
    return name in _NAMES or name.startswith(_PREFIXES)


def only_controls(pattern: str) -> bool:
    """Whether a ``PREFIX*`` pattern can match nothing but control names."""
    return pattern.endswith("*") and pattern[:-1].startswith(_PREFIXES)


def control_path(path: str) -> str | None:
    """The control socket or kernel folder that an absolute path is, or lies in; else None."""
    path = path.removeprefix("/var") if path.startswith("/var/run/") else path
    parts = path.split("/")
    for depth in range(2, len(parts) + 1):
        folder = "/".join(parts[:depth])
        if _CONTROL_PATHS.fullmatch(folder):
            return folder
    return None
