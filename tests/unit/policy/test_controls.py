"""Names that make programs load code, and paths that command the host."""

from __future__ import annotations

import pytest

from axonkernel.policy.controls import control_path, is_control, only_controls

CONTROLS = """
    LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES PYTHONSTARTUP PYTHONPATH PYTHONHOME
    PYTHONBREAKPOINT NODE_OPTIONS NODE_PATH BUN_OPTIONS BASH_ENV ENV PERL5OPT PERL5LIB PERLLIB
    RUBYOPT RUBYLIB
    JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH PS4 SHELLOPTS LESSOPEN PAGER
    EDITOR VISUAL BASH_FUNC_x%% GIT_SSH_COMMAND GIT_SSH GIT_EXTERNAL_DIFF GIT_EXEC_PATH
    GIT_CONFIG_GLOBAL GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0 GIT_ASKPASS GIT_PAGER
    GIT_EDITOR GIT_PROXY_COMMAND PATH PROMPT_COMMAND npm_config_script_shell NPM_CONFIG_SCRIPT_SHELL
    DOTNET_STARTUP_HOOKS RUSTC_WRAPPER SSH_ASKPASS OPENSSL_CONF GCONV_PATH ZDOTDIR IFS PHPRC
    LUA_INIT ERL_AFLAGS MAKEFLAGS MAKEFILES GCC_EXEC_PREFIX AWKLIBPATH LESS LESSKEYIN ZIPOPT
    SSH_SK_HELPER SSH_PKCS11_HELPER CURL_HOME WGETRC XDG_CONFIG_HOME KUBECONFIG AWS_CONFIG_FILE
    DOCKER_CONFIG VIMRUNTIME PSQL_PAGER SYSTEMD_PAGER APT_CONFIG GLIBC_TUNABLES GOTOOLCHAIN
"""
ORDINARY = """
    GITHUB_TOKEN HOME USER LANG TERM TZ NODE_ENV CI AWS_PROFILE VIRTUAL_ENV CARGO_REGISTRY_TOKEN
    GITHUB_SHA JAVA_HOME ld_preload path PERIOD LESSCHARSET CURL_CA_BUNDLE VIMMODE
    AWS_REGION KUBE_CONTEXT MORELIKE GOARCH XDG_DATA_HOME
"""


@pytest.mark.parametrize("name", CONTROLS.split())
def test_a_loader_or_interpreter_control_is_known(name: str) -> None:
    """Each of these has run code in an approved program somewhere."""
    assert is_control(name)


@pytest.mark.parametrize("name", ORDINARY.split())
def test_an_ordinary_variable_is_not_one(name: str) -> None:
    """Names are compared exactly, and what only carries data passes."""
    assert not is_control(name)


@pytest.mark.parametrize(
    ("pattern", "only"),
    [
        ("GIT_*", True),
        ("LD_P*", True),
        ("PYTHON*", True),
        ("GIT*", False),
        ("*", False),
        ("A*", False),
    ],
)
def test_a_glob_of_controls_only_is_seen(pattern: str, only: bool) -> None:
    """``GIT*`` still matches GITHUB_TOKEN; ``GIT_*`` matches nothing a glob may cover."""
    assert only_controls(pattern) is only


@pytest.mark.parametrize(
    ("path", "control"),
    [
        ("/proc", "/proc"),
        ("/proc/1/environ", "/proc"),
        ("/sys/fs/cgroup", "/sys"),
        ("/run/docker.sock", "/run/docker.sock"),
        ("/var/run/docker.sock", "/run/docker.sock"),
        ("/run/dbus/system_bus_socket", "/run/dbus"),
        ("/run/systemd/private", "/run/systemd/private"),
        ("/run/user/1000/bus", "/run/user/1000/bus"),
        ("/home/ann/.docker/run/docker.sock", "/home/ann/.docker/run/docker.sock"),
        ("/tmp/.X11-unix/X0", "/tmp/.X11-unix"),
        ("/tmp/ssh-abc/agent.1", "/tmp/ssh-abc"),
        ("/home/ann/.gnupg/S.gpg-agent.extra", "/home/ann/.gnupg/S.gpg-agent.extra"),
        ("/process", None),
        ("/", None),
        ("/run", None),
        ("/run/systemd/resolve", None),
        ("/srv/proc", None),
        ("/home/ann/docker.sock.md", None),
    ],
)
def test_a_control_path_is_told_from_a_look_alike(path: str, control: str | None) -> None:
    """By component, through the /var/run alias, and not by a shared beginning."""
    assert control_path(path) == control
