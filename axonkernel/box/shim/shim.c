/* What lies at the name of a brokered program in a box.
 *
 * It sends its words, its folder, its variables and its standard descriptors to the supervisor,
 * which judges the call and runs exactly that outside; here signals are relayed and the outcome
 * becomes this process's own. What goes over the socket: axonkernel/broker/wire.py.
 *
 * No library: a few kilobytes that start in the time of one execve, and that no variable of the
 * loader changes. The policy does not rest on it: whoever speaks to the socket is judged alike.
 *
 * Built by scripts/build-shim.
 */

typedef unsigned char byte;
typedef unsigned int word;
typedef unsigned long size;

#define SOCKET_PATH "/run/axonkernel/broker/socket"

enum { MAX_CALL = 1 << 20, MAX_WORDS = 10000, MAX_REPLY = 1 << 16, MAX_PATH = 4096 };

/* Exit statuses: the call could not be made or its outcome is not known; it was refused. */
enum { LOST = 125, DENIED = 126 };

/* ---- The kernel ------------------------------------------------------------------------- */

#if defined(__x86_64__)

enum {
    SYS_read = 0, SYS_write = 1, SYS_close = 3, SYS_rt_sigaction = 13, SYS_rt_sigprocmask = 14,
    SYS_nanosleep = 35, SYS_getpid = 39, SYS_socket = 41, SYS_connect = 42, SYS_sendto = 44,
    SYS_sendmsg = 46, SYS_kill = 62, SYS_fcntl = 72, SYS_getcwd = 79, SYS_exit_group = 231,
    SYS_readlinkat = 267, SYS_ppoll = 271, SYS_signalfd4 = 289, SYS_prlimit64 = 302,
};

__asm__(".globl _start\n"
        "_start:\n"
        "    xor %ebp, %ebp\n"
        "    mov %rsp, %rdi\n"
        "    and $-16, %rsp\n"
        "    call run\n");

static long call6(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#elif defined(__aarch64__)

enum {
    SYS_getcwd = 17, SYS_fcntl = 25, SYS_close = 57, SYS_read = 63, SYS_write = 64,
    SYS_ppoll = 73, SYS_signalfd4 = 74, SYS_readlinkat = 78, SYS_exit_group = 94,
    SYS_nanosleep = 101, SYS_kill = 129, SYS_rt_sigaction = 134, SYS_rt_sigprocmask = 135,
    SYS_getpid = 172, SYS_socket = 198, SYS_connect = 203, SYS_sendto = 206, SYS_sendmsg = 211,
    SYS_prlimit64 = 261,
};

__asm__(".globl _start\n"
        "_start:\n"
        "    mov x29, #0\n"
        "    mov x30, #0\n"
        "    mov x0, sp\n"
        "    b run\n");

static long call6(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}

#else
#error "no system calls for this processor"
#endif

#define KERNEL(number, a, b, c, d, e, f) \
    call6(SYS_##number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* The same on both processors. */
enum { EPERM = 1, EINTR = 4, EACCES = 13, EAFNOSUPPORT = 97, ETOOMANYREFS = 109 };
enum { AT_FDCWD = -100, AT_EXECFN = 31, F_GETFD = 1, F_DUPFD_CLOEXEC = 1030 };
enum { AF_UNIX = 1, SOCK_STREAM = 1, SOCK_CLOEXEC = 02000000, SFD_CLOEXEC = 02000000 };
enum { SOL_SOCKET = 1, SCM_RIGHTS = 1, MSG_DONTWAIT = 0x40, MSG_NOSIGNAL = 0x4000 };
enum { POLLIN = 1, SIG_BLOCK = 0, SIG_UNBLOCK = 1, SIG_IGN = 1, RLIMIT_CORE = 4 };
enum { SIGHUP = 1, SIGINT = 2, SIGQUIT = 3, SIGUSR1 = 10, SIGUSR2 = 12, SIGTERM = 15,
       SIGCONT = 18, SIGTSTP = 20, SIGWINCH = 28 };

struct address { unsigned short family; char path[108]; };
struct vector { const void *base; size length; };
struct message { void *name; word name_length; struct vector *parts; size count;
                 void *control; size control_length; int flags; };
struct rights { size length; int level, type; int descriptors[3]; };
struct action { size handler, flags, restorer, mask; };
struct waited { int descriptor; short wanted, got; };
struct span { long seconds, nanoseconds; };
struct reply { byte kind, value; unsigned short zero; word length; };

/* ---- Words ------------------------------------------------------------------------------- */

static struct {
    byte magic[4];
    word length;
    word opened;
    char body[MAX_CALL];
} request;

static char answer[MAX_REPLY + 1];
static int supervisor;

static size length_of(const char *text)
{
    size length = 0;
    while (text[length])
        length++;
    return length;
}

static void leave(int status)
{
    for (;;)
        KERNEL(exit_group, status, 0, 0, 0, 0, 0);
}

/* One line on standard error, in one piece as long as it is short. */
static void say(const char *text)
{
    static char line[MAX_REPLY + 32];
    static const char start[] = "axonkernel: ";
    size length = 0, done = 0;
    for (const char *from = start; *from; from++)
        line[length++] = *from;
    for (; *text && length < sizeof line - 1; text++)
        line[length++] = *text;
    line[length++] = '\n';
    while (done < length) {
        long written = KERNEL(write, 2, line + done, length - done, 0, 0, 0);
        if (written == -EINTR)
            continue;
        if (written <= 0)
            return;
        done += written;
    }
}

static void fail(int status, const char *text)
{
    say(text);
    leave(status);
}

static void add(const char *text)
{
    size length = length_of(text) + 1;
    if (length > MAX_CALL - request.length)
        fail(DENIED, "the words and variables of this call are over 1 MiB. The call did not run.");
    for (size i = 0; i < length; i++)
        request.body[request.length + i] = text[i];
    request.length += length;
}

static void add_number(word number)
{
    char digits[12];
    size at = sizeof digits - 1;
    digits[at] = 0;
    do
        digits[--at] = '0' + number % 10;
    while (number /= 10);
    add(digits + at);
}

/* ---- The call ---------------------------------------------------------------------------- */

static void add_paths(const char *found)
{
    static char path[MAX_PATH];
    long length = KERNEL(readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof path, 0, 0);
    path[length > 0 && length < MAX_PATH ? length : 0] = 0;
    add(path);
    add(found);
    length = KERNEL(getcwd, path, sizeof path, 0, 0, 0, 0);
    /* Outside of what this process sees as / the kernel puts a word in front. */
    add(length > 0 && path[0] == '/' ? path : "");
}

static void describe(long *stack)
{
    long count = stack[0];
    char **argv = (char **)(stack + 1);
    char **env = argv + count + 1;
    long variables = 0;
    const char *found = "";
    while (env[variables])
        variables++;
    for (size *entry = (size *)(env + variables + 1); entry[0]; entry += 2)
        if (entry[0] == AT_EXECFN)
            found = (const char *)entry[1];
    if (count < 1)
        fail(DENIED, "this call has no words at all. The call did not run.");
    if (count > MAX_WORDS || variables > MAX_WORDS)
        fail(DENIED, "this call has over 10000 words or variables. The call did not run.");
    add_paths(found);
    add_number(count);
    for (long i = 0; i < count; i++)
        add(argv[i]);
    for (long i = 0; i < variables; i++)
        if (env[i][0] != '=') /* no variable; in a call that means something else */
            add(env[i]);
}

/* Looked at before there is a socket, which might get the number of a closed one. */
static void see_descriptors(void)
{
    for (int i = 0; i < 3; i++)
        if (KERNEL(fcntl, i, F_GETFD, 0, 0, 0, 0) >= 0)
            request.opened |= 1 << i;
}

static void connect_supervisor(void)
{
    static const struct address address = {AF_UNIX, SOCKET_PATH};
    long made = KERNEL(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0, 0, 0);
    if (made == -EPERM || made == -EACCES || made == -EAFNOSUPPORT)
        fail(DENIED, "this program is run by the supervisor, who cannot be asked: no unix socket "
                     "may be made here (net.unix = \"none\"). The call did not run.");
    if (made >= 0 && made < 3) {
        long low = made; /* the number of a closed one */
        made = KERNEL(fcntl, low, F_DUPFD_CLOEXEC, 3, 0, 0, 0);
        KERNEL(close, low, 0, 0, 0, 0, 0);
    }
    if (made < 0)
        fail(LOST, "no socket can be made to ask the supervisor. The call did not run.");
    supervisor = made;
    while ((made = KERNEL(connect, supervisor, &address, sizeof address, 0, 0, 0)) == -EINTR)
        ;
    if (made < 0)
        fail(LOST, "no supervisor answers at " SOCKET_PATH ": it has ended, or this is not its "
                   "box. The call did not run.");
}

/* The descriptors go with the first bytes. */
static long send_first(size total)
{
    struct vector part = {&request, total};
    struct rights rights = {0, SOL_SOCKET, SCM_RIGHTS, {0, 0, 0}};
    struct message message = {0, 0, &part, 1, &rights, 0, 0};
    int count = 0;
    for (int i = 0; i < 3; i++)
        if (request.opened >> i & 1)
            rights.descriptors[count++] = i;
    rights.length = 16 + sizeof(int) * count;
    message.control_length = count ? (rights.length + 7) & ~7UL : 0;
    return KERNEL(sendmsg, supervisor, &message, MSG_NOSIGNAL, 0, 0, 0);
}

static void send_call(void)
{
    static const struct span moment = {0, 5000000};
    static const char magic[] = "AXB1";
    size total = 12 + request.length, done = 0;
    for (int i = 0; i < 4; i++)
        request.magic[i] = magic[i];
    while (done < total) {
        long sent = done ? KERNEL(sendto, supervisor, (char *)&request + done, total - done,
                                  MSG_NOSIGNAL, 0, 0)
                         : send_first(total);
        /* So many descriptors of this user are on their way already: the supervisor takes them. */
        if (sent == -ETOOMANYREFS)
            KERNEL(nanosleep, &moment, 0, 0, 0, 0, 0);
        else if (sent > 0)
            done += sent;
        else if (sent != -EINTR)
            fail(LOST, "the supervisor did not take this call. The call did not run.");
    }
}

/* ---- The outcome ------------------------------------------------------------------------- */

static int take(void *into, size length)
{
    size done = 0;
    while (done < length) {
        long got = KERNEL(read, supervisor, (char *)into + done, length - done, 0, 0, 0);
        if (got == -EINTR)
            continue;
        if (got <= 0)
            return 0;
        done += got;
    }
    return 1;
}

static void die_of(int number)
{
    static const struct action usual;
    static const size no_core[2];
    size only = 1UL << (number - 1);
    KERNEL(prlimit64, 0, RLIMIT_CORE, no_core, 0, 0, 0);
    KERNEL(rt_sigaction, number, &usual, 0, sizeof only, 0, 0);
    KERNEL(kill, KERNEL(getpid, 0, 0, 0, 0, 0, 0), number, 0, 0, 0, 0);
    KERNEL(rt_sigprocmask, SIG_UNBLOCK, &only, 0, sizeof only, 0, 0);
    leave(128 + number);
}

/* The next reply; does not return for one that ends the call. */
static void hear(int started)
{
    struct reply reply;
    if (!take(&reply, sizeof reply) || reply.length > MAX_REPLY || !take(answer, reply.length))
        fail(LOST, started ? "the supervisor ended while the program ran, which has ended too."
                           : "the supervisor hung up. The call did not run.");
    answer[reply.length] = 0;
    if (reply.kind == 'S')
        return;
    if (answer[0])
        say(answer);
    if (reply.kind == 'K' && reply.value > 0 && reply.value < 65)
        die_of(reply.value);
    leave(reply.kind == 'E' || reply.kind == 'R' ? reply.value : LOST);
}

/* Signals that this process neither ignores nor had blocked when it was started. */
static size relayed(void)
{
    static const byte numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM,
                                   SIGCONT, SIGTSTP, SIGWINCH};
    size chosen = 0, before = 0;
    KERNEL(rt_sigprocmask, SIG_BLOCK, 0, &before, sizeof before, 0, 0);
    for (size i = 0; i < sizeof numbers; i++) {
        struct action now = {0, 0, 0, 0};
        KERNEL(rt_sigaction, numbers[i], 0, &now, sizeof before, 0, 0);
        if (now.handler != SIG_IGN)
            chosen |= 1UL << (numbers[i] - 1);
    }
    return chosen & ~before;
}

static void pass_on(byte number)
{
    KERNEL(sendto, supervisor, &number, 1, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
}

/* Stop as the program does; what continues this process continues it too. */
static void stop(void)
{
    size only = 1UL << (SIGTSTP - 1);
    KERNEL(kill, KERNEL(getpid, 0, 0, 0, 0, 0, 0), SIGTSTP, 0, 0, 0, 0);
    KERNEL(rt_sigprocmask, SIG_UNBLOCK, &only, 0, sizeof only, 0, 0);
    KERNEL(rt_sigprocmask, SIG_BLOCK, &only, 0, sizeof only, 0, 0);
    pass_on(SIGCONT);
}

static void relay(int signals)
{
    word told[32];
    if (KERNEL(read, signals, told, sizeof told, 0, 0, 0) != sizeof told)
        return;
    pass_on(told[0]);
    if (told[0] == SIGTSTP)
        stop();
}

static void follow(void)
{
    size chosen = relayed();
    KERNEL(rt_sigprocmask, SIG_BLOCK, &chosen, 0, sizeof chosen, 0, 0);
    /* Whoever reads or writes on the other sides should see the program's ends alone. */
    for (int i = 0; i < 2; i++)
        KERNEL(close, i, 0, 0, 0, 0, 0);
    int signals = KERNEL(signalfd4, -1, &chosen, sizeof chosen, SFD_CLOEXEC, 0, 0);
    for (;;) {
        struct waited both[2] = {{supervisor, POLLIN, 0}, {signals, POLLIN, 0}};
        if (KERNEL(ppoll, both, 2, 0, 0, 0, 0) < 0)
            continue;
        if (both[1].got & POLLIN)
            relay(signals);
        else if (both[0].got)
            hear(1);
    }
}

__attribute__((noreturn, used)) void run(long *stack)
{
    see_descriptors();
    describe(stack);
    connect_supervisor();
    send_call();
    hear(0);
    follow();
    for (;;)
        ;
}
