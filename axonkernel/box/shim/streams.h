/* Standard descriptors, and what is given away for them.
 *
 * Pipes, sockets, terminals and the likes of /dev/null are given away themselves. A file is more
 * than a stream: through /proc it can be opened again, or started as a program where the
 * program's own box starts no file that was written. So the program gets a pipe for one, and the
 * bytes are copied here, by a process that has the file anyway. Folders and devices that are no
 * streams are as good as closed. The supervisor takes nothing else.
 */

enum { COPIED_BYTES = 1 << 17, PIPE_BYTES = 1 << 20 };

struct copied {
    int pipe;      /* this process's end of it; -1: there is none, or nothing more to copy */
    int by_hand;   /* splice(2) does not go there: files opened for appending, some of /proc */
    size from, to; /* of data, what was read and is not written */
    byte data[COPIED_BYTES];
};

static struct copied streams[3];
static int given[3]; /* -1 for /dev/null */
static int unwritten;

static int high(long descriptor)
{
    long moved = descriptor;
    if (descriptor >= 0 && descriptor < 3) { /* the number of a closed one */
        moved = KERNEL(fcntl, descriptor, F_DUPFD_CLOEXEC, 3, 0, 0, 0);
        KERNEL(close, descriptor, 0, 0, 0, 0, 0);
    }
    return moved;
}

static int is_plain(const struct status *status)
{
    word minor = status->special_minor;
    return status->special_major == 1 && (minor == 3 || minor == 5 || (minor >= 7 && minor <= 9));
}

/* S_IFIFO for what is given away itself, S_IFREG for what is copied, 0 for what is closed. */
static int kind_of(int descriptor, struct status *status)
{
    byte settings[64];
    long flags = KERNEL(fcntl, descriptor, F_GETFL, 0, 0, 0, 0);
    if (flags < 0 || flags & O_PATH
        || KERNEL(statx, descriptor, "", AT_EMPTY_PATH, STATX_BASIC, status, 0) < 0)
        return 0;
    switch (status->mode & S_IFMT) {
    case S_IFIFO:
    case S_IFSOCK:
        return S_IFIFO;
    case S_IFREG:
        return S_IFREG;
    case S_IFCHR:
        if (is_plain(status) || KERNEL(ioctl, descriptor, TCGETS, settings, 0, 0, 0) >= 0)
            return S_IFIFO;
    }
    return 0;
}

/* A pipe in place of a file: 0 when there is none to be had. */
static int copy(int number)
{
    int ends[2], ours = number == 0;
    if (KERNEL(pipe2, ends, O_CLOEXEC, 0, 0, 0, 0) < 0)
        return 0;
    ends[0] = high(ends[0]);
    ends[1] = high(ends[1]);
    KERNEL(fcntl, ends[ours], F_SETFL, O_NONBLOCK, 0, 0, 0);
    KERNEL(fcntl, ends[ours], F_SETPIPE_SZ, PIPE_BYTES, 0, 0, 0);
    streams[number].pipe = ends[ours];
    given[number] = ends[!ours];
    return 1;
}

/* What is given away; 0 when it cannot be made. */
static int prepare_streams(void)
{
    struct status seen[3];
    int kinds[3];
    for (int i = 0; i < 3; i++)
        kinds[i] = kind_of(i, seen + i);
    for (int i = 0; i < 3; i++) {
        streams[i].pipe = -1;
        given[i] = kinds[i] == S_IFIFO ? i : -1;
        if (kinds[i] != S_IFREG)
            continue;
        /* What is written to both outputs stays in order. */
        if (i == 2 && kinds[1] == S_IFREG && seen[1].inode == seen[2].inode
            && seen[1].major == seen[2].major && seen[1].minor == seen[2].minor)
            given[2] = given[1];
        else if (!copy(i))
            return 0;
    }
    return 1;
}

/* The others have what was given away. Whoever reads or writes there should see the ends of the
 * program alone; standard error is for what there is to say. */
static void let_go(void)
{
    for (int i = 1; i < 3; i++)
        if (given[i] >= 3 && (i == 1 || given[2] != given[1]))
            KERNEL(close, given[i], 0, 0, 0, 0, 0);
    for (int i = 0; i < 2; i++)
        if (given[i] == i)
            KERNEL(close, i, 0, 0, 0, 0, 0);
}

static void stop_copying(struct copied *stream)
{
    KERNEL(close, stream->pipe, 0, 0, 0, 0, 0);
    stream->pipe = -1;
}

/* Move what there is without a copy: how much, or a negative number if nothing now. 0 is the end
 * of it, and what cannot be done in this way. */
static long moved(struct copied *stream, int from, int to)
{
    if (stream->by_hand)
        return 0;
    long done = KERNEL(splice, from, 0, to, 0, PIPE_BYTES, SPLICE_F_NONBLOCK);
    if (done >= 0 || done == -EAGAIN || done == -EINTR)
        return done;
    stream->by_hand = 1;
    return 0;
}

/* Give the program more of standard input. */
static void feed(void)
{
    struct copied *in = streams;
    if (moved(in, 0, in->pipe))
        return;
    if (in->from == in->to) {
        long got = KERNEL(read, 0, in->data, COPIED_BYTES, 0, 0, 0);
        if (got == -EINTR)
            return;
        in->from = 0;
        in->to = got > 0 ? got : 0;
        if (got <= 0) { /* its end, or it cannot be read, which is one too */
            stop_copying(in);
            return;
        }
    }
    long put = KERNEL(write, in->pipe, in->data + in->from, in->to - in->from, 0, 0, 0);
    if (put > 0)
        in->from += put;
}

/* Write what the program has written; 0 when there is no more for now. */
static int drain(int number)
{
    struct copied *out = streams + number;
    long got = moved(out, out->pipe, number);
    if (got)
        return got != -EAGAIN;
    got = KERNEL(read, out->pipe, out->data, COPIED_BYTES, 0, 0, 0);
    if (got == -EINTR)
        return 1;
    if (got == -EAGAIN)
        return 0;
    if (got <= 0) {
        stop_copying(out);
        return 0;
    }
    for (long done = 0; done < got;) {
        long put = KERNEL(write, number, out->data + done, got - done, 0, 0, 0);
        if (put <= 0 && put != -EINTR) {
            unwritten = 1;
            stop_copying(out); /* the program gets SIGPIPE */
            return 0;
        }
        done += put > 0 ? put : 0;
    }
    return 1;
}

/* The program has ended: write what it wrote, give back what it did not read. */
static void finish_streams(void)
{
    int unread = 0;
    for (int i = 1; i < 3; i++)
        while (streams[i].pipe >= 0 && drain(i))
            ;
    if (given[0] < 3)
        return;
    KERNEL(ioctl, given[0], FIONREAD, &unread, 0, 0, 0);
    long back = unread + (long)(streams[0].to - streams[0].from);
    if (back)
        KERNEL(lseek, 0, -back, SEEK_CUR, 0, 0, 0);
}
