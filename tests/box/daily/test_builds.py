"""A day of building: C, C++, Java and Node programs are compiled, tested and run."""

from __future__ import annotations

import pytest

from box.daily.hello import UNPACK
from box.daily.session import Day, Work

pytestmark = [pytest.mark.box, pytest.mark.programs, pytest.mark.usefixtures("leftovers")]

C_POLICY = """
default = "deny"
[fs]
write = ["./project"]
[shell]
allow = ["gcc", "g++", "make", "ar", "ranlib", "nm", "strip", "ldd", "cat", "rm", "cp", "mkdir"]
"""

C_WORKS = [
    Work(
        "make with a library, tests and a clean",
        """
$ make -s -j2 check
6 x 7 = 42
$ make -s check
6 x 7 = 42
$ make -q all
$ make -s clean
$ make -q all
[1]
""",
        {
            "Makefile": (
                "all: app\n"
                "%.o: %.c times.h\n\t$(CC) -Wall -O1 -c $< -o $@\n"
                "libtimes.a: times.o\n\t$(AR) rcs $@ $^\n"
                "app: main.o libtimes.a\n\t$(CC) -o $@ main.o -L. -ltimes\n"
                "check: app\n\t./app | cat\n"
                "clean:\n\trm -f app *.o *.a\n"
            ),
            "times.h": "int times(int, int);\n",
            "times.c": '#include "times.h"\nint times(int a, int b) { return a * b; }\n',
            "main.c": '#include <stdio.h>\n#include "times.h"\n'
            'int main(void) { printf("6 x 7 = %d\\n", times(6, 7)); }\n',
        },
    ),
    Work(
        "a shared library, found by a run path and by dlopen",
        """
$ gcc -shared -fPIC -o libhi.so hi.c
$ gcc -o linked linked.c -L. -lhi -Wl,-rpath,$ORIGIN
$ gcc -o opened opened.c
$ ./linked
hi
$ ./opened
hi
""",
        {
            "hi.c": '#include <stdio.h>\nvoid hi(void) { puts("hi"); }\n',
            "linked.c": "void hi(void);\nint main(void) { hi(); }\n",
            "opened.c": "#include <dlfcn.h>\nint main(void) {\n"
            ' void (*hi)(void) = dlsym(dlopen("./libhi.so", RTLD_NOW), "hi"); hi(); }\n',
        },
    ),
    Work(
        "threads, processes and math in C",
        """
$ gcc -O2 -Wall -Wextra -Werror -pthread -o app app.c -lm
$ ./app
thread 5.0
child 7
$ strip app
$ ./app
...
""",
        {
            "app.c": "#include <math.h>\n#include <pthread.h>\n#include <stdio.h>\n"
            "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
            'static void *run(void *p) { printf("thread %.1f\\n", sqrt(*(double *)p));'
            " return NULL; }\n"
            "int main(void) { double x = 25; pthread_t t; pthread_create(&t, NULL, run, &x);\n"
            " pthread_join(t, NULL); fflush(stdout); int s; if (fork() == 0) exit(7); wait(&s);\n"
            ' printf("child %d\\n", WEXITSTATUS(s)); }\n'
        },
    ),
    Work(
        "errors of the compiler and of a program",
        """
$ gcc -fsyntax-only bad.c
bad.c:...error:...
[1]
$ gcc -o crash crash.c
$ make -s broken
...Error 3
[2]
""",
        {
            "bad.c": "int main(void) { return x; }\n",
            "crash.c": "int main(void) { return 3; }\n",
            "Makefile": "broken:\n\t./crash\n",
        },
    ),
    Work(
        "C++ with its library",
        """
$ g++ -std=c++17 -O1 -o app app.cpp
$ ./app
a b
caught
""",
        {
            "app.cpp": "#include <iostream>\n#include <map>\n#include <stdexcept>\n"
            '#include <string>\n#include <thread>\nint main() { std::map<std::string, int> m{{"b",'
            ' 1}, {"a", 2}};\n const char *s = ""; for (auto &[k, v] : m) { std::cout << s << k;'
            ' s = " "; }\n std::thread([] { std::cout << std::endl; }).join();\n'
            ' try { throw std::runtime_error("caught"); } catch (std::exception &e)'
            " { std::cout << e.what() << std::endl; } }\n"
        },
    ),
    Work(
        "the parts of a compiler run one by one",
        """
$ gcc -E -P -o a.i a.c
$ gcc -S -o a.s a.i
$ gcc -c -g -o a.o a.s
$ nm a.o
...T main
$ gcc -static -o a a.o
$ ./a
[4]
""",
        {"a.c": "#define FOUR 4\nint main(void) { return FOUR; }\n"},
    ),
]

NODE_POLICY = """
default = "deny"
[fs]
write = ["./project"]
[shell]
allow = ["node", "npm", "sh", "tar"]
"""

NODE_WORKS = [
    Work(
        "a script with modules of both kinds and files",
        """
$ node main.mjs
{"six":6,"lines":["a","b"]}
""",
        {
            "main.mjs": "import fs from 'node:fs/promises';\nimport six from './six.cjs';\n"
            "await fs.writeFile('f', 'a\\nb');\n"
            "const lines = (await fs.readFile('f', 'utf8')).split('\\n');\n"
            "console.log(JSON.stringify({six, lines}));\n",
            "six.cjs": "module.exports = 6;\n",
        },
    ),
    Work(
        "worker threads and child processes",
        """
$ node main.js
worker 42
child ok
code 3
""",
        {
            "main.js": "const {Worker, isMainThread, parentPort} = require('worker_threads');\n"
            "const {fork, spawn} = require('child_process');\n"
            "if (!isMainThread) { parentPort.postMessage(6 * 7); }\n"
            "else if (process.send) { process.send('ok', () => process.disconnect()); }\n"
            "else new Worker(__filename).on('message', n => { console.log('worker', n);\n"
            " fork(__filename).on('message', m => { console.log('child', m);\n"
            "  spawn(process.execPath, ['-e', 'process.exit(3)'])"
            ".on('exit', c => console.log('code', c)); }); });\n"
        },
    ),
    Work(
        "a server on loopback, fetch, streams and compression",
        """
$ node main.mjs
200 hello
hello
""",
        {
            "main.mjs": "import http from 'node:http';\nimport zlib from 'node:zlib';\n"
            "const server = http.createServer((q, r) => r.end('hello'));\n"
            "await new Promise(go => server.listen(0, '127.0.0.1', go));\n"
            "const url = `http://127.0.0.1:${server.address().port}`;\n"
            "http.get(url, async r => { let s = ''; for await (const c of r) s += c;\n"
            " console.log(r.statusCode, s); server.close();\n"
            " console.log(zlib.gunzipSync(zlib.gzipSync(s)).toString()); });\n"
        },
    ),
    Work(
        "npm: pack, install from a tarball without a network, run scripts",
        """
$ tar -czf greet-1.0.0.tgz package
$ npm install --offline --no-audit --no-fund ./greet-1.0.0.tgz
...added 1 package...
$ node -p "require('greet')()"
hello
$ npm run -s words
from a script
$ npm test -s
tested
$ npm ls
...greet@1.0.0...
$ npm pack -s
app-1.0.0.tgz
""",
        {
            "package/package.json": '{"name": "greet", "version": "1.0.0"}',
            "package/index.js": "module.exports = () => 'hello';\n",
            "package.json": '{"name": "app", "version": "1.0.0", "scripts":'
            ' {"words": "node say.js from a script", "test": "echo tested"}}',
            "say.js": "console.log(process.argv.slice(2).join(' '));\n",
        },
    ),
    Work(
        "npm ci from a lock file, and a program of a package",
        """
$ npm install --offline --no-audit --no-fund --package-lock-only
...
$ npm ci --offline --no-audit --no-fund
...added 1 package...
$ npm exec --offline -- hi
hi there
""",
        {
            "tool/package.json": '{"name": "tool", "version": "1.0.0", "bin": {"hi": "hi.js"}}',
            "tool/hi.js": "#!/usr/bin/env node\nconsole.log('hi there');\n",
            "package.json": '{"name": "app", "version": "1.0.0", "dependencies":'
            ' {"tool": "file:./tool"}}',
        },
    ),
]

JAVA_POLICY = """
default = "deny"
[fs]
write = ["./project"]
[shell]
allow = ["java"]
"""

JAVA_WORKS = [
    Work(
        "a program with files, threads and sockets",
        """
$ /usr/bin/python3 unpack.py
$ java -XX:TieredStopAtLevel=1 Hello you
hello you
text
42
7
""",
        {"unpack.py": UNPACK},
    ),
    Work("the machine itself", "$ java -Xshare:auto -version\n...Server VM..."),
]


@pytest.mark.parametrize("work", C_WORKS, ids=lambda work: work.title)
def test_c(day: Day, work: Work) -> None:
    """The session goes as it would outside."""
    day.check(C_POLICY, C_WORKS, work)


@pytest.mark.parametrize("work", NODE_WORKS, ids=lambda work: work.title)
def test_node(day: Day, work: Work) -> None:
    """The session goes as it would outside."""
    day.check(NODE_POLICY, NODE_WORKS, work)


@pytest.mark.parametrize("work", JAVA_WORKS, ids=lambda work: work.title)
def test_java(day: Day, work: Work) -> None:
    """The session goes as it would outside."""
    day.check(JAVA_POLICY, JAVA_WORKS, work)
