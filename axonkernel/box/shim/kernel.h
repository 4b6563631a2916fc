/* System calls without a library: numbers, constants and structures of the two processors. */

typedef unsigned char byte;
typedef unsigned int word;
typedef unsigned long size;

#if defined(__x86_64__)

enum {
    SYS_read = 0, SYS_write = 1, SYS_close = 3, SYS_lseek = 8, SYS_rt_sigaction = 13,
    SYS_rt_sigprocmask = 14, SYS_ioctl = 16, SYS_nanosleep = 35, SYS_getpid = 39,
    SYS_socket = 41, SYS_connect = 42, SYS_sendto = 44, SYS_sendmsg = 46, SYS_kill = 62,
    SYS_fcntl = 72, SYS_getcwd = 79, SYS_exit_group = 231, SYS_readlinkat = 267,
    SYS_ppoll = 271, SYS_splice = 275, SYS_signalfd4 = 289, SYS_pipe2 = 293,
    SYS_prlimit64 = 302, SYS_statx = 332,
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
    SYS_getcwd = 17, SYS_fcntl = 25, SYS_ioctl = 29, SYS_close = 57, SYS_pipe2 = 59,
    SYS_lseek = 62, SYS_read = 63, SYS_write = 64, SYS_ppoll = 73, SYS_signalfd4 = 74,
    SYS_splice = 76, SYS_readlinkat = 78, SYS_exit_group = 94, SYS_nanosleep = 101, SYS_kill = 129,
    SYS_rt_sigaction = 134, SYS_rt_sigprocmask = 135, SYS_getpid = 172, SYS_socket = 198,
    SYS_connect = 203, SYS_sendto = 206, SYS_sendmsg = 211, SYS_prlimit64 = 261,
    SYS_statx = 291,
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
enum { EPERM = 1, EINTR = 4, EAGAIN = 11, EACCES = 13, EAFNOSUPPORT = 97, ETOOMANYREFS = 109 };
enum { AT_FDCWD = -100, AT_EMPTY_PATH = 0x1000, AT_EXECFN = 31, STATX_BASIC = 0x7ff };
enum { F_GETFL = 3, F_DUPFD_CLOEXEC = 1030, F_SETPIPE_SZ = 1031, SEEK_CUR = 1 };
enum { SPLICE_F_NONBLOCK = 2 };
enum { O_PATH = 010000000, O_CLOEXEC = 02000000, O_NONBLOCK = 04000, F_SETFL = 4 };
enum { S_IFMT = 0170000, S_IFIFO = 0010000, S_IFCHR = 0020000, S_IFREG = 0100000,
       S_IFSOCK = 0140000, TCGETS = 0x5401, FIONREAD = 0x541b };
enum { AF_UNIX = 1, SOCK_STREAM = 1, SOCK_CLOEXEC = 02000000, SFD_CLOEXEC = 02000000 };
enum { SOL_SOCKET = 1, SCM_RIGHTS = 1, MSG_DONTWAIT = 0x40, MSG_NOSIGNAL = 0x4000 };
enum { POLLIN = 1, POLLOUT = 4, SIG_BLOCK = 0, SIG_UNBLOCK = 1, SIG_IGN = 1, RLIMIT_CORE = 4 };
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
/* struct statx, as far as it is of use here. */
struct status { word before[7]; unsigned short mode, pad; size inode; word between[22];
                word special_major, special_minor, major, minor; word after[28]; };
