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

#include "kernel.h"
#include "streams.h"

#define SOCKET_PATH "/run/axonkernel/broker/socket"

enum { MAX_CALL = 1 << 20, MAX_WORDS = 10000, MAX_REPLY = 1 << 16, MAX_PATH = 4096 };

/* Exit statuses: the call could not be made or its outcome is not known; it was refused. */
enum { LOST = 125, DENIED = 126 };

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

static void connect_supervisor(void)
{
    static const struct address address = {AF_UNIX, SOCKET_PATH};
    long made = KERNEL(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0, 0, 0);
    if (made == -EPERM || made == -EACCES || made == -EAFNOSUPPORT)
        fail(DENIED, "this program is run by the supervisor, who cannot be asked: no unix socket "
                     "may be made here (net.unix, or a narrowed request). The call did not run.");
    supervisor = high(made);
    if (supervisor < 0)
        fail(LOST, "no socket can be made to ask the supervisor. The call did not run.");
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
        if (given[i] >= 0)
            rights.descriptors[count++] = given[i];
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
    for (int i = 0; i < 3; i++)
        request.opened |= (given[i] >= 0) << i;
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
    if (!take(&reply, sizeof reply) || reply.length > MAX_REPLY || !take(answer, reply.length)) {
        finish_streams();
        fail(LOST, started ? "the supervisor ended while the program ran, which has ended too."
                           : "the supervisor hung up. The call did not run, or was ended at once.");
    }
    answer[reply.length] = 0;
    if (reply.kind == 'S')
        return;
    finish_streams();
    if (answer[0])
        say(answer);
    if (unwritten)
        say("not all of the program's output could be written.");
    if (reply.kind == 'K' && reply.value > 0 && reply.value < 65)
        die_of(reply.value);
    if (reply.kind == 'E' && !reply.value && unwritten)
        leave(1);
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
    int signals = KERNEL(signalfd4, -1, &chosen, sizeof chosen, SFD_CLOEXEC, 0, 0);
    for (;;) {
        /* One without a number is passed over. */
        struct waited all[] = {{supervisor, POLLIN, 0},      {signals, POLLIN, 0},
                               {streams[0].pipe, POLLOUT, 0}, {streams[1].pipe, POLLIN, 0},
                               {streams[2].pipe, POLLIN, 0}};
        if (KERNEL(ppoll, all, 5, 0, 0, 0, 0) < 0)
            continue;
        if (all[1].got & POLLIN)
            relay(signals);
        if (all[2].got)
            feed();
        for (int i = 1; i < 3; i++)
            if (all[2 + i].got)
                drain(i);
        if (all[0].got)
            hear(1);
    }
}

__attribute__((noreturn, used)) void run(long *stack)
{
    if (!prepare_streams())
        fail(LOST, "no pipe can be made for a file among its streams. The call did not run.");
    describe(stack);
    connect_supervisor();
    send_call();
    hear(0);
    let_go();
    follow();
    for (;;)
        ;
}
