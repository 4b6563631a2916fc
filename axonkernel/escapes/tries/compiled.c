/* Attempts that have to be fast, or come in by doors that Python does not have.
 * Words: the attempt's name, then what it needs. Exit: 0 done, 1 refused, 100 + errno. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAILED = 100, NEW_USER = 0x10000000, ROUNDS = 20000 };

static int failed(void) { return FAILED + errno; }

static int show(const char *text, long size)
{
    if (size <= 0)
        return 1;
    fwrite(text, 1, (size_t)size, stdout);
    return 0;
}

#ifdef __x86_64__
static long int80(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(first), "c"(second), "d"(third)
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)result;
}

/* Pointers of the old entry have 32 bits. */
static char *low_page(int protection)
{
    void *page = mmap(NULL, 1 << 16, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    return page == MAP_FAILED ? NULL : page;
}

static int read_by_int80(const char *path)
{
    char *page = low_page(PROT_READ | PROT_WRITE);
    if (!page)
        return 1;
    strncpy(page, path, 4000);
    long file = int80(5, (long)page, O_RDONLY, 0);
    if (file < 0)
        return FAILED - (int)file;
    return show(page + 4096, int80(3, file, (long)(page + 4096), 4096));
}

static int unshare_by_int80(void)
{
    long result = int80(310, NEW_USER, 0, 0);
    return result < 0 ? FAILED - (int)result : 0;
}

static int read_by_x32(const char *path)
{
    static char data[4096];
    long file = syscall(0x40000000 | SYS_open, path, O_RDONLY, 0);
    if (file < 0)
        return failed();
    return show(data, syscall(0x40000000 | SYS_read, file, data, sizeof data));
}

/* mov eax, 20 (getpid); int 0x80; retf: called as 32-bit code, on a stack it can address. */
static int call_as_32_bits(void)
{
    static const unsigned char code[] = {0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xcb};
    char *page = low_page(PROT_READ | PROT_WRITE | PROT_EXEC);
    if (!page)
        return 1;
    memcpy(page, code, sizeof code);
    struct { unsigned offset; unsigned short selector; } __attribute__((packed)) *target =
        (void *)(page + 256);
    target->offset = (unsigned)(unsigned long)page;
    target->selector = 0x23;
    int pid;
    __asm__ volatile("mov %%rsp, %%r12\n\tmov %2, %%rsp\n\tlcall *(%1)\n\tmov %%r12, %%rsp"
                     : "=a"(pid)
                     : "r"(target), "r"(page + 0x8000)
                     : "memory", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12");
    return pid > 0 ? 0 : 1;
}
#else
static int elsewhere(void) { errno = ENOSYS; return failed(); }
#define read_by_int80(path) elsewhere()
#define unshare_by_int80() elsewhere()
#define read_by_x32(path) elsewhere()
#define call_as_32_bits() elsewhere()
#endif

static int high_flags(void)
{
    long child = syscall(SYS_clone, NEW_USER | SIGCHLD | 1L << 40, NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(0);
    return child < 0 ? failed() : 0;
}

static void *clone_from_thread(void *result)
{
    long child = syscall(SYS_clone, NEW_USER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(0);
    *(int *)result = child < 0 ? failed() : 0;
    return NULL;
}

static int namespace_from_thread(void)
{
    pthread_t thread;
    int result = 1;
    if (pthread_create(&thread, NULL, clone_from_thread, &result))
        return 1;
    pthread_join(thread, NULL);
    return result;
}

static int namespace_from_vfork(void)
{
    pid_t child = vfork();
    if (child == 0)
        _exit(syscall(SYS_unshare, NEW_USER) ? failed() : 0);
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int trace_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(failed());
        raise(SIGSTOP);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFSTOPPED(status)) {
        ptrace(PTRACE_KILL, child, NULL, NULL);
        return 0;
    }
    return WEXITSTATUS(status);
}

static char names[2][4096];
static volatile int racing = 1;

static void *exchange(void *unused)
{
    while (racing)
        syscall(SYS_renameat2, AT_FDCWD, names[0], AT_FDCWD, names[1], 2);
    return unused;
}

static int race_denied(const char *project)
{
    static char data[4096];
    char denied[4096];
    snprintf(names[0], sizeof names[0], "%s/race-link", project);
    snprintf(names[1], sizeof names[1], "%s/race-file", project);
    snprintf(denied, sizeof denied, "%s/denied", project);
    close(open(names[1], O_CREAT | O_WRONLY, 0644));
    if (symlink(denied, names[0]))
        return failed();
    pthread_t thread;
    if (pthread_create(&thread, NULL, exchange, NULL))
        return 1;
    long size = 0;
    for (int round = 0; round < ROUNDS && size <= 0; round++) {
        int file = open(names[0], O_RDONLY);
        if (file >= 0) {
            size = read(file, data, sizeof data);
            close(file);
        }
    }
    racing = 0;
    pthread_join(thread, NULL);
    return show(data, size);
}

static int race_outside(const char *project, const char *outside)
{
    char path[8192];
    int made = 0;
    snprintf(names[0], sizeof names[0], "%s/race-folder", project);
    snprintf(names[1], sizeof names[1], "%s/race-way", project);
    if (mkdir(names[0], 0755) || symlink(outside, names[1]))
        return failed();
    pthread_t thread;
    if (pthread_create(&thread, NULL, exchange, NULL))
        return 1;
    snprintf(path, sizeof path, "%s/c-race-outside", names[0]);
    for (int round = 0; round < ROUNDS; round++) {
        int file = open(path, O_CREAT | O_WRONLY, 0644);
        if (file >= 0) {
            made++;
            close(file);
        }
    }
    racing = 0;
    pthread_join(thread, NULL);
    return made ? 0 : 1;
}

static int socket_with_high_bits(void)
{
    return syscall(SYS_socket, 1L << 32 | AF_PACKET, SOCK_RAW, 0) < 0 ? failed() : 0;
}

static int ioctl_with_high_bits(void)
{
    int ours = posix_openpt(O_RDWR | O_NOCTTY);
    if (ours < 0 || grantpt(ours) || unlockpt(ours))
        return failed();
    const char *name = ptsname(ours);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        int terminal = open(name, O_RDWR);
        if (terminal < 0)
            _exit(failed());
        ioctl(terminal, TIOCSCTTY, 0);
        _exit(syscall(SYS_ioctl, terminal, 1L << 32 | TIOCSTI, "x") ? failed() : 0);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int count, char **words)
{
    const char *name = count > 1 ? words[1] : "";
    const char *first = count > 2 ? words[2] : "", *second = count > 3 ? words[3] : "";
    if (!strcmp(name, "c-int80-read"))
        return read_by_int80(first);
    if (!strcmp(name, "c-int80-unshare"))
        return unshare_by_int80();
    if (!strcmp(name, "c-x32-read"))
        return read_by_x32(first);
    if (!strcmp(name, "c-far-jump"))
        return call_as_32_bits();
    if (!strcmp(name, "c-high-flags"))
        return high_flags();
    if (!strcmp(name, "c-clone-thread"))
        return namespace_from_thread();
    if (!strcmp(name, "c-vfork"))
        return namespace_from_vfork();
    if (!strcmp(name, "c-trace-child"))
        return trace_child();
    if (!strcmp(name, "c-race-denied"))
        return race_denied(first);
    if (!strcmp(name, "c-race-outside"))
        return race_outside(first, second);
    if (!strcmp(name, "c-socket-high"))
        return socket_with_high_bits();
    if (!strcmp(name, "c-ioctl-high"))
        return ioctl_with_high_bits();
    return 1;
}
