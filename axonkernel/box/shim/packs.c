/* What lies at the names of a shell and of git itself in the box of git.
 *
 * git starts the other side of a local remote through a shell, and hooks, filters, aliases and
 * helpers too. As a shell this runs the first, with the configuration that git drops on the way
 * put back, and nothing else. And git starts itself for parts of its work, while a filter may be
 * `git-push`: as git this runs what the work of the judged subcommand is made of, and no more.
 * The real git lies where no configuration can name it.
 *
 * Built by scripts/build-shim.
 */

typedef unsigned int word;
typedef unsigned long size;

enum { MAX_PATH = 4096, MAX_CONFIG = 1 << 14, MAX_VARIABLES = 16384, DENIED = 126 };

#if defined(__x86_64__)

enum { SYS_write = 1, SYS_execve = 59, SYS_exit_group = 231 };

__asm__(".globl _start\n"
        "_start:\n"
        "    xor %ebp, %ebp\n"
        "    mov %rsp, %rdi\n"
        "    and $-16, %rsp\n"
        "    call run\n");

static long call3(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

#elif defined(__aarch64__)

enum { SYS_write = 64, SYS_exit_group = 94, SYS_execve = 221 };

__asm__(".globl _start\n"
        "_start:\n"
        "    mov x29, #0\n"
        "    mov x30, #0\n"
        "    mov x0, sp\n"
        "    b run\n");

static long call3(long number, long a, long b, long c)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}

#else
#error "no system calls for this processor"
#endif

static char path[MAX_PATH];
static char config[MAX_CONFIG];
static char *variables[MAX_VARIABLES + 2];
static const char *inner = "";

static size length_of(const char *text)
{
    size length = 0;
    while (text[length])
        length++;
    return length;
}

/* What follows a beginning of a text, or nothing. */
static const char *after(const char *text, const char *start)
{
    while (*start)
        if (*text++ != *start++)
            return 0;
    return text;
}

static void refuse(void)
{
    static const char said[] = "axonkernel: not run: hooks, filters and the like are off here\n";
    call3(SYS_write, 2, (long)said, sizeof said - 1);
    for (;;)
        call3(SYS_exit_group, DENIED, 0, 0);
}

/* One word as git quotes it: in single quotes, a quote or ! in it as '\'' or '\!'. */
static int unquote(const char *text)
{
    size length = 0;
    if (*text++ != '\'')
        return 0;
    for (;;) {
        char each = *text++;
        if (each == '\'') {
            if (!*text)
                break;
            if (text[0] != '\\' || (text[1] != '\'' && text[1] != '!') || text[2] != '\'')
                return 0;
            each = text[1];
            text += 3;
        } else if (!each) {
            return 0;
        }
        if (length + 1 >= sizeof path)
            return 0;
        path[length++] = each;
    }
    path[length] = 0;
    return length > 0;
}

/* The environment, with what is switched off; the program that it names. */
static const char *prepare(char **given, int as_shell)
{
    const char *program = 0, *found;
    static const char name[] = "GIT_CONFIG_PARAMETERS=";
    size count = 0, start = sizeof name - 1, length;
    int kept = 0;
    for (size at = 0; at < start; at++)
        config[at] = name[at];
    for (; *given; given++) {
        if (after(*given, "GIT_CONFIG_PARAMETERS=")) {
            if (as_shell)
                continue;
            kept = 1;
        }
        if ((found = after(*given, "AXONKERNEL_INNER=")))
            inner = found;
        if ((found = after(*given, "AXONKERNEL_PROGRAM=")))
            program = found;
        if ((found = after(*given, "AXONKERNEL_CONFIG="))) {
            length = length_of(found);
            if (start + length >= sizeof config)
                return 0;
            for (size at = 0; at <= length; at++)
                config[start + at] = found[at];
        }
        if (count >= MAX_VARIABLES)
            return 0;
        variables[count++] = *given;
    }
    if (!kept)
        variables[count] = config;
    return config[start] ? program : 0;
}

/* The name after the last slash. */
static const char *last_part(const char *name)
{
    for (const char *at = name; *at; at++)
        if (*at == '/')
            name = at + 1;
    return name;
}

/* Whether a word is one of a list. */
static int is_among(const char *wanted, const char *list)
{
    while (*list) {
        const char *rest = after(list, wanted);
        if (rest && (*rest == ' ' || !*rest))
            return 1;
        while (*list && *list++ != ' ')
            ;
    }
    return 0;
}

static void as_git(char **words, long count, const char *program)
{
    const char *name = after(last_part(words[0]), "git-");
    long at = 1;
    if (!name) {
        while (at + 2 < count && after(words[at], "--shallow-file"))
            at += 2;
        name = at < count ? words[at] : "";
    }
    if (program && *name && is_among(name, inner))
        call3(SYS_execve, (long)program, (long)words, (long)variables);
}

static void as_shell(char **words, long count, const char *program)
{
    static const char *const services[] = { "upload-pack", "receive-pack", "upload-archive" };
    const char *rest, *found;
    if (count < 3 || words[1][0] != '-' || words[1][1] != 'c' || words[1][2])
        return;
    rest = after(words[2], "git-");
    for (word at = 0; program && rest && at < sizeof services / sizeof *services; at++) {
        found = after(rest, services[at]);
        if (found && found[0] == ' ' && unquote(found + 1)) {
            char *started[] = { (char *)"git", (char *)services[at], path, 0 };
            call3(SYS_execve, (long)program, (long)started, (long)variables);
        }
    }
}

__attribute__((used)) void run(long *stack)
{
    long count = stack[0];
    char **words = (char **)(stack + 1);
    int shell = count > 0 && !after(last_part(words[0]), "git");
    const char *program = prepare(words + count + 1, shell);
    if (shell)
        as_shell(words, count, program);
    else if (count > 0)
        as_git(words, count, program);
    refuse();
}
